"""What a text says about refunds, found clause by clause: paid, on its way, asked for, decided by whom.

Cautious: what may be a claim is one, unless it is negated, conditional or about what could be. Whether
a claim is true is for `reply_check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from mailagent.agent import claim_words as say


class Kind(Enum):
    PAID = auto()  # money was sent
    COMING = auto()  # money will be sent: approved, on its way, promised
    PENDING = auto()  # money may be sent, if somebody decides so
    ASKED = auto()  # we asked for a refund
    MANAGER = auto()  # a manager decides or has decided
    GIFT = auto()  # a discount, a voucher, a replacement
    TIME = auto()  # when the money arrives


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, with the place of the sentence that makes it."""

    kind: Kind
    start: int
    end: int


Words = Sequence[str]

_SENTENCE_END = re.compile(r"[.!?…]+[\"'»”)\]]*(?=\s|$)|\n\s*\n|\n(?=\s*[-*•])")
_WRAPPED_LENGTH = 60  # a shorter line was not wrapped but ends on purpose
# "Refund status: paid" is one clause, "Sorry: the refund is not there yet" is two.
_CLAUSE_END = re.compile(r":(?=(?:\W+\w+){4})|[,;()\[\]–—!?.…/\"«»„“”\n]|\s-\s")
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
_ABOUT_MONEY = frozenset({Kind.PAID, Kind.COMING, Kind.PENDING})
_POINTS_BACK = re.compile(r"\W*(?:it|this|that|they|es|das|dies|sie|cela|ça|ce|il|esto|eso|ello)\b")
_OFFERS = frozenset(
    "can could may might would kann können könnte könnten möchte möchten würde peux peut pourrait"
    " puedo puede podría".split()
)
_TITLES = frozenset("un une le la du au mon notre el su al del mi nuestro nuestra".split())
_WITHIN = 4  # words between a helping verb and its verb


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
    for pattern, replacement in say.IDIOMS:
        plain = pattern.sub(replacement, plain)
    clauses = list(_clauses(plain))
    decided = any(_depends_on_decision(words) for words in clauses)
    kinds = [kind for words in clauses for kind in _clause_kinds(words, decided)]
    yield from kinds
    if (
        kinds
        or (about_money and _POINTS_BACK.match(plain))
        or (_has(plain, say.REFUND) and _ARRIVAL.search(plain))
    ) and _DURATION.search(plain):
        yield Kind.TIME
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
            if word in _NEW_CLAUSE or (word in _AND and not joined):
                yield words
                words = []
            else:
                words.append(word)
        yield words


def _depends_on_decision(words: Words) -> bool:
    if say.IF not in words and say.ONCE not in words:
        return False
    return bool(say.DECISION.search(" ".join(words))) or not say.MANAGER.isdisjoint(words)


def _clause_kinds(words: Words, decided: bool) -> Iterator[Kind]:
    """Yield what a clause claims. `decided`: the sentence says "if somebody decides so"."""
    for find in (_participles, _promises, _papers, _requests):
        for kind, index, negatable in find(words):
            if not say.NOT.isdisjoint(words[:index] if negatable else words):
                continue
            condition = _condition(words, index)
            if condition == say.IF:
                continue
            open_yet = decided and (kind is Kind.COMING or _is_present(words, index, kind))
            yield Kind.PENDING if condition or open_yet else kind


# A find: the kind, the place of the telling word, and whether only a "not" before it takes it back.
Find = tuple[Kind, int, bool]


def _condition(words: Words, index: int) -> str | None:
    """Return the "if" or "once" that governs the verb at `index`, if there is one.

    "Once I saw your mail I refunded": what was said under the condition is over when a second
    subject or a second finite verb comes.
    """
    subjects = verbs = 0
    after_verb = False
    for word in reversed(words[:index]):
        if word in (say.IF, say.ONCE):
            return word if subjects <= 1 and verbs <= 1 else None
        subjects += word in say.PRONOUNS
        verbs += word in say.AUXILIARIES and not after_verb
        after_verb = word in say.AUXILIARIES
    return None


def _is_present(words: Words, index: int, kind: Kind) -> bool:
    """Say whether "is refunded" stands there: with an "if" a promise, without one a statement."""
    past = frozenset(
        "been was were have has had haben habe hat wurde wurden worden été avons ai a sido fue ha"
        " hemos he".split()
    )
    return kind is Kind.PAID and past.isdisjoint(words[: index + 2])


