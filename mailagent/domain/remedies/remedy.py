"""Remedies beside a refund: what else a customer may ask for, and the states of that. Pure.

A remedy itself moves no money.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class RemedyKind(StrEnum):
    EXCHANGE = "exchange"
    REPLACEMENT = "replacement"
    CHANGE_ADDRESS = "change_address"
    CANCEL = "cancel"  # before the order is shipped; then its refund is paid
    RETURN = "return"  # the goods come back first; then their refund is paid


# The customer gets goods for it once more.
SENT_AGAIN = frozenset({RemedyKind.EXCHANGE, RemedyKind.REPLACEMENT})

# What a customer may ask for by itself. The policy makes a return of a refund.
ASKED_FOR = frozenset(RemedyKind) - {RemedyKind.RETURN}


class RemedyStatus(StrEnum):
    ASKED = "asked"  # the shop's own system is to do it
    TASK = "task"  # a person of the shop is to do it
    AWAITING_GOODS = "awaiting_goods"  # the customer is to send them
    DONE = "done"
    NOT_POSSIBLE = "not_possible"
    WITHDRAWN = "withdrawn"  # by the customer
    EXPIRED = "expired"  # it was not done in time


_ENDS = frozenset(
    {
        RemedyStatus.DONE,
        RemedyStatus.NOT_POSSIBLE,
        RemedyStatus.WITHDRAWN,
        RemedyStatus.EXPIRED,
    }
)
_NEXT: Mapping[RemedyStatus, frozenset[RemedyStatus]] = {
    # Once the system was asked, the customer cannot take it back: it may be done.
    RemedyStatus.ASKED: frozenset(
        {RemedyStatus.DONE, RemedyStatus.NOT_POSSIBLE, RemedyStatus.TASK}
    ),
    RemedyStatus.TASK: _ENDS,
    RemedyStatus.AWAITING_GOODS: _ENDS,
}

OPEN = frozenset(_NEXT)

# A remedy in one of these states stands for its items: they are sent again, or are about to be.
STANDING = OPEN | {RemedyStatus.DONE}


def check_transition(current: RemedyStatus, following: RemedyStatus) -> None:
    """Raise ValueError if a remedy may not go from `current` to `following`: that is a bug."""
    if following not in _NEXT.get(current, frozenset()):
        raise ValueError(f"a remedy that is {current} cannot become {following}")


@dataclass(frozen=True, slots=True)
class RemedyItem:
    """Units of an item that a remedy is for."""

    item_id: str
    name: str
    quantity: int


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a customer asked for on an order. `wish`: their own words, such as the new address. `reason` is that
    of a refund. `policy_reasons`: why a manager has to do it; empty if any person of the team may.
    `refund_id`: the refund that is paid only after it is done. `asked_at`: since when the shop's own system may
    have done it; None if it was not to. `instructions`: how to send goods back, as the policy said when it
    asked for them. `note`: what a person wrote to the customer about the outcome. `address`: the parts of a new
    address that the shop's system is asked to set, or may have set."""

    remedy_id: str
    kind: RemedyKind
    status: RemedyStatus
    order_id: str
    conversation_id: str
    mail_id: str
    items: tuple[RemedyItem, ...]
    requested_at: datetime
    due_at: datetime
    wish: str | None = None
    reason: str | None = None
    policy_reasons: tuple[str, ...] = ()
    policy_version: str | None = None
    refund_id: str | None = None
    asked_at: datetime | None = None
    instructions: str | None = None
    reminded_at: datetime | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    note: str | None = None
    address: Mapping[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def may_be_done(self) -> bool:
        """Whether the shop's own system is to do it, or may have done it, whatever it answered."""
        return self.status is RemedyStatus.ASKED or (self.is_open and self.asked_at is not None)

    @property
    def needs_manager(self) -> bool:
        return bool(self.policy_reasons)

    def touches(self, kind: RemedyKind, item_ids: Iterable[str]) -> bool:
        """Return whether it is of this kind and for some of these items, or for the whole order."""
        mine = {item.item_id for item in self.items}
        return self.kind is kind and (not mine or not mine.isdisjoint(item_ids))


# --- the customer's own words ---------------------------------------------------------------------


def quotes(wish: str, mails: Iterable[str]) -> bool:
    """Return whether a wish stands word for word in one of these mails, however it is broken into lines. The
    model copies it: an address that the customer did not write must not reach the team."""
    words = " ".join(words_of(wish))
    return bool(words) and any(f" {words} " in f" {' '.join(words_of(mail))} " for mail in mails)


def words_of(text: str) -> list[str]:
    """Return the words of a text, without capitals and punctuation."""
    return re.findall(r"\w+", text.casefold())


# --- what a person says of a task -----------------------------------------------------------------


class TaskProblem(ValueError):
    """What a person says of a task cannot be recorded; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What a person says of a task. `note` is for the customer. `is_manager`: the person is one; `is_theirs`:
    the order is the person's own. `refund_waits`: a manager has yet to decide on a refund of the same items."""

    is_done: bool
    note: str | None
    is_manager: bool
    is_theirs: bool = False
    refund_waits: bool = False


def check_outcome(remedy: Remedy | None, outcome: TaskOutcome) -> bool:
    """Return whether an outcome is news. Raises TaskProblem if it cannot be."""
    if remedy is None:
        raise TaskProblem("there is no such task; look at the list")
    wanted = RemedyStatus.DONE if outcome.is_done else RemedyStatus.NOT_POSSIBLE
    if remedy.status is wanted:
        return False
    if remedy.status is RemedyStatus.ASKED:
        raise TaskProblem("the shop's system is being asked; wait for its answer")
    if not remedy.is_open:
        raise TaskProblem("it has ended already; write to the customer")
    if outcome.is_theirs:
        raise TaskProblem("it is your own order; another person has to do it")
    if remedy.needs_manager and not outcome.is_manager:
        raise TaskProblem("the policy wants a manager to do it; ask one")
    if outcome.is_done and outcome.refund_waits:
        raise TaskProblem(
            "a refund of the same items waits for a manager; send nothing until it is decided"
        )
    if not outcome.is_done and not outcome.note:
        raise TaskProblem("say why it is not possible; the customer reads it")
    return True
