"""What a text claims about refunds, sentence by sentence: paid, coming, asked for, decided by whom.

Cautious: what may be a claim is one, unless it is negated, conditional or about what could be: for
`clause` by the verbs it knows, for `assertion` by any deed at all. Whether it is true is for `reply_check`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from mailagent.agent.reply import claim_words as say
from mailagent.agent.reply import gift_words, idioms
from mailagent.agent.reply.assertion import Kind, Words, find_gifts
from mailagent.agent.reply.clause import find_in_clause
from mailagent.agent.reply.time_claims import foretells, tells_day
from mailagent.agent.reply.withdrawal_words import (
    says_cancelled_request,
    says_withdrawn,
    without_withdrawal,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, with the place of the sentence that makes it."""

    kind: Kind
    start: int
    end: int


_SENTENCE_END = re.compile(r"[.!?…]+[\"'»”)\]]*(?=\s|$)|\n\s*\n|\n(?=\s*[-*•])")
_WRAPPED_LENGTH = 60  # a shorter line was not wrapped but ends on purpose
# "Refund status: paid" is one clause, "Sorry: no refund was paid" is two.
_CLAUSE_END = re.compile(r":(?=(?:\W{1,9}\w+){3})|[,;()\[\]–—!?.…/\"«»„“”|=\n]|\s-\s")
_WORD = re.compile(r"@\w+@|¤+|[^\W\d_]+")
_AND = frozenset("and und et y e or oder ou o".split())
_NEW_CLAUSE = frozenset(
    "but so because that which while although though aber denn dass sodass weil doch mais car donc"
    " qui parce pero porque así pues".split()
)
_VERBS = say.PAID | say.MOVED | say.DONE | say.APPROVED | say.STARTED | say.TO_REFUND | say.TO_MOVE
_NUMBER = r"(?:\d+|an?|une?|eine[rnms]?|una?|one|two|three|five|seven|ten|a few|several|zwei|drei"
_NUMBER += r"|fünf|sieben|zehn|einigen|wenigen|deux|trois|cinq|sept|dix|quelques|dos|tres|cinco"
_NUMBER += r"|siete|diez|unos|pocos)"
_DAYS = r"(?:hours?|days?|weeks?|stunden|\w*tage[ns]?|wochen|heures|jours|semaines?|horas|días)"
_DURATION = re.compile(
    rf"\b(?:within|in|after|takes?|up to|innerhalb(?: von)?|binnen|nach|dauert|bis zu|sous|dans|d'ici"
    rf"|prend|en|dentro de|tarda|tardará)(?: \w+)? {_NUMBER}\b[^.!?\d]{{0,8}}\d{{0,2}} ?(?:\w+[ -])?{_DAYS}\b"
    rf"|\b\d+ ?(?:-|–|to|bis|à|a) ?\d+ (?:\w+[ -])?{_DAYS}\b"
    r"|\b(?:tomorrow|next week|this week|nächste woche|diese woche|demain|la semaine prochaine"
    r"|mañana|la próxima semana|by (?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
)
_ARRIVAL = re.compile(
    r"\b(?:arriv|appear|show up|reach|take[sn]?\b|receiv|see it|ankomm|eingeh|erschein|dauer|erhalten"
    r"|prend|apparaî|recev|tarda|llega|aparec|recib)"
)
_CLAUSE_MAX_WORDS = 80  # nobody writes longer ones, and the time to read one grows with its square
_ABOUT_MONEY = frozenset({Kind.PAID, Kind.COMING, Kind.PENDING})
_POINTS_BACK = re.compile(r"\W*(?:it|this|that|they|es|das|dies|sie|cela|ça|ce|il|esto|eso|ello)\b")
_OFFERS = frozenset(
    "can could may might would kann können könnte könnten möchte möchten würde peux peut pourrait"
    " puedo puede podría".split()
)
_TITLES = frozenset("un une le la du au mon notre el su al del mi nuestro nuestra".split())


def find_claims(text: str) -> tuple[Claim, ...]:
    """Return the claims in `text`, in which amounts have been overwritten with `AMOUNT` signs."""
    claims: list[Claim] = []
    about_money = False
    for start, end in _sentences(text):
        kinds = dict.fromkeys(_sentence_kinds(text[start:end], about_money))
        about_money = not _ABOUT_MONEY.isdisjoint(kinds)
        claims += (Claim(kind, start, end) for kind in kinds)
    return tuple(claims)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    at = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        goes_on = text[at : at + 1].islower()
        if len(line) < _WRAPPED_LENGTH and not goes_on:
            ends.append(at)
    start = 0
    for end in sorted({*ends, len(text)}):
        if text[start:end].strip():
            yield start, end
        start = end