def _participles(words: Words) -> Iterator[Find]:
    about_refund = not say.REFUND.isdisjoint(words)
    about_money = about_refund or not (say.MONEY | {say.AMOUNT}).isdisjoint(words)
    paper = not say.PAPER.isdisjoint(words)
    for index, word in enumerate(words):
        moved = word in say.MOVED and about_money and not paper and not _is_yours(words, index)
        moved |= word in say.CREDITED and not say.ACCOUNT.isdisjoint(words)
        done = word in say.DONE and about_refund and not paper and not _is_yours(words, index)
        if word in say.PAID or moved or done or _is_paid_out(words, index):
            kind = _tense(words, index)
        elif word in say.APPROVED or (word in say.STARTED and about_refund):
            kind = _tense(words, index) and Kind.COMING
        else:
            continue
        if kind is not None:
            # "Eine Erstattung erfolgt nicht": finite here, so the "not" comes after it.
            yield kind, index, word != "erfolgt"


def _is_paid_out(words: Words, index: int) -> bool:
    """ "paid out", "paid back", "it has been paid": without a noun, but of a refund all the same."""
    following = words[index + 1] if index + 1 < len(words) else ""
    if words[index] == "paid" and following in ("out", "back"):
        return not _is_yours(words, index)
    subject = words[max(0, index - _WITHIN) : index]
    return (
        words[index] in ("paid", "processed", "issued")
        and "been" in subject
        and not {"it", "this", "everything"}.isdisjoint(subject)
    )


def _is_yours(words: Words, index: int) -> bool:
    """Say whether the customer did it: "the amount that you paid", "den Sie überwiesen haben"."""
    before = " ".join(words[max(0, index - _WITHIN) : index])
    here = " ".join(words[max(0, index - 8) : index + 2])
    return bool(
        re.search(r"\byou(?: had| have| ve| originally| already)?$", before)
        or (
            re.search(r"\b(?:sie haben|haben sie|vous avez|avez vous|usted ha|ha usted)\b", here)
            and not re.search(r"\b(?:ich|wir|bekommen|nous|hemos)\b", here)
        )
        or re.search(r"\bbei uns\b", before)
        or (re.search(r"\bsie\b", before) and words[index + 1 : index + 2] == ["haben"])
    )


def _tense(words: Words, index: int) -> Kind | None:
    """Return what a past participle says where it stands: paid, to be paid, or only possible."""
    before = words[max(0, index - _WITHIN) : index]
    following = words[index + 1] if index + 1 < len(words) else ""
    future = not say.FUTURE.isdisjoint(words[:index])
    if following in ("werden", "wird"):  # "kann erstattet werden", "dass es erstattet wird"
        return None if not say.MODAL.isdisjoint(words[:index]) else Kind.COMING
    if not say.PASSIVE_INFINITIVE.isdisjoint(before[-2:]) and not future:  # "to be refunded"
        return None
    return Kind.COMING if future or "being" in before else Kind.PAID


def _promises(words: Words) -> Iterator[Find]:
    about_refund = not say.REFUND.isdisjoint(words)
    about_money = about_refund or not (say.MONEY | {say.AMOUNT}).isdisjoint(words)
    about_cash = about_refund or not say.MONEY.isdisjoint(words)
    paper = not say.PAPER.isdisjoint(words)
    money = about_money and not paper
    for index, word in enumerate(words):
        refunds = word in say.TO_REFUND and _is_promised(words, index)
        refunds |= word in say.WILL_REFUND and _is_going_on(words, index)
        moves = money and word in say.TO_MOVE and _is_promised(words, index)
        moves |= money and word in say.WILL_MOVE and _is_going_on(words, index)
        if refunds or moves:
            yield Kind.PAID if say.DID in words else Kind.COMING, index, False
        elif money and (kind := _gets(words, index)) is not None:
            yield kind, index, False
        elif (about_cash or word == "be") and money and _arrives(words, index):
            yield Kind.COMING, index, False
    phrase = " ".join(words)
    if about_cash and say.ON_THE_WAY.search(phrase):
        yield Kind.COMING, len(words), False
    there = (about_cash and say.THERE.search(phrase)) or (money and say.THERE_AMOUNT.search(phrase))
    if there and not paper and say.MODAL.isdisjoint(words):
        yield Kind.COMING if not say.FUTURE.isdisjoint(words) else Kind.PAID, len(words), False


