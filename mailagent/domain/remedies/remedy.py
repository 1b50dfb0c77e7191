"""Remedies: what a customer may ask for beside a refund, and its states. Pure.

A remedy itself moves no money.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import RefundLine, WantedItem, price_lines
from mailagent.domain.shop import person_of
from mailagent.domain.text import Fill, fill


class RemedyKind(StrEnum):
    EXCHANGE = "exchange"
    REPLACEMENT = "replacement"
    CHANGE_ADDRESS = "change_address"
    CANCEL = "cancel"  # before the order is shipped; then its refund is paid
    RETURN = "return"  # the goods come back first; then their refund is paid


# For these remedies the shop sends goods again.
SENT_AGAIN = frozenset({RemedyKind.EXCHANGE, RemedyKind.REPLACEMENT})

# A customer may ask for these. A return is different: the policy adds it to a refund.
ASKED_FOR = frozenset(RemedyKind) - {RemedyKind.RETURN}


class RemedyStatus(StrEnum):
    ASKED = "asked"  # we ask the shop's own system to do it
    TASK = "task"  # a person of the shop does it
    AWAITING_GOODS = "awaiting_goods"  # the customer sends the goods back
    DONE = "done"
    NOT_POSSIBLE = "not_possible"
    WITHDRAWN = "withdrawn"  # by the customer
    EXPIRED = "expired"  # its date passed before it was done


_ENDS = frozenset(
    {
        RemedyStatus.DONE,
        RemedyStatus.NOT_POSSIBLE,
        RemedyStatus.WITHDRAWN,
        RemedyStatus.EXPIRED,
    }
)
_NEXT: Mapping[RemedyStatus, frozenset[RemedyStatus]] = {
    # The customer cannot withdraw it once the system was asked, because the system may have done it.
    RemedyStatus.ASKED: frozenset(
        {RemedyStatus.DONE, RemedyStatus.NOT_POSSIBLE, RemedyStatus.TASK}
    ),
    RemedyStatus.TASK: _ENDS,
    RemedyStatus.AWAITING_GOODS: _ENDS,
}

OPEN = frozenset(_NEXT)

# A remedy in one of these states counts for its items: it is done, or may still be done.
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


def name_items(units: Mapping[str, int], names: Mapping[str, str]) -> tuple[RemedyItem, ...]:
    """Return units as items. `units` and `names`: by item id; an item that the order no longer has keeps its
    id as its name."""
    return tuple(
        RemedyItem(item_id, names.get(item_id, item_id), quantity)
        for item_id, quantity in units.items()
        if quantity
    )


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a customer asked for on an order. `items`: empty for the whole order. `wish`: the customer's own
    words, such as the new address. `reason`: a RefundReason. `policy_reasons`: why a manager has to do it;
    empty if any person of the team may. `refund_id`: the refund that is paid only after this is done.
    `asked_at`: when we asked the shop's own system, which may have done it since; None if we did not.
    `instructions`: how to send goods back, as the policy said then. `note`: what a person wrote to the customer
    about the outcome. `address`: the parts of a new address that the shop's system should set, or may have
    set."""

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
    def units(self) -> Counter[str]:
        """How many units of each item it is for, by item id; empty for the whole order."""
        units = Counter[str]()
        for item in self.items:
            units[item.item_id] += item.quantity
        return units

    @property
    def is_done_cancellation(self) -> bool:
        return self.kind is RemedyKind.CANCEL and self.status is RemedyStatus.DONE

    @property
    def is_whole_cancellation(self) -> bool:
        return self.kind is RemedyKind.CANCEL and not self.items

    @property
    def may_be_done(self) -> bool:
        """Whether the shop's own system may do it, or may have done it, even if a person has it now."""
        return self.status is RemedyStatus.ASKED or (self.is_open and self.asked_at is not None)

    @property
    def can_be_withdrawn(self) -> bool:
        return self.is_open and not self.may_be_done

    @property
    def needs_manager(self) -> bool:
        return bool(self.policy_reasons)

    def touches(self, kind: RemedyKind, item_ids: Iterable[str]) -> bool:
        """Return whether it has this kind, or both send goods again, and it is for some of these items or for
        the whole order."""
        mine, is_alike = {item.item_id for item in self.items}, {self.kind, kind} <= SENT_AGAIN
        return (self.kind is kind or is_alike) and (not mine or not mine.isdisjoint(item_ids))


def items_of(order: Order, lines: Sequence[RefundLine]) -> tuple[RemedyItem, ...]:
    """Return the items of priced lines."""
    names = {line.line_no: (line.item_id, line.name) for line in order.lines}
    return tuple(RemedyItem(*names[line.line_no], line.quantity) for line in lines)


def count_units(order: Order, lines: Sequence[RefundLine]) -> Counter[str]:
    """Return how many units priced lines have, by item id."""
    units = Counter[str]()
    for each in items_of(order, lines):
        units[each.item_id] += each.quantity
    return units


