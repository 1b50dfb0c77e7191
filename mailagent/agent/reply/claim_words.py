"""The words by which claims about refunds are recognised, in English, German, French and Spanish.

Lists of words only; how they make a claim stands in `clause` and `claims`. A new word goes into the
line of its language. A new language gets a line here, in `idioms`, `assertion_words` and `gift_words`,
its common words in `languages` and its letters in `spelling`.
"""

from __future__ import annotations

import re


def _words(*lists: str) -> frozenset[str]:
    return frozenset(" ".join(lists).split())


def _inflected(stems: str, endings: str) -> str:
    """Return every stem with every ending; "-" stands for none."""
    tails = endings.replace("-", "|").split("|")
    return " ".join(stem + tail.strip() for stem in stems.split() for tail in tails)


def _french(stems: str) -> str:
    return _inflected(stems, "|e|s|es")


def _spanish(stems: str) -> str:
    return _inflected(stems, "o|a|os|as")


# The money itself, and other words for a sum of it.
REFUND = _words(
    "refund refunds reimbursement reimbursements repayment",
    "erstattung erstattungen rückerstattung rückerstattungen rückzahlung rückzahlungen gutschrift",
    "erstattungsbetrag rückerstattungsbetrag",
    "remboursement remboursements virement virements",
    "reembolso reembolsos reintegro reintegros devolución devoluciones",
)
MONEY = _words(
    "money funds amount sum cash",
    "geld betrag summe kaufpreis",
    "argent montant somme fonds",
    "dinero importe suma monto",
)
AMOUNT = "¤"  # stands where an amount stood

# Said of a refund only: paid.
PAID = _words(
    "refunded reimbursed repaid reversed compensated",
    "erstattet rückerstattet zurückerstattet zurückgezahlt zurückbezahlt zurücküberwiesen",
    "zurückgebucht rücküberwiesen ausgezahlt ausbezahlt gutgeschrieben erstattete erstatteten",
    "erstatteter erstattetes",
    _french("remboursé recrédité reversé"),
    _spanish("reembolsad reintegrad"),
    "reembolsé rimborsato rimborsata rimborsati terugbetaald teruggestort estornado estornada",
)
# Paid, when it is said of a refund or of money.
MOVED = _words(
    "sent transferred wired credited deposited returned remitted applied",
    "überwiesen geschickt gesendet angekommen eingegangen zurückgeschickt zurückgesendet",
    _french("versé viré crédité envoyé renvoyé transféré restitué rendu arrivé"),
    _spanish("abonad ingresad transferid devuelt enviad acreditad"),
    "devolvimos abonamos ingresamos",
)
# Paid, when it is said of an account.
CREDITED = _words("credited", _french("crédité"), _spanish("acreditad"))
ACCOUNT = _words("account konto compte cuenta")
# Paid, when it is said of a refund.
DONE = _words(
    "paid issued processed completed executed finalised finalized released settled made arrived",
    "bezahlt gezahlt durchgeführt ausgeführt abgeschlossen vorgenommen verbucht gebucht bearbeitet",
    "erfolgt erteilt",
    _french("payé effectué traité émis finalisé exécuté réalisé réglé fait procédé"),
    _spanish("pagad emitid procesad realizad efectuad tramitad completad ejecutad hech procedid"),
)
# Approved, said of anything a customer can ask for.
APPROVED = _words(
    "approved authorised authorized granted",
    "genehmigt bewilligt freigegeben gewährt zugesagt",
    _french("approuvé accordé autorisé validé"),
    _spanish("aprobad autorizad concedid validad"),
)
# On its way, when it is said of a refund.
STARTED = _words(
    "initiated started triggered arranged scheduled queued accepted confirmed",
    "veranlasst eingeleitet angestoßen angewiesen beauftragt gestartet akzeptiert ausgelöst",
    "angenommen",
    _french("lancé initié engagé déclenché programmé ordonné accepté confirmé"),
    _spanish("iniciad lanzad ordenad programad gestionad aceptad confirmad"),
)
# Paid, when it is said of a refund or of money.
THERE = re.compile(
    r"\b(?:(?:went|gone) (?:through|out)|(?:is|are|was) (?:now |already )?(?:back|complete|done"
    r"|finished|successful)|taken care of|haben sie (?:bald |schon |bereits )?(?:wieder|zurück)"
    r"|(?:in|on|into) your (?:bank )?(?:account|card)|ist (?:bereits |schon |nun |jetzt )?(?:zurück"
    r"|erledigt|da|raus)|ist \w+ da|auf ihrem konto|est (?:déjà )?(?:fait|terminé)|sur votre compte"
    r"|está (?:ya )?(?:hecho|listo|completo)|en su cuenta)\b"
)
THERE_AMOUNT = re.compile(
    r"\b(?:is|are|was|were|be|been)(?: \w+){0,2} (?:in|on|into|with) your (?:bank )?(?:account|card)\b"
    r"|\bback (?:in|on|into|to) your\b|\bauf ihrem konto\b|\bsur votre compte\b|\ben su cuenta\b"
)
ON_THE_WAY = re.compile(
    r"\b(?:on (?:its|the|their) way|under way|underway|in progress|in the pipeline"
    r"|unterwegs|auf dem weg|in bearbeitung|en route|en chemin"
    r"|en cours(?! d (?:examen|approbation|étude)| de (?:validation|vérification))"
    r"|en camino|de camino|en curso|en trámite|en proceso(?! de (?:revisión|aprobación)))\b"
)

