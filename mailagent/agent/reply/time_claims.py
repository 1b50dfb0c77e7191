"""What a text says of time without a date: durations, "tomorrow", and what a manager is going to decide.

Whether a duration is true is for `reply_check`. Of the days nothing is on record but dates, so one that
is told of a delivery or a decision is never true, nor is a decision that is foretold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import partial

from mailagent.agent.reply import claim_words as say
from mailagent.agent.reply import idioms
from mailagent.agent.reply.assertion_words import any_of

Words = Sequence[str]

_SPELLED = {
    word: number
    for number, words in {
        1: "one ein einen einem eine einer une uno una",
        2: "two zwei deux dos couple",
        3: "three drei trois tres",
        4: "four vier quatre cuatro",
        5: "five fünf cinq cinco",
        6: "six sechs seis",
        7: "seven sieben sept siete",
        8: "eight acht huit ocho",
        9: "nine neun neuf nueve",
        10: "ten zehn dix diez",
        12: "twelve zwölf douze doce",
        14: "fourteen vierzehn quatorze catorce",
        15: "fifteen fünfzehn quinze quince",
        20: "twenty zwanzig vingt veinte",
        24: "twentyfour vierundzwanzig vingtquatre veinticuatro",
        30: "thirty dreißig trente treinta",
        48: "fortyeight achtundvierzig quarantehuit",
        60: "sixty sechzig soixante sesenta",
        90: "ninety neunzig noventa",
        100: "hundred hundert cent cien",
    }.items()
    for word in words.split()
}
# How many days a unit has; hours are no part of any record.
_UNITS = {
    r"hours?|stunden?|heures?|horas?": 0,
    r"days?|tage?[ns]?|tägig\w*|jours?|días?": 1,
    r"weeks?|wochen?|wöchig\w*|semaines?|semanas?": 7,
    r"months?|monate?n?|monatig\w*|mois|mes|meses": 30,
    r"years?|jahre?n?|jährig\w*|ans?|années?|años?": 365,
}
_KIND = r"(?:(?:business|working|calendar|full|more) |(?:werk|arbeits|kalender|geschäfts|bank)-?)?"
_ONE = (
    r"(?:within|in|for|takes?|after|next|binnen|innerhalb|nach|für|en|dans|sous|pendant|durante)"
    r" (?:an?|ein\w*)"
)
_NUMBER = rf"(?:\d{{1,4}}|(?:{'|'.join(_SPELLED)})\b)"
_DURATION = re.compile(
    rf"(?<![\w.,])(?:({_NUMBER})(?: ?(?:-|–|to|or|bis|oder|à|ou|a|o|y) ?({_NUMBER}))?|({_ONE}))"
    rf"(?: of| full)?[ -]?{_KIND}({'|'.join(_UNITS)})\b"
)
# Behind these a duration is of what has been, or somebody else's word.
_BEEN = re.compile(
    r"\b(?:after|since|ago|wrote|write|said|say|mention\w*|ask\w*|report\w*|not|cannot|can't"
    r"|nach|seit|vor|schrieben|schreiben|sagten|erwähn\w*|nicht|kein\w*"
    r"|après|depuis|il y a|écrivez|dites|mentionnez|pas|aucun\w*"
    r"|después|desde|hace|escribe|dice|menciona|no|ningún)\b"
)

# ... or lies between two dates: "three days later", "two weeks are left".
_APART = re.compile(
    r"\b(?:later|earlier|before|left|remain\w*|still|später|früher|noch|übrig|bleiben|verbleiben\w*"
    r"|plus (?:tard|tôt)|rest\w+|encore|más tarde|antes|qued\w+|todavía)\b"
)


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time in a text: each of its ends as a number of a unit of so many days (hours: 0)."""

    text: str
    unit_days: int
    numbers: tuple[int, ...]
    of_what_has_been: bool
    between_dates: bool

    def is_one_of(self, days: Set[int]) -> bool:
        """Say whether each of its ends is among `days`."""
        return self.unit_days > 0 and all(each * self.unit_days in days for each in self.numbers)

    def is_repeated_from(self, said: Sequence[Duration]) -> bool:
        """Say whether the customer named it, and it is told as theirs, or as what has been."""
        same = any(self.unit_days == one.unit_days and self.numbers == one.numbers for one in said)
        return same and self.of_what_has_been


