"""What a clause asserts about money, decisions, gifts and changes, in whatever phrase: two words meet.

A word for money beside one for "moved" is a claim, unless the clause is plainly about something else:
what the customer paid or wants. Fails towards a person. The words stand in `assertion_words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto

from mailagent.agent.reply import assertion_words as say
from mailagent.agent.reply import claim_words, gift_words, idioms

Words = Sequence[str]


class Kind(Enum):
    PAID = auto()  # money was sent
    COMING = auto()  # money will be sent: approved, on its way, promised
    PENDING = auto()  # money may be sent, if somebody decides so
    ASKED = auto()  # we asked for a refund
    MANAGER = auto()  # a manager decides or has decided
    GIFT = auto()  # a discount, a voucher, a replacement, an exception, a service
    CHANGE = auto()  # an order, an address or a deadline was changed
    WITHDRAWN = auto()  # a request was withdrawn, as the customer wished
    TIME = auto()  # when money or goods arrive, or somebody decides
    FORECAST = auto()  # how a manager is going to decide


# A find: the kind, the place of the telling word, and whether only a "not" before it takes it back.
Find = tuple[Kind, int, bool]

_OPEN = claim_words.MODAL - {"zu"}
_POSSIBLE = claim_words.MODAL - frozenset(
    "should must muss müssen soll sollen zu dois doit".split()
)
_DECIDED = claim_words.APPROVED | claim_words.ASKED_FOR
_FRAGMENT_MAX_WORDS = 6


def find_assertions(words: Words) -> Iterator[Find]:
    """Yield what a clause asserts; whether a "not" or an "if" takes it back is for the caller."""
    if idioms.ASKED in words:
        return
    phrase = " ".join(words)
    possible = not _POSSIBLE.isdisjoint(words)
    if found := _money(phrase):
        kind, match = found
        if not possible or say.OUTRIGHT.search(phrase) or say.RELIED.search(phrase):
            yield kind, _place(phrase, match), False
    agreed = say.AGREED.search(phrase)
    if agreed and _OPEN.isdisjoint(words) and not say.NOT_OURS.search(phrase):
        yield Kind.COMING, _place(phrase, agreed), False
    if (kind_of := _fragment(words, phrase)) is not None:
        yield kind_of, 0, False


def find_outright(words: Words) -> Iterator[Kind]:
    """Yield what holds whatever "not" stands in the clause, or because two of them do."""
    phrase = " ".join(words)
    if idioms.IF in words or idioms.ONCE in words:
        return
    if say.OUTRIGHT.search(phrase):
        yield Kind.COMING
    twice = not claim_words.NOT.isdisjoint(words) and say.LOST.search(phrase)
    if twice and (say.MONEY.search(phrase) or "@request@" in words or _WE.search(phrase)):
        yield Kind.PENDING


_WE = re.compile(r"\b(?:we|it|wir|es|nous|elle|il|fue)\b")


def find_gifts(words: Words) -> Iterator[Kind]:
    """Yield what nobody but the shop's people can give, where a clause gives it."""
    phrase = " ".join(words)
    gift = gift_words.GIFT.search(phrase)
    if gift and gift_words.GIVEN.search(phrase) and not say.WISH.search(phrase):
        yield Kind.GIFT
    if gift_words.TOKEN.search(phrase) and not say.WISH.search(phrase):
        yield Kind.GIFT
    if gift_words.SERVICE.search(phrase) and not say.WISH.search(phrase):
        yield Kind.GIFT
    if gift_words.CHANGED.search(phrase):
        yield Kind.CHANGE


def _money(phrase: str) -> tuple[Kind, re.Match[str]] | None:
    if outright := say.OUTRIGHT.search(phrase):
        return Kind.COMING, outright
    if say.INCOMING.search(phrase):
        return None
    if done := say.IT_IS_DONE.search(phrase):
        return Kind.PAID, done
    if say.WISH.search(phrase):
        return None
    if say.MONEY.search(phrase) is None:
        words = phrase.split()
        to_you = say.TO_YOU.search(phrase) and claim_words.PAPER.isdisjoint(words)
        decided = not claim_words.MANAGER.isdisjoint(words)
        deed = _other_deed(phrase) if to_you or decided else None
        return (Kind.COMING, deed) if deed else None
    if moving := say.RELIED.search(phrase) or say.MOVING.search(phrase):
        return Kind.COMING, moving
    back = say.BACK.search(phrase)
    moved = say.MOVED.search(phrase) or back
    if moved is None:
        deed = say.ON_ACCOUNT.search(phrase) or _other_deed(phrase)
        return (Kind.COMING, deed) if deed else None
    future = not claim_words.FUTURE.isdisjoint(phrase.split())
    there = moved is not back or say.IS_THERE.search(phrase)
    return (Kind.PAID if there and not future else Kind.COMING), moved


def _other_deed(phrase: str) -> re.Match[str] | None:
    """Return the first participle that is not of the order, whatever it means: default is deny."""
    for match in say.DONE.finditer(phrase):
        word = match[match.lastgroup or 0]
        if word not in _DECIDED and not (
            say.OF_THE_ORDER.fullmatch(word) or say.LOST.fullmatch(word)
        ):
            return match
    return None


def _place(phrase: str, match: re.Match[str]) -> int:
    return phrase.count(" ", 0, match.start())


def _fragment(words: Words, phrase: str) -> Kind | None:
    """Return what a heading, a cell of a table or a cry says: "Status: paid", "Approved!"."""
    if len(words) > _FRAGMENT_MAX_WORDS:
        return None
    for kind, pattern in ((Kind.PAID, say.SETTLED), (Kind.COMING, say.GRANTED)):
        if pattern.search(phrase) and not say.LABEL.sub("", pattern.sub("", phrase)).strip():
            return kind
    return None