def _is_promised(words: Words, index: int) -> bool:
    """Say whether an infinitive is more than possible: "will refund", "wir erstatten", not "can"."""
    before = words[max(0, index - _WITHIN) : index]
    previous = words[index - 1] if index else ""
    if words[index] in _ALSO_NOUNS and previous in _DETERMINERS:  # "will check your refund"
        return False
    if not say.MODAL.isdisjoint(words[: index + 2]):  # "erstatten können": the helper may follow
        return False
    if previous in say.WE:
        return True
    german = words[index].endswith("en")  # whose helping verb may stand at the other end
    if german and "wir" in words:
        return True
    return not (say.FUTURE | {say.DID}).isdisjoint(words if german else before)


_ALSO_NOUNS = frozenset("refund credit transfer return issue process deposit wire pay".split())
_DETERMINERS = frozenset(
    "a an the your this that any no full partial of for on about with our his her its each every"
    " automatic possible requested approved to".split()
)


def _is_going_on(words: Words, index: int) -> bool:
    before = words[max(0, index - 3) : index]
    return not words[index].endswith("ing") or not say.TO_BE.isdisjoint(before)


def _gets(words: Words, index: int) -> Kind | None:
    """Return what "you receive" says of money: coming, or already there."""
    word, before = words[index], words[:index]
    got = bool({"have", "ve", "haben", "avez", "ha", "has"} & set(words)) and word in say.YOU_GOT
    if got and not {"you", "sie", "vous", "ha", "has"}.isdisjoint(words):
        return None if not {"i", "we", "ich", "wir", "nous"}.isdisjoint(words) else Kind.PAID
    if word not in say.YOU_GET or _is_only_possible(before):
        return None
    if word in ("expect", "expecting"):
        return Kind.COMING
    english = word in ("receive", "get", "have", "see", "find", "receiving", "getting")
    if english and say.EXPECTED.isdisjoint(before):
        certain = word in ("receive", "receiving", "get", "getting") and "you" in before
        return Kind.COMING if certain and before[-1:] != ["to"] or word == "receiving" else None
    if word.endswith(("halten", "kommen", "kriegen")) and "sie" not in words:
        return None
    return Kind.COMING


def _arrives(words: Words, index: int) -> bool:
    word = words[index]
    if word not in say.ARRIVES or _is_only_possible(words[:index]):
        return False
    if word == "be":
        place = {"in", "on", "back", "with", "there", "yours", "available"}
        if place.isdisjoint(words[index + 1 : index + 2]):
            return False
    finite = word.endswith(("t", "ra", "rá", "ga", "s")) or not {"l", "allow"}.isdisjoint(words)
    return finite or not say.EXPECTED.isdisjoint(words[:index])


def _is_only_possible(before: Words) -> bool:
    return not (say.MODAL - say.EXPECTED - {"can"}).isdisjoint(before)


def _papers(words: Words) -> Iterator[Find]:
    """A receipt follows only where money may."""
    follows = frozenset(
        "follows follow folgt suit suivra sigue seguirá recibirá recevrez erhalten receive get".split()
    )
    if say.RECEIPT.isdisjoint(words) or not say.MODAL.isdisjoint(words):
        return
    if not (follows | say.FUTURE).isdisjoint(words) and say.NOT.isdisjoint(words):
        yield Kind.PENDING, len(words), False


def _requests(words: Words) -> Iterator[Find]:
    if say.REFUND.isdisjoint(words) and "@request@" not in words:
        return
    for index, word in enumerate(words):
        if word in say.ASKED_FOR and not (say.WE | {"he", "hemos"}).isdisjoint(words):
            yield Kind.ASKED, index, True


def _company_kinds(clauses: Iterable[Words]) -> Iterator[Kind]:
    for words in clauses:
        if not (say.NOT | _OFFERS | {say.IF, say.ONCE}).isdisjoint(words):
            continue
        if any(_is_manager(words, index) for index in range(len(words))):
            yield Kind.MANAGER
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