def find_durations(text: str) -> tuple[Duration, ...]:
    """Return the lengths of time in `text`, in figures or in words: "60 days", "two years"."""
    plain = " ".join(text.lower().split())
    return tuple(map(partial(_duration, plain), _DURATION.finditer(plain)))


def _duration(plain: str, match: re.Match[str]) -> Duration:
    numbers = [_number(each) for each in (match[1], match[2]) if each] or [1]
    unit = next(days for names, days in _UNITS.items() if re.fullmatch(names, match[4]))
    sentence = re.split(r"[.!?](?= )", plain[max(0, match.start() - 120) : match.start()])[-1]
    after = plain[match.end() : match.end() + 12]
    around = f"{sentence} {match[0]} {after}"
    been = bool(_BEEN.search(around))
    return Duration(match[0], unit, tuple(numbers), been, been or bool(_APART.search(around)))


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _SPELLED[word]


# --- days without a date --------------------------------------------------------------------------

_DAY = any_of(
    r"tomorrow|yesterday|today|tonight|(?:this|next|last) (?:week|month|morning|afternoon|evening)"
    r"|(?:on|by|until|before|this|next|last) (?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|in (?:a few|some) (?:days|hours)|any (?:day|minute|moment)",
    r"(?<!guten )morgen|übermorgen|gestern|heute|(?:diese[rn]?|nächste[rn]?|letzte[rn]?|kommende[rn]?)"
    r" (?:woche|monat)|(?:am|bis|diesen|nächsten|letzten)"
    r" (?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)|in (?:wenigen|einigen|ein paar)"
    r" (?:tagen|stunden)",
    r"demain|avant hier|(?<=é |e )hier|aujourd hui|ce soir|ce matin|cette semaine|la semaine (?:prochaine"
    r"|dernière)|(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)|dans quelques (?:jours|heures)",
    r"mañana|ayer|hoy|esta (?:semana|mañana|tarde|noche)|la (?:próxima semana|semana (?:próxima|que viene"
    r"|pasada))|(?:el|este|próximo) (?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)"
    r"|en (?:unos|pocos|algunos) días",
)
# The parcel came or comes ...
_DELIVERED = any_of(
    r"deliver(?:ed|s|ing)|arriv(?:e|es|ed|ing)|reach(?:es|ed)?|(?:be|is|was) (?:there|with you)|dispatched"
    r"|ship(?:s|ped)|sent out|goes out|went out|out for delivery|(?:get|getting|comes?|coming) to you",
    r"geliefert|zugestellt|angekommen|ankomm\w*|kommt|kommen|kam|eintreff\w*|trifft|traf|versandt|versendet"
    r"|verschickt|(?:ist|sind|war) (?:da|bei ihnen)|bei ihnen",
    r"livr(?:é|ée|és|ées|era|eront|ons|erons)|arriv(?:e|é|ée|és|era|eront)|parvien\w*|expédi\w+|recevrez"
    r"|partir[ao]\w*",
    r"entreg(?:ado|ada|ados|adas|ó|ará|arán|aremos|amos)|lleg(?:a|an|ó|ará|arán|ado)|recibirá"
    r"|enviad[oa]s?|enviaremos|salió|saldrá",
)
# ... or somebody decides, or writes.
_DECIDED = any_of(
    r"decisions?|decid(?:e|es|ed|ing)|approv(?:e|es|ed|al)|hear from|(?:we|will|ll|our) answer"
    r"|write to you|get back to you",
    r"entscheid\w*|entschieden|genehmig\w*|zustimm\w*|bescheid|hören|melden|antwort\w*",
    r"décisions?|décid\w+|approuv\w+|réponse|répondr\w+|nouvelles|écrir\w+",
    r"decisión|decid\w+|aprob\w+|aprueb\w+|respuesta|responder\w+|noticias|escribir\w+",
)
_AHEAD = any_of(
    r"tomorrow|tonight|(?:this|next) (?:week|month|morning|afternoon|evening)|today"
    r"|(?:on|by|until|before|this|next) \w+day|in (?:a few|some) (?:days|hours)|any (?:day|minute|moment)",
    r"morgen|übermorgen|heute|(?:diese|nächste|kommende)[rn]? (?:woche|monat)"
    r"|(?:am|bis|diesen|nächsten) \w+(?:tag|woch)|in (?:wenigen|einigen|ein paar) (?:tagen|stunden)",
    r"demain|ce soir|cette semaine|la semaine prochaine|aujourd hui|\w+di(?: prochain)?"
    r"|dans quelques (?:jours|heures)",
    r"mañana|hoy|esta (?:semana|tarde|noche)|la (?:próxima semana|semana (?:próxima|que viene))"
    r"|(?:el|este|próximo) \w+|en (?:unos|pocos|algunos) días",
)
_TO_COME = say.FUTURE | frozenset(
    "decides comes arrives entscheidet kommt fällt hören melden décide tombe arrive aurez decide llega"
    " tendrá".split()
)
# ... and by when: "we answer within one business day".
_WITHIN = any_of(
    r"within(?: \w+){0,3} (?:hours?|days?|weeks?)",
    r"(?:innerhalb|binnen)(?: \w+){0,3} (?:stunden?|\w*tag\w*|wochen?)",
    r"sous(?: \w+){0,2} (?:heures?|jours?)",
    r"(?:dentro|en un plazo) de(?: \w+){0,2} (?:horas?|días?)",
)
_PAST = frozenset("asked requested beantragt gefragt demandé solicitado wrote geschrieben".split())


