"""Phrases that are put into one word before a sentence falls into clauses: "as soon as" is a "once".

Each line: what is found in a lower-case sentence, English, German, French, Spanish, and what replaces it.
"""

from __future__ import annotations

import re

IF, ONCE, DID = "@if@", "@once@", "@did@"
ASKED = "@asked@"  # ends every clause of a question
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
    # "What you paid" is a sum of money, and no telling of who paid.
    (
        r"\b(?:what|everything|all|whatever)(?: that)? you(?: have|'ve| had)? (?:paid|spent)"
        r"|\b(?:alles,? )?was sie (?:\w+ )?(?:be|ge)zahlt haben,?|\b(?:tout )?ce que vous avez payé"
        r"|\b(?:todo )?lo que (?:usted )?(?:ha )?(?:pagó|pagado)",
        " @sum@ ",
    ),
    (
        r"\bmake sure(?: that)?|\bsee to it(?: that)?|\bsorgen? dafür,? dass|\bveillerai à ce qu(?:e\b|')"
        r"|\bme aseguraré de que",
        " will ",
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
    # What cannot be said is not said, and what the customer said is not our word.
    (
        r"\byou (?:said|say|wrote|write|mention|mentioned|told us|report|reported)(?: to us)? that"
        r"|\bsie (?:schreiben|schrieben|sagen|sagten|erwähnen),? dass|\bvous (?:dites|écrivez|mentionnez)"
        r" que|\busted (?:dice|escribe|escribió|menciona) que"
        r"|(?:\bcannot|\bcan not|\bcan't|\bcould not|\bunable to|\bnot able to) (?:confirm|say|see|tell"
        r"|promise|guarantee|verify)(?: you)?(?: that| whether| if)?"
        r"|\bnicht (?:bestätigen|sagen|erkennen|sehen|versprechen|zusagen),? (?:dass|ob)"
        r"|\bpas (?:confirmer|dire|promettre|voir|garantir)(?: que| qu'| si)?"
        r"|\bno (?:puedo|podemos) (?:confirmar|decir|prometer|garantizar|ver)(?:le)?(?: que| si)?",
        f" {IF} ",
    ),
    (
        r"\bas soon as|\bonce|\bwhenever|\bwhen|\bafter|\buntil|\bby the time|\bsobald|\bnachdem"
        r"|\bbis (?=(?:die|der|das|ein|eine|sie|er|es|wir)\b)|\bdès qu(?:e\b|')|\bune fois(?: que\b"
        r"| qu')?"
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
