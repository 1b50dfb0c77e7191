"""One clause of a reply: which of its verbs say that money was given back, or will be.

How a text falls into clauses stands in `claims`, the words themselves in `claim_words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mailagent.agent.reply import claim_words as say
from mailagent.agent.reply import idioms
from mailagent.agent.reply.assertion import Find, Kind, Words, find_assertions, find_outright

_WITHIN = 4  # words between a helping verb and its verb


def find_in_clause(words: Words, decided: bool) -> Iterator[Kind]:
    """Yield what a clause claims of refunds. `decided`: the sentence says "if somebody decides so"."""
    for find in (_participles, _promises, _papers, _requests, find_assertions):
        for kind, index, negatable in find(words):
            if not say.NOT.isdisjoint(words[:index] if negatable and index else words):
                continue
            condition = _condition(words, index)
            if condition == idioms.IF:
                continue
            open_yet = decided and (kind is Kind.COMING or _is_present(words, index, kind))
            yield Kind.PENDING if condition or open_yet else kind
    yield from find_outright(words)


def _condition(words: Words, index: int) -> str | None:
    """Return the "if" or "once" that governs the verb at `index`, if there is one.

    "Once I saw your mail I refunded": what was said under the condition is over when a second
    subject or a second finite verb comes.
    """
    subjects = verbs = 0
    after_verb = False
    for word in reversed(words[:index]):
        if word in (idioms.IF, idioms.ONCE):
            return word if subjects <= 1 and verbs <= 1 else None
        subjects += word in say.PRONOUNS
        # "a" is a French verb and an English article, of which there are more.
        verbs += word in say.AUXILIARIES and word != "a" and not after_verb
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
            yield Kind.PAID if idioms.DID in words else Kind.COMING, index, False
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
    return not (say.FUTURE | {idioms.DID}).isdisjoint(words if german else before)


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
    if word in ("expect", "expecting", "receiving"):
        return Kind.COMING
    if word not in say.YOU_GET or _is_only_possible(before):
        return None
    english = word in ("receive", "get", "have", "see", "find", "getting")
    if english and say.EXPECTED.isdisjoint(before):
        certain = word in ("receive", "get", "getting") and "you" in before and before[-1] != "to"
        return Kind.COMING if certain else None
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
    if word.endswith("s"):
        return words[index - 1] in say.REFUND | say.MONEY
    finite = word.endswith(("t", "ra", "rá", "ga")) or not {"l", "allow"}.isdisjoint(words)
    return finite or not say.EXPECTED.isdisjoint(words[:index])


def _is_only_possible(before: Words) -> bool:
    return not (say.MODAL - say.EXPECTED).isdisjoint(before)


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