def price_units(order: Order, remedy: Remedy) -> int:
    """Return what a remedy's units are worth, in minor units: as for a refund, without shipping. Units that the
    order does not list any more count for nothing."""
    listed = remedy.units & order.units
    wanted = [WantedItem(item_id, quantity) for item_id, quantity in listed.items()]
    return sum(line.amount.minor for line in price_lines(order, wanted, ()))


# --- the customer's own words ---------------------------------------------------------------------


def quotes(wish: str, mails: Iterable[str]) -> bool:
    """Return whether one of these mails has a wish word for word; case, punctuation and line breaks do not
    matter. The model copies the wish, and an address that the customer did not write must not reach the
    team."""
    words = " ".join(words_of(wish))
    return bool(words) and any(f" {words} " in f" {' '.join(words_of(mail))} " for mail in mails)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case and without punctuation."""
    return re.findall(r"\w+", text.casefold())


# --- what a person says of a task -----------------------------------------------------------------


class TaskProblem(ValueError):
    """What a person reports about a task cannot be recorded; the text says why, and what to do."""


class TaskStop(StrEnum):
    """Why only a manager may say that a task is done, because its order has changed since; in words for
    people."""

    NEW_CUSTOMER = "the order belongs to another customer now: do nothing unless a manager says so"
    CANCELLED = "the order is cancelled: send nothing unless a manager says so"
    CHARGED_BACK = (
        "the bank took the payment back (chargeback): send nothing unless a manager says so"
    )
    ELSEWHERE = "money was refunded elsewhere, perhaps for these goods: send nothing unless a manager says so"


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What a person reports about a task. `note`: a text for the customer. `is_manager`: the person is a
    manager. `is_theirs`: the person has the order, or asked for the task. `refund_waits`: a manager has yet to
    decide on a refund of the same items. `stop`: why only a manager may do it. `has_approved`: the person
    has approved it as the first of two managers. `is_late`: the person wants to be the first, but another one
    was."""

    is_done: bool
    note: str | None
    is_manager: bool
    is_theirs: bool = False
    refund_waits: bool = False
    stop: TaskStop | None = None
    has_approved: bool = False
    is_late: bool = False


def check_outcome(remedy: Remedy | None, outcome: TaskOutcome) -> bool:
    """Return whether an outcome changes the task. Raises TaskProblem if it cannot be recorded."""
    if remedy is None:
        raise TaskProblem("there is no such task; look at the list")
    wanted = RemedyStatus.DONE if outcome.is_done else RemedyStatus.NOT_POSSIBLE
    if remedy.status is wanted:
        return False
    if remedy.status is RemedyStatus.ASKED:
        raise TaskProblem("the shop's system is being asked; wait for its answer")
    if remedy.kind is RemedyKind.RETURN and remedy.status is RemedyStatus.EXPIRED:
        raise TaskProblem(
            "the return lapsed, because the goods did not come in time: nothing is refunded for them; "
            "write to the customer"
        )
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
    if outcome.is_done and outcome.stop and not outcome.is_manager:
        raise TaskProblem(outcome.stop.value)
    if outcome.is_done and outcome.has_approved:
        raise TaskProblem("you have approved it already; another manager has to do it")
    if outcome.is_done and outcome.is_late:
        raise TaskProblem("another manager has approved it meanwhile; do it, and then say so")
    if not outcome.is_done and not outcome.note:
        raise TaskProblem("say why it is not possible; the customer reads it")
    return True


def tell_again(
    remedy: Remedy, person: str, note: str | None, approves: bool, _: Fill = fill
) -> str | None:
    """Return what to tell a person who reports the recorded outcome of a task; None for a double click, and if
    nothing can be done twice and they wrote no other `note`. `approves`: they only wanted to approve it as the
    first of two managers."""
    is_theirs = person_of(remedy.decided_by or "") == person_of(person)
    is_done = remedy.status is RemedyStatus.DONE and remedy.kind is not RemedyKind.RETURN
    if note in (None, remedy.note) and (is_theirs or approves or not is_done):
        return None
    facts = {"person": remedy.decided_by or "–", "decided_at": remedy.decided_at}
    if remedy.status is RemedyStatus.DONE and remedy.kind is RemedyKind.RETURN:
        return _(
            "%(person)s recorded the goods as back, %(decided_at)s; write to the customer what else they must"
            " know",
            **facts,
        )
    if remedy.status is RemedyStatus.DONE:
        return _(
            "%(person)s said that it is done, %(decided_at)s, and the customer was told. If it was done twice,"
            " take one of the two back; write to the customer what else they must know",
            **facts,
        )
    return _(
        "%(person)s said that it is not possible, %(decided_at)s, and the customer was told; write to the"
        " customer what else they must know",
        **facts,
    )
