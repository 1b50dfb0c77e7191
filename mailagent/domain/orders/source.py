"""A system of the shop that is asked for orders: its own server, or its platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mailagent.domain.refunds.order import Order
from mailagent.domain.remedies.address import NewAddress

# What one look-up of a customer's orders takes: more than anybody writes about.
MOST_PAGES = 2
MOST_ORDERS = 50
MOST_ORDERS_A_PAGE = 50

T = TypeVar("T")


class SourceProblem(Exception):
    """The source gave no usable answer; the text says why. Ask again after `retry_after_seconds`. `operator`:
    it refuses our key or breaks its contract, so that it would fail every request."""

    def __init__(self, why: str, retry_after_seconds: float = 0, *, operator: bool = False) -> None:
        super().__init__(why)
        self.retry_after_seconds = retry_after_seconds
        self.operator = operator


@dataclass(frozen=True, slots=True)
class OrderPage:
    """Orders, newest first, and the cursor of the next page; None at the end. `problems`: what is wrong with
    the records of further orders, a sentence each."""

    orders: tuple[Order, ...]
    next_cursor: str | None = None
    problems: tuple[str, ...] = ()


def cut_page(found: Sequence[T], most: int) -> tuple[Sequence[T], list[str]]:
    """Return the first records of a page, and what is wrong with it if it has more than `most`."""
    problems = [f"a page of a customer's orders has {len(found)}; at most {most} are read"]
    return found[:most], problems if len(found) > most else []


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Cancel these items of an order (item id and quantity); empty for the whole order. The same key twice
    cancels once."""

    idempotency_key: str
    order_id: str
    items: tuple[tuple[str, int], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Done; the order as it is now."""

    order: Order


@dataclass(frozen=True, slots=True)
class TooLate:
    """The source does not cancel it any more, such as when it was shipped."""

    why: str


@dataclass(frozen=True, slots=True)
class NotSupported:
    """The source cannot do this: a person does it."""

    why: str


CancelOutcome = Cancelled | TooLate | NotSupported


@dataclass(frozen=True, slots=True)
class AddressChanged:
    """Done: the source was asked again, and has the new address."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """The source was asked, and what it has now is not what was asked for: a person looks."""

    why: str


AddressOutcome = AddressChanged | TooLate | NotSupported | Unsure


class OrderSource(Protocol):
    """Each method makes at most a few requests within a deadline, and raises SourceProblem without a usable
    answer. The caller checks whose order it is: a source may be wrong.

    A payment's `refunded_minor` has all that was given back of it, our refunds too."""

    name: str

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        """Return a page of the orders of a customer, by mail address."""

    def load_order(self, order_id: str) -> Order | None:
        """Return one order as it is now, or None if there is none. Raises OrderProblem for a wrong record."""

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        """Cancel an order or some of its items. Raises OrderProblem if it is done, but its record is wrong."""

    def change_address(self, order_id: str, wanted: NewAddress) -> AddressOutcome:
        """Change the delivery address of an order that is still whole in the shop, and read it back; its price
        may not change by it. The same address twice changes nothing."""
