"""The words by which claims about refunds are recognised, in English, German, French and Spanish.

Lists of words only; how they make a claim stands in `claims`.
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
    "manager managers manageress supervisor supervisors",
    "managerin leitung geschäftsleitung geschäftsführung filialleitung vorgesetzte vorgesetzten",
    "vorgesetzter",
    "responsable responsables gérant gérante directeur directrice",
    "gerente gerentes encargado encargada supervisora",
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
    r"|argent|dinero|devolver|abono|virement|transferencia|pa(?:y|id|ying) you\b)\w*"
    r"|(?:payment|amount|sum|betrag|zahlung|summe|paiement|montant|somme|pago|importe|suma|¤)"
    r" (?:\w+ ){0,4}(?:back|again|yours|zurück|wieder|raus|retour|nouveau|vuelta|vuelv)"
)
# ... unless it is what the customer wants, how refunds go in general, or what may be.
HARMLESS = re.compile(
    r"\b(?:want\w*|like|need\w*|ask|asking|asks|help|understand|mention\w*|to be refunded|refunds go|wrong"
    r"|problem|possible|refundable|always|depends|for a (?:full )?refund|möchte[nst]*|wünschen|brauche\w*"
    r"|helfen|verstehe|fragen|damit|möglich|immer|erstattungsfähig|für eine (?:rück)?erstattung|fehler"
    r"|souhait\w+|voul\w+|demander|puissions|pourr\w+|peuvent|comprends|toujours|faut|erreur"
    r"|remboursables?|pour un remboursement|quiere|desea|pueden|podr\w+|poder|entiendo|pedir|posible"
    r"|siempre|necesito|reembolsables?|para un reembolso|error)\b"
)
# Talk about a decision that is open, or went against the customer.
UNDECIDED = re.compile(
    r"\b(?:asked|request|wait|pending|open\b|declin|reject|against|laps|withdr|beantrag|warte|offen"
    r"|abgelehnt|zurückgezogen|attente|demandé|refus|retir|solicit|pendiente|rechaz|@request@)"
)

NOT = _words(
    "not cannot never no nothing neither nor unable none",
    "nicht kein keine keinen keinem keiner keines nie niemals nichts weder",
    "pas jamais aucun aucune rien n ne ni",
    "nunca ningún ninguna nada tampoco jamás",
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

IF, ONCE, DID = "@if@", "@once@", "@did@"
_IDIOMS: tuple[tuple[str, str], ...] = (
    # Not a "no" about anything.
    (
        r"\b(?:do not|don't|no need to|please don't) (?:worry|hesitate|mind)|\bno (?:worries|problem"
        r"|doubt)|\bnot only|\bkeine sorge|\bmachen sie sich keine sorgen|\bnicht nur|\bkein problem"
        r"|\bne vous inquiétez pas|\bpas de (?:souci|problème)|\bnon seulement|\bno se preocupe"
        r"|\bno te preocupes|\bsin problema|\bno sólo|\bno solo|\bonce (?:again|more)"
        r"|\bencore une fois|\bune fois (?:de plus|encore)|\buna vez más|\bno later than",
        ",",
    ),
    # A request is not the refund that it asks for.
    (
        r"\brefund (?:request|claim|application|case|enquiry|inquiry|question)s?"
        r"|\b(?:request|application|claim|question|wish|proposal|decision)s? (?:for|about|of|on)"
        r" (?:a |the |your |this |that |any )?(?:full |partial )?(?:refund|reimbursement)"
        r"|\b(?:rück)?erstattungs(?:anfrage|antrag|wunsch|anliegen)\w*"
        r"|\b(?:anfrage|antrag|bitte|wunsch|anliegen)\w* (?:auf|um|nach|wegen|zur|zu|bezüglich)"
        r" (?:die |der |eine |einer |ihrer |ihre )?(?:rück)?(?:erstattung|zahlung)\w*"
        r"|\bdemandes? (?:de|d'un|du) remboursement"
        r"|\b(?:solicitud|petición|solicitudes) (?:de|del|para el|para un) (?:reembolso|devolución)"
        r"|\b(?:plazo|derecho|período|periodo) de devolución",
        " @request@ ",
    ),
    # What cannot be said is not said.
    (
        r"(?:\bcannot|\bcan not|\bcan't|\bcould not|\bunable to|\bnot able to) (?:confirm|say|see|tell"
        r"|promise|guarantee|verify)(?: you)?(?: that| whether| if)?"
        r"|\bnicht (?:bestätigen|sagen|erkennen|sehen|versprechen|zusagen),? (?:dass|ob)"
        r"|\bpas (?:confirmer|dire|promettre|voir|garantir)(?: que| qu'| si)?"
        r"|\bno (?:puedo|podemos) (?:confirmar|decir|prometer|garantizar|ver)(?:le)?(?: que| si)?",
        f" {IF} ",
    ),
    (
        r"\bas soon as|\bonce|\bwhenever|\bwhen|\bafter|\buntil|\bby the time|\bsobald|\bnachdem"
        r"|\bbis (?=(?:die|der|das|ein|eine|sie|er|es|wir)\b)|\bdès qu(?:e\b|')|\bune fois(?: que\b| qu')?"
        r"|\blorsqu(?:e\b|')|\bquand|\baprès qu(?:e\b|')|\bjusqu'à ce qu(?:e\b|')|\ben cuanto"
        r"|\buna vez(?: que)?|\bcuando|\bhasta que|\bdespués de que|\btan pronto como",
        f" {ONCE} ",
    ),
    (r"(?:^|(?<=[,.;:!] ))should(?= (?:the|a|an|our|your|it|this|you)\b)", f" {IF} "),
    (
        r"\bif|\bwhether|\bin case|\bunless|\bprovided(?: that)?|\bassuming|\bbefore|\bwenn|\bfalls"
        r"|\bsofern|\bob|\bbevor|\behe|\bsi|\bs'(?=ils?\b)|\bà condition que|\bau cas où|\bavant que"
        r"|\bà moins que|\bsiempre que|\ben caso de que|\bantes de que|\ba menos que",
        f" {IF} ",
    ),
    (r"n't\b", " not "),
    (r"\bgoing to(?= your\b)", " on its way "),
    (
        r"\bgoing to|\b(?:happy|glad|pleased|delighted) to (?=offer|give|grant|refund|issue)"
        r"|\bpromise to|\bcommit(?:ted)? to|\b(?:m'engage|nous engageons|engageons) à"
        r"|\bpromet(?:s|tons) de|\bprometo|\bprometemos|\bnos comprometemos a",
        " will ",
    ),
    (r"\b(?:viens|venons|vient) de|\b(?:acabo|acabamos|acaba) de", f" {DID} "),
)
# Where an alternative ends in an apostrophe or a space, the next word follows at once.
IDIOMS = tuple((re.compile(rf"(?:{pattern})(?:(?<=[' ])|(?!\w))"), to) for pattern, to in _IDIOMS)