# To give money back: of a refund only, or of money.
TO_REFUND = _words(
    "refund reimburse repay compensate",
    "erstatten zurückerstatten rückerstatten zurückzahlen zurückbezahlen",
    "zurücküberweisen auszahlen ausbezahlen gutschreiben",
    "rembourser recréditer reverser",
    "reembolsar reembolsarle reembolsarte reintegrar reintegrarle",
)
TO_MOVE = _words(
    "credit pay return transfer send issue process give make arrange wire deposit initiate offer",
    "guarantee promise",
    "überweisen zahlen schicken senden veranlassen durchführen vornehmen anweisen zurückgeben",
    "verser virer créditer envoyer transférer payer rendre restituer effectuer émettre",
    "devolver devolverle devolverte abonar abonarle ingresar ingresarle transferir pagar enviar",
    "acreditar realizar tramitar efectuar emitir",
)
# The same in the future or the present, of which the verb itself tells.
WILL_REFUND = _words(
    "refunding reimbursing repaying",
    "erstatte rembourserons rembourserai remboursera rembourseront remboursons recréditerons",
    "reverserons reverserai reversera",
    "reembolsaremos reembolsaré reembolsará reembolsarán reembolsamos reembolsando reintegraremos",
    "reintegraré reintegrará rimborseremo terugbetalen",
)
WILL_MOVE = _words(
    "crediting transferring sending paying issuing processing returning",
    "überweise überweisen",
    "verserons verserai versera créditerons créditerai créditera virerons versons créditons",
    "rendrons procédons procède",
    "abonaremos abonaré abonará devolveremos devolveré devolverá ingresaremos ingresaré ingresará",
    "pagaremos pagaré pagará abonamos devolvemos ingresamos procedemos procedo enviaremos",
    "enviamos",
    "tramitando procesando gestionando realizando devolviendo abonando",
)
FUTURE = _words(
    "will ll shall gonna",
    "wird werden werde wirst",
    "sera seront serez allons allez vais vas va vont",
    "será serán vamos voy van",
)
# Not certain, but the customer counts on it.
EXPECTED = FUTURE | _words("should sollte sollten devrait devraient debería deberían")
WE = _words("i we", "ich wir", "je j nous on", "yo nosotros nosotras")
# What the customer gets or has got.
YOU_GET = _words(
    "receive get have see find expect receiving getting expecting",
    "erhalten bekommen kriegen erhältst bekommst zurückbekommen zurückerhalten wiederbekommen",
    "recevrez recevez recevras aurez récupérerez obtiendrez recevoir",
    "recibirá recibirás recibirán recibe tendrá obtendrá recuperará verá recibir",
)
YOU_GOT = _words("received got", "erhalten bekommen", "reçu reçus", "recibido")
ARRIVES = _words(
    "arrive reach appear show land follow come go be arrives reaches appears shows lands",
    "ankommen eingehen erscheinen eintreffen erfolgen kommt geht erfolgt trifft folgt",
    "arrivera apparaîtra parviendra suivra arrive arriver apparaître parvenir",
    "llegará aparecerá verá hará llega estará llegar aparecer",
)
# Mail that the customer gets; not money.
PAPER = _words(
    "receipt receipts confirmation email mail reply answer message news update decision word",
    "quittung beleg bestätigung mail antwort nachricht bescheid entscheidung",
    "reçu confirmation courriel réponse message nouvelles décision justificatif",
    "recibo justificante comprobante confirmación correo respuesta mensaje noticias decisión",
)
RECEIPT = _words("receipt receipts quittung beleg justificatif recibo justificante comprobante")