def _sentence_kinds(sentence: str, about_money: bool) -> Iterator[Kind]:
    """Yield what a sentence claims. `about_money`: so did the one before it."""
    plain = " ".join(sentence.lower().split())
    if gift_words.SAVED.search(plain):
        yield Kind.GIFT
    for pattern, replacement in idioms.IDIOMS:
        plain = pattern.sub(replacement, plain)
    clauses = list(_clauses(plain))
    if "?" in sentence:
        clauses = [[*words, idioms.ASKED] for words in clauses]
    decided = any(_depends_on_decision(words) for words in clauses)
    told = [without_withdrawal(words) for words in clauses]
    kinds = [kind for words in told for kind in find_in_clause(words, decided)]
    if not kinds and "?" not in sentence and any(_hints(words) for words in told):
        kinds = [Kind.ASKED if decided or _is_undecided(plain) else Kind.COMING]
    yield from kinds
    if "?" not in sentence and any(_is_withdrawal(words) for words in clauses):
        yield Kind.WITHDRAWN
    if (
        kinds
        or (about_money and _POINTS_BACK.match(plain))
        or (_has(plain, say.REFUND) and _ARRIVAL.search(plain))
    ) and _DURATION.search(plain):
        yield Kind.TIME
    if any(map(tells_day, clauses)):
        yield Kind.TIME
    if foretells(plain, clauses):
        yield Kind.FORECAST
    if "?" not in sentence:
        yield from _company_kinds(clauses)


def _has(plain: str, words: frozenset[str]) -> bool:
    return not words.isdisjoint(_WORD.findall(plain))


def _clauses(plain: str) -> Iterator[list[str]]:
    for part in _CLAUSE_END.split(plain):
        words: list[str] = []
        found = ["¤" if word.startswith("¤") else word for word in _WORD.findall(part)]
        for index, word in enumerate(found):
            # "approved and paid out" is one clause: its second verb needs the first one's nouns.
            joined = not _VERBS.isdisjoint(found[index + 1 : index + 4])
            ends = word in _NEW_CLAUSE or (word in _AND and not joined)
            if ends or len(words) == _CLAUSE_MAX_WORDS:
                yield words
                words = []
            if not ends:
                words.append(word)
        yield words


def _depends_on_decision(words: Words) -> bool:
    if idioms.IF not in words and idioms.ONCE not in words:
        return False
    return bool(say.DECISION.search(" ".join(words))) or not say.MANAGER.isdisjoint(words)


def _hints(words: Words) -> bool:
    """Say whether a clause speaks of a refund as a matter of fact, by whatever phrase."""
    said = " ".join(words)
    if say.HINT.search(said) is None or say.HARMLESS.search(said) is not None:
        return False
    return (say.NOT | say.MODAL | {idioms.IF, idioms.ONCE}).isdisjoint(words)


def _is_withdrawal(words: Words) -> bool:
    # "zu Bestellung W1001" is no "zu" of a verb.
    open_yet = say.NOT | (say.MODAL - {"zu"}) | say.FUTURE | {idioms.IF, idioms.ONCE}
    return open_yet.isdisjoint(words) and says_withdrawn(" ".join(words))


def _is_undecided(plain: str) -> bool:
    undecided = say.UNDECIDED.search(plain) or say.DECISION.search(plain)
    return bool(undecided) or _has(plain, say.MANAGER)


def _company_kinds(clauses: Iterable[Words]) -> Iterator[Kind]:
    for words in clauses:
        if not (say.NOT | _OFFERS | {idioms.IF, idioms.ONCE}).isdisjoint(words):
            continue
        wished = "you" in words and not {"asked", "ask", "want"}.isdisjoint(words)
        if not wished and any(_is_manager(words, index) for index in range(len(words))):
            yield Kind.MANAGER
        if not says_cancelled_request(" ".join(words)):
            yield from find_gifts(words)
        given = not say.GIVE.isdisjoint(words) or say.ON_THE_WAY.search(" ".join(words))
        who = say.WE | say.FUTURE | {"you", "sie", "vous", "le", "hemos", "ihnen"}
        if not say.GIFT.isdisjoint(words) and given and not who.isdisjoint(words):
            yield Kind.GIFT


def _is_manager(words: Words, index: int) -> bool:
    word = words[index]
    if word not in say.MANAGER:
        return False
    # In French and Spanish also an adjective: "nous sommes responsables".
    return not word.startswith("responsable") or not _TITLES.isdisjoint(words[index - 1 : index])


# --- goodwill claims ------------------------------------------------------------------------------


# Of how many percent, in digits or otherwise: "ten percent" cannot be compared, so it is not right.
_PERCENT = re.compile(
    r"([^\s(]+) ?(?:%|percent\b|per cent\b|prozent\b|pour ?cent\b|por ciento\b)", re.IGNORECASE
)
_DISCOUNT = re.compile(
    r"\d+ ?(?:%|percent|per cent|prozent|pour ?cent|por ciento)(?: off\b)?"
    r"|\b(?:discount(?:s| codes?)?|codes?|coupons?(?: codes?)?|courtesy|gesture of goodwill|goodwill"
    r"|rabatt\w*|nachlass|gutscheincodes?|kulanz\w*"
    r"|codes? promo|remises?|réductions?|geste commercial"
    r"|descuentos?|códigos?|cupón|gesto comercial)\b",
    re.IGNORECASE,
)


def is_true_discount(sentence: str, percents: Collection[int]) -> bool:
    """Say whether `sentence`, which gives something, gives only a discount of one of `percents`."""
    said = [match[1] for match in _PERCENT.finditer(sentence)]
    if not percents or any(each not in map(str, percents) for each in said):
        return False
    rest = _DISCOUNT.sub(" ", sentence)
    return all(claim.kind is not Kind.GIFT for claim in find_claims(rest))