def tells_day(words: Words) -> bool:
    """Say whether a clause tells on which day something was delivered or will be, or by when somebody
    decides or answers."""
    if not _OPEN.isdisjoint(words):
        return False
    phrase = " ".join(words)
    if _WITHIN.search(phrase) and _DECIDED.search(phrase):
        return True
    if _DAY.search(phrase) is None:
        return False
    if _DELIVERED.search(phrase):
        return True
    to_come = not _TO_COME.isdisjoint(words) and _PAST.isdisjoint(words)
    return bool(to_come and _DECIDED.search(phrase) and _AHEAD.search(phrase))


_OPEN = say.NOT | {idioms.IF, idioms.ONCE, idioms.ASKED}


# --- decisions that are foretold --------------------------------------------------------------------

_YES = any_of(
    r"(?:will|ll|is going to|is about to|is sure to|is certain to|is bound to|is likely to|should)"
    r"(?: \w+){0,3}? (?:say yes|approve|agree|accept|grant|sign|confirm|allow|consent|ok|okay)",
    r"stimmt(?: \w+){0,4} zu|wird(?: \w+){0,6} (?:zustimmen|genehmigen|akzeptieren|bewilligen|freigeben"
    r"|ja sagen|erlauben|einverstanden)|sagt(?: \w+){0,3} ja|genehmigt|bewilligt|gibt(?: \w+){0,4} frei",
    r"(?:va|vont|devrait)(?: \w+){0,3}? (?:accepter|approuver|accorder|autoriser|valider|dire oui"
    r"|être d accord)|(?:acceptera|approuvera|accordera|autorisera|validera|dira oui|sera d accord)",
    r"(?:va|van|debería)(?: \w+){0,3}? (?:aceptar|aprobar|autorizar|conceder|decir que sí)"
    r"|(?:aceptará|aprobará|autorizará|concederá|dirá que sí|estará de acuerdo)",
)
_HE = frozenset("he she they er elle il ella él ellos".split())


def foretells(plain: str, clauses: Sequence[Words]) -> bool:
    """Say whether a lower-case sentence of these clauses says that a manager is going to agree."""
    return not _EITHER.search(plain) and any(map(_foretells, clauses))


def _foretells(words: Words) -> bool:
    if not _OPEN.isdisjoint(words):
        return False
    if (say.MANAGER | _HE).isdisjoint(words) or not _OBLIGED.isdisjoint(words):
        return False
    return _YES.search(" ".join(words)) is not None


# "A manager will say yes or no."
_EITHER = re.compile(
    r"\b(?:or|oder|ou|o) (?:\w+ )?(?:no\b|not\b|nein|nicht|non\b|reject|declin|den[iye]|refus|ablehn|lehn"
    r"|verweig|rechaz)"
)
# "Ein Manager muss zustimmen" foretells nothing.
_OBLIGED = frozenset(
    "must muss müssen kann können doit doivent peut debe deben tiene puede".split()
)