ASKED_FOR = _words(
    "requested submitted filed proposed forwarded opened",
    "beantragt eingereicht angefragt vorgeschlagen vorgelegt weitergeleitet",
    "demandé soumis transmis proposé",
    "solicitado presentado propuesto remitido",
)
MANAGER = _words(
    "manager managers manageress supervisor supervisors boss",
    "managerin leitung geschäftsleitung geschäftsführung filialleitung vorgesetzte vorgesetzten",
    "vorgesetzter chef chefin",
    "responsable responsables gérant gérante directeur directrice",
    "gerente gerentes encargado encargada supervisora jefe jefa",
)
DECISION = re.compile(
    r"\b(?:approv|authori[sz]|agree|decid|decision|confirms?\b|accept|genehmig|zustimm|zugestimmt"
    r"|entscheid|entschied|entschlie|frei(?:gibt|geben|gegeb)|bewillig|freigabe|approuv|accord|valid"
    r"|décid|décision|aprueb|aprob|autoriz|acept|decid|decisi)"
)
# Things that a refund request may be made into, although no tool gives them.
GIFT = _words(
    "discount discounts voucher vouchers coupon coupons replacement replacements compensation",
    "gutschein gutscheine rabatt ersatz ersatzlieferung ersatzgerät ersatzartikel entschädigung",
    "remise réduction remplacement dédommagement",
    "vale cupón descuento reemplazo sustitución compensación",
)
GIVE = _words(
    "send sending sent give given gave offer issue issued applied added arranged receive get ship",
    "schicken senden sende schicke geben gewähren gewährt geschickt gesendet versandt erhalten",
    "bekommen verschickt veranlasst",
    "envoyons enverrons envoyé offrons offert accordons accordé recevrez donnons",
    "enviaremos enviamos enviado ofrecemos daremos damos recibirá aplicado enviaré daré",
)

# Whatever is said with these is about money going back, in phrases that no list can hold.
HINT = re.compile(
    r"\b(?:refund|reimburs|repaid|repay|erstatt|rückerstatt|zurückerstatt|rückzahl|zurückzahl"
    r"|zurückgezahlt|gutschr|gutgeschr|rembours|recrédit|reembols|reintegr|money|cash|geld|kaufpreis"
    r"|argent|dinero|devolver|abono|virement|transferencia|payout|cheque|chèque|scheck|überweisung"
    r"|versement"
    r"|saldo|guthaben|solde|ingreso|paypal|compensation|deposit|funds|pa(?:y|id|ying) you\b)\w*"
    r"|(?:payment|amount|sum|betrag|zahlung|summe|paiement|montant|somme|pago|importe|suma|¤)"
    r" (?:\w+ ){0,4}(?:back|again|yours|zurück|wieder|raus|retour|nouveau|vuelta|vuelv)"
)
# ... unless it is what the customer wants, how refunds go in general, or what may be.
HARMLESS = re.compile(
    r"\b(?:want\w*|like|rather|prefer\w*|need\w*|ask|asking|asks|help|understand|mention\w*"
    r"|to be refunded|refunds go|wrong"
    r"|problem|possible|refundable|always|depends|decided by|matters|worth|for a (?:full )?refund"
    r"|möchte[nst]*"
    r"|wünschen|brauche\w*"
    r"|helfen|verstehe|fragen|wichtig|entscheidet|ginge|lieber|damit|möglich|immer|erstattungsfähig"
    r"|für eine (?:rück)?erstattung|fehler"
    r"|souhait\w+|voul\w+|préfér\w+|demander|qui décide|puissions|pourr\w+|peuvent|comprends|toujours"
    r"|faut|erreur"
    r"|remboursables?|pour un remboursement|quiere|desea|pueden|podr\w+|poder|entiendo|comprendo"
    r"|prefier\w+|pedir|posible|decide la"
    r"|siempre|necesito|reembolsables?|para un reembolso|error)\b"
)
# Talk about a decision that is open, or went against the customer.
UNDECIDED = re.compile(
    r"\b(?:asked|request|wait|pending|open\b|declin|reject|against|laps|withdr|beantrag|warte|offen"
    r"|abgelehnt|zurückgezogen|attente|demandé|refus|retir|solicit|pendiente|rechaz|@request@)"
)

NOT = _words(
    "not cannot never no nobody nothing neither nor unable none",
    "niemand niemandem niemanden nicht kein keine keinen keinem keiner keines nie niemals nichts weder",
    "personne pas jamais aucun aucune rien n ne ni",
    "nadie nunca ningún ninguna nada tampoco jamás",
)
MODAL = _words(
    "can could may might would should must",
    "kann können könnte könnten darf dürfen möchte möchten soll sollen muss müssen würde würden zu",
    "peux peut pouvons pourrait pourrais dois doit devons faut",
    "puedo puede podemos podría debe debemos",
)
PRONOUNS = _words(
    "i we you he she they it",
    "ich wir sie er es",
    "je j nous vous il elle ils elles on",
    "yo nosotros usted ustedes",
)
AUXILIARIES = _words(
    "is are was were be been has have had am",
    "ist sind war waren wurde wurden hat haben habe hatten worden",
    "a ai avons ont est sont été",
    "ha han hemos he es está están fue sido se",
)
PASSIVE_INFINITIVE = _words("be être ser estar")
TO_BE = _words("am are is m re be", "estamos estoy", "train")

# Every word above: `spelling` restores them where they are written in another way.
ALL = frozenset().union(*(each for each in list(globals().values()) if isinstance(each, frozenset)))
