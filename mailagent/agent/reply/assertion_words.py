"""The words of money that went back, and of decisions about it, as patterns over one clause.

A clause is lower-case words with one space between; `¤` is an amount. One line a language, in the order
English, German, French, Spanish. How a word or a language is added stands in `claim_words`.
How the patterns make a claim stands in `assertion`; what no tool can give, in `gift_words`.
"""

from __future__ import annotations

import re


def any_of(*lines: str) -> re.Pattern[str]:
    """Return a pattern of whole words, from one line of alternatives for each language."""
    return re.compile(rf"\b(?:{'|'.join(lines)})\b")


# What money is called, and where it lies.
MONEY = re.compile(
    r"¤|@sum@|\b(?:"
    r"refunds?|reimbursements?|repayments?|money|funds?|cash|payments?|payouts?|transfers?|credits?"
    r"|chargebacks?|charges?|reversals?|debits?|price|costs?|amount|sum|balance|accounts?|cards?|banks?"
    r"|statement|wallet|pocket|dollars?|euros?|claim|invoice|bill|paypal|deposits?|cheques?"
    r"|compensation|correction|withdrawal|penny|pennies|cents?|bucks|quid"
    r"|\w*erstattung(?:en)?|\w*geld(?:eingang)?|\w*zahlung(?:en)?|\w*überweisung|gutschrift|\w*buchung"
    r"|belastung|abbuchung|rechnung|scheck|guthaben|\w*preis|kosten|\w*betrag|summe|\w*konto|\w*karte"
    r"|bank|dollar"
    r"|antrag"
    r"|centimes?|céntimos?|centavos?"
    r"|remboursements?|argent|paiement|versement|virement|crédit|débit|(?:un|votre) avoir|prix|coût"
    r"|montant|somme"
    r"|fonds|compte|carte|banque|relevé|facture|chèque|solde|prélèvement"
    r"|reembolsos?|devolución|dinero|pago|transferencia|abono|cargo|precio|coste|costo|importe|suma"
    r"|fondos|saldo|cuenta|tarjeta|banco|extracto|dólares|factura|cheque|ingreso|cobro)\b"
)
# What the customer asked for, or what is done "to you": with any deed beside it, it may be the money.
TO_YOU = any_of(
    r"@request@|your (?:request|wish|plea)|you (?:were|have been|are being)|(?:done|made) for you",
    r"ihnen|wunsch|anliegen|anfrage",
    r"vous (?:a|avons|ont|est|sont|avez été)|votre demande|votre souhait",
    r"(?:le|les) (?:fue|ha|han|hemos|he)|su (?:solicitud|petición)",
)
# A sum beside the place where the customer's money lies.
ON_ACCOUNT = re.compile(
    r"\b(?:account|card|bank|konto|karte|compte|carte|banque|cuenta|tarjeta|banco)\b.*¤"
    r"|¤.*\b(?:account|card|bank|konto|karte|compte|carte|banque|cuenta|tarjeta|banco)\b"
)
# It moved.
MOVED = any_of(
    r"credited|sent|returned|released?|complete[d]?|done|through|cleared|settled|landed|reversed|voided"
    r"|undone|cancell?ed|executed|restored|issued|posted|transferred|wired|remitted|given|gave|handed"
    r"|put|left (?:our|us)|topped up|squared|successful|succeeded|finished|finali[sz]ed|repaid|paid|made"
    r"|arrived|received|(?:shows|reflects|has) the|moved|honou?red|reached (?:your|you)",
    r"\w*gutgeschrieben|\w*gezahlt|\w*bezahlt|\w*überwiesen|zurück(?:ge\w+|erstattet)|rück\w+t|rückgängig"
    r"|durch\w*|verlassen|storniert|ausgeglichen|erledigt|abgeschlossen|erfolgt|gebucht|ausgeführt"
    r"|eingetroffen|angekommen|erhalten|rausgegangen|erreicht",
    r"\w*crédité\w*|passée?s?|rendue?s?|quitté|annulée?s?|restituée?s?|terminée?s?|faite?s?|versée?s?"
    r"|partie?s?|débloquée?s?|envoyée?s?|payée?s?|\w*approvisionnée?|reçue?s?|arrivée?s?|effectuée?s?"
    r"|parvenue?s?"
    r"|réglée?s?",
    r"abonad[oa]s?|completad[oa]s?|devuelt[oa]s?|devolvimos|salió|anulad[oa]s?|refleja|figura"
    r"|hech[oa]s?|liberad[oa]s?|enviad[oa]s?|ingresad[oa]s?|pagad[oa]s?|llegaron|llegó|recibid[oa]s?"
    r"|concluido",
)
# Some other thing was done: a participle where its language puts it ...
DONE = re.compile(
    r"\b(?:\w{2,}ed|taken|took|written|brought|came|did)\b"
    r"|\b(?:ist|sind|hat|habe|haben|wurden?|worden|wird|werden)\b.* (?P<de>\w{3,}(?:t|en))$"
    r"|\b(?:a|ai|avons|ont|est|sont|été)(?: (?:bien|déjà|tout))* (?P<fr>\w{2,}(?:ée?s?|ie?s?|ue?s?|it"
    r"|ert))\b"
    r"|\b(?:h[ae]|han|hemos|fue|fueron|sido|está|están)(?: ya)* (?P<es>\w{2,}(?:[ai]d|t|ch)[oa]s?)\b"
    r"|\b(?P<past>\w{3,}(?:ó|aron|ieron))\b"
)
# ... of which these are of the order, of our looking, or of what the customer did.
OF_THE_ORDER = any_of(
    r"(?:order|deliver|ship|charg|list|record|look|check|includ|end|clos|need|bas|us|ask|mention|describ"
    r"|damag|attach|call|interest|relat|answer|not|want|list|cancell|part|dispatch|review|confus|requir"
    r"|propos|submitt|expect|bounc|limit|consider|hand|decid|pass|forward|lapse|expir|turn|withdr\w+"
    r"|reach)ed|indeed"
    r"|placed"
    r"|noted|read|unpaid|allowed|refused|closed|used|owed|made sure|received|priced|involved|located",
    r"bestellt|(?:aus)?geliefert|zugestellt|versandt|verschickt|gelesen|gefunden|gesehen|angesehen"
    r"|geprüft"
    r"|geschrieben|belastet|gekauft|gekostet|enthalten|betragen|werden|worden|haben|sind|beantragt"
    r"|nachgesehen|notiert|geendet|abgelaufen|verstanden|können|müssen|entschieden|abgelehnt|verlangt"
    r"|aufgegeben|abgebucht|gesagt|ihnen|ihren|meinen|offen|deinen|möchten|gemeint|benötigt|angegeben|entscheidet"
    r"|angefragt|gefragt|weitergeleitet"
    r"|\w+(?:ungen|keiten|heiten|karten|kosten|zeiten|seiten|daten)",
    r"livrée?s?|expédiée?s?|commandée?s?|coûté|vu|lu|trouvée?s?|passé la commande|vérifiée?|regardée?"
    r"|noté|demandée?|examinée?|vue?|consultée?|refusée?s?|décidé|compris|débitée?s?|dû|défini",
    r"entregad[oa]s?|expedid[oa]s?|pedid[oa]s?|vist[oa]|leíd[oa]|encontrad[oa]s?|comprobad[oa]"
    r"|revisad[oa]"
    r"|anotad[oa]|solicitad[oa]|rechazad[oa]|rechazó|revisó|miró|decidió|decidid[oa]|cobrad[oa]|costó"
    r"|pagó|recibió|terminó|entregó"
    r"|pidió"
    r"|hast[oa]|est[oa]s?|costad[oa]|escrit[oa]|rot[oa]s?|enviad[oa]",
)
# It is where it should be, or goes there: which of them, tells the verb beside it.
BACK = any_of(
    r"back|home|again|yours|gone|at your disposal|returns?|(?:with|at|in) your (?:bank|account)"
    r"|on your (?:card|account)",
    r"zurück|wieder|raus|weg von|zur verfügung|bei ihnen|bei ihrer bank|auf ihre[mr] \w*(?:konto|karte)"
    r"|(?:schreib\w*"
    r"|zahl\w*)(?: \w+| ¤)* (?:gut|aus)",
    r"de nouveau|à nouveau|retour|retourne|revien(?:t|nent|dra|dront)|se trouve(?:nt)?"
    r"|à vous|chez vous|disposition|à la banque"
    r"|(?:de|chez) votre banque|sur votre (?:compte|carte)",
    r"(?:de|en) su (?:banco|cuenta|tarjeta)|de nuevo|a su disposición|en el banco|suy[oa]s?|vuelven?"
    r"|de vuelta|está (?:ya )?en su",
)
IS_THERE = any_of(
    r"is|are|was|were|has|have|had|been|s|ve|put|went|came|got",
    r"ist|sind|hat|haben|habe|war|wurde|wurden|liegt",
    r"est|sont|a|ont|été|trouve(?:nt)?",
    r"está|están|ha|han|fue|fueron",
)
# It will move; also what the customer is told to count on.
MOVING = any_of(
    r"(?:will|ll|shall|going to|should)(?: \w+| ¤){0,5}? (?:with you|credit|release|paid|yours|there"
    r"|show|appear|arrive|back|cover|have|see)|(?:coming|heading|on its way|is due)"
    r"|expect(?!ed)|look out for|give it|is there|look forward to|safe|owes?|due|ready|richer|entitled"
    r"|in the post",
    r"(?:haben|hat|bekommen|erhalten) sie|trifft|kommen|kommt|gehen|rechnen|sicher|schreiben|schulden"
    r"|steht(?: \w+)* zu|ihnen steht|steht ihnen|bereit"
    r"|ist da"
    r"|müsste(?: \w+)* bei ihnen",
    r"aurez|arrivera|arrivent|compter sur|verrez|créditerons|retournera|serez|devons|disponible|prête?",
    r"tendrá|llegará|cuente con|contar con|recuperará|por llegar|ingresar|verá|debemos|disponible"
    r"|list[oa]",
)
# ... and so it will, however it is said: "you can count on it".
RELIED = any_of(
    "count on|rely on|bank on|be sure of",
    "rechnen|verlassen",
    "compter sur|fier",
    "contar con|cuente con|confiar",
)
# Money that came from the customer, and what may not be held against a clause that has a word for money.
INCOMING = any_of(
    r"(?:you|customer)(?: \w+)? paid(?! back| out)|you paid|(?:we|was|were|been)(?: \w+)? received"
    r"(?! by you)|your (?:first |second )?payment(?: ¤| of ¤| of)? (?:went through|arrived|cleared|was"
    r" (?:made|received|confirmed|successful))|(?:paid|made) (?:by|with a|with your|in full|for)|charged"
    r"|(?:second|double|one|single) (?:charge|payment)|order(?: \w+){0,3} (?:paid|placed|complete\w*)"
    r"|you(?: \w+)? pay with|bank details",
    r"ihre \w*zahlung(?: ¤| von ¤| von)*(?: per karte| vom| am)*(?: ist| wurde)(?: \w+)* (?:eingegangen"
    r"|angekommen|erhalten)|wir haben (?:ihre zahlung erhalten|ihre zahlung)|belastet|zweite"
    r"|sie(?: \w+| ¤)* (?:bezahlt|gezahlt|überwiesen)|bezahlt haben sie|bestellung(?: \w+)* bezahlt"
    r"|mit karte bezahlt"
    r"|haben sie (?:bezahlt|die \w+)",
    r"vous avez(?: \w+)* (?:payé|réglé)|avez(?: \w+)* payé|paiement(?: \w+| ¤)* reçu"
    r"|reçu votre paiement|débitée?"
    r"|second|commande(?: \w+)* payée",
    r"recibido su pago|su pago(?: \w+| ¤)* (?:se recibió|recibid[oa])|recibimos su|segundo|se cargó"
    r"|pedido(?: \w+)* se pagó|usted pagó|pagó con",
)
# What somebody wants, needs, feels or keeps to, but nothing that happened.
WISH = any_of(
    r"want\w*|(?:would|d) (?:rather|prefer|like)|prefer\w*|like|need\w*|ask\w*|understand|gettings?|help"
    r"|to (?:get|have|be|return|send|give|pay)|for a (?:full )?refund|refunds go|always|wrong|problem"
    r"|depends|too late|money s worth|only|which|costs?|please keep",
    r"möchte\w*|wünschen|hätten|wollen|lieber|brauche\w*|verstehe|fragen|immer|falls|nur|zu spät"
    r"|für eine \w*erstattung|gekostet|kostet|erst|damit|kostenlos|auf welches|würde\w*|ginge",
    r"souhait\w*|voul\w*|préfér\w*|comprends|demander|toujours|faut|pour un remboursement|pour que"
    r"|coûte|coûté|que les|trop tard",
    r"quiere|desea|prefier\w*|entiendo|comprendo|pedir|siempre|necesito|para un reembolso|sólo"
    r"|solo|cuesta|costó|demasiado|para qué|medio de pago",
)
# "Your refund was not rejected": two that make a yes.
LOST = any_of(
    r"reject\w*|failed|declin\w*|refus\w*|denied|deny|turned down|lost|kept|keep your|withheld|withdrawn",
    r"abgelehnt|gescheitert|verweigert|verloren|zurückgewiesen|einbehalten|abgewiesen",
    r"refusée?s?|échoué|rejetée?s?|perdue?s?|retenue?s?",
    r"rechazad[oa]s?|falló|denegad[oa]s?|perdid[oa]s?|retenid[oa]s?",
)
# Somebody said yes.
AGREED = any_of(
    r"approved|agreed|agrees with you|accepted|authori[sz]ed|granted|sign(?:ed|s)?(?: \w+){0,2} off"
    r"|nodded"
    r"|green light|go ahead|said yes|in your favou?r|decided to (?:give|pay|refund)|cleared for|okayed"
    r"|(?:manager|boss|supervisor|he|she) is (?:happy|fine)|(?:claim|request|case)(?: \w+)? (?:was |is "
    r"|has )?succe\w+"
    r"|confirmed (?:your|the|this) \w*(?:refund|payment)|changed (?:his|her|their) mind",
    r"genehmigt|zugestimmt|einverstanden|stattgegeben|bewilligt|freigegeben|abgesegnet|ja gesagt|erlaubt"
    r"|zu ihren gunsten|grünes licht|beschlossene sache|zugesagt|zahlung bestätigt",
    r"approuvée?s?|accepté(?:e|es|s)?|accordée?s?|autorisée?s?|feu vert|dit oui|l a permis"
    r"|favorablement|en votre faveur|abouti"
    r"|confirmé le paiement|est d accord|donné (?:son|mon|leur) (?:accord|aval)",
    r"aprobad[oa]s?|aceptad[oa]s?|aceptó|aprobó|autorizad[oa]s?|concedid[oa]s?|luz verde|visto bueno"
    r"|que sí|lo permitió|accedido"
    r"|a su favor|prosperado|confirmado el pago|de acuerdo",
)
# What else stands near a "yes": the goods, an address, or what the customer agrees to.
NOT_OURS = any_of(
    r"you(?: \w+)? (?:approved|agreed|accepted|authori[sz]ed)|your order was|card was (?:accepted)",
    r"bestellung(?: \w+)* freigegeben|haben sie(?: \w+)* zugestimmt",
    r"avez(?: \w+)* accepté",
    r"usted(?: \w+)* (?:aceptó|aprobó)",
)
# What the model writes under a heading, in a list or a table: "Status: paid", "Approved!".
LABEL = any_of(
    r"status|refund|refunded|result|outcome|state|payout|money|amount|kettle|item|claim|request|case|news"
    r"|of|your|the|in|full|is|now|already|for|this|decision",
    r"stand|erstattung|ergebnis|geld|betrag|antrag|der|die|ist|jetzt|schon|ihre|ihr",
    r"statut|état|remboursement|résultat|argent|demande|du|de|votre|le|est",
    r"estado|resultado|solicitud|dinero|reembolso|del|su|el|está|ya",
)
SETTLED = any_of(
    r"paid(?: out| back)?|refunded|reimbursed|returned|done|completed?|repaid|credited|sorted",
    r"bezahlt|ausgezahlt|ausbezahlt|erstattet|erledigt|überwiesen|gutgeschrieben|abgeschlossen|gezahlt",
    r"payée?|remboursée?|faite?|versée?|terminée?|réglée?|créditée?",
    r"pagad[oa]|reembolsad[oa]|hech[oa]|abonad[oa]|devuelt[oa]|completad[oa]|terminad[oa]",
)
GRANTED = any_of(
    "approved|granted", "genehmigt|bewilligt", "approuvée?|accordée?", "aprobad[oa]|concedid[oa]"
)
# "It has gone through", with the sentence before it telling what.
IT_IS_DONE = any_of(
    r"(?:it|this|that|everything|all)(?: (?:is|s|was|has|been|now|already|just|went|got)){1,4}"
    r" (?:paid|refunded|through|settled|sorted|reversed|squared|resolved|taken care)"
    r"|(?:transferred|refunded|paid|credited|returned|wired|reversed) (?:it|them|everything)"
    r"|^(?:and )?(?:we|i) (?:did|have done)(?: it| so)?$",
    r"(?:es|das|sie|alles)(?: (?:ist|wurde|hat|schon|nun|jetzt|bereits))+ (?:\w*bezahlt|ausgezahlt|durch"
    r"|ausgeführt|überwiesen)|das haben wir(?: \w+)? getan",
    r"(?:il|elle|c|ce|cela|tout)(?: (?:a|est|été|bien|déjà))+ (?:payée?|réglée?|passée?|versée?|faite?)"
    r"|vous a(?:vons)?(?: tout)? (?:rendu|versé|payé|restitué)|tout rendu",
    r"(?:ya )?(?:está|fue|queda)(?: (?:todo|ya))* (?:pagad[oa]|resuelt[oa]|arreglad[oa]|abonad[oa])"
    r"|se lo (?:he|hemos|ha|han) \w+[aeo]do|se lo hemos (?:devuelto|hecho)|todo (?:resuelto|arreglado"
    r"|solucionado)",
)
# Phrases that tell of money without a word for it, and with no "not" that counts.
OUTRIGHT = any_of(
    r"paid you|credit(?:ed|ing)? you|ma[dk]e (?:you )?whole|costs? you (?:nothing|anything)"
    r"|nothing (?:left )?to pay|get everything back|every (?:penny|cent)(?: \w+)? back"
    r"|out of pocket|(?:won t|not|never) have to pay"
    r"|keep the \w+ and the (?:money"
    r"|refund)|cover(?:ing)? the (?:cost|price)|on the house|(?:is|s|are) on us|free for you|(?:are"
    r"|is) yours"
    r"|you(?: will)* (?:are|get|re|be) (?:paid|refunded|repaid)|you(?: \w+)? compensated|be compensated",
    r"geht auf uns|kostet sie nichts|sie bekommen alles|jeden cent zurück"
    r"|übernehmen die kosten|nicht (?:be)?zahlen müssen"
    r"|müssen(?: \w+)* nicht (?:be)?zahlen"
    r"|gehört ihnen",
    r"vous (?:re)?créditer\w+|au dernier centime|chaque centime"
    r"|vous devons(?= ¤)|vous est offerte?|prenons en charge|n aurez pas à payer"
    r"|sont à vous|est à vous|ne vous coûte rien",
    r"le debemos(?= ¤)|último (?:céntimo|centavo)|cada (?:céntimo|centavo)"
    r"|corre de nuestra cuenta|asumimos el (?:coste|costo)|no tendrá que pagar"
    r"|son suyos|es suyo|no le cuesta nada",
)
