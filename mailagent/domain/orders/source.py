"""Order sources: systems of the shop that we ask for orders, its own server or its platform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.refunds.order import Order, OrderProblem
from mailagent.domain.remedies.address import NewAddress

# One look-up of a customer's orders reads at most this much. A mail is rarely about more.
MOST_PAGES = 2
MOST_ORDERS = 50
MOST_ORDERS_A_PAGE = 50
# After this time it begins no other request, and waits for none. What it has not read by then stays as stored.
LOOK_UP_SECONDS = 15.0

T = TypeVar("T")


class SourceProblem(Exception):
    """The source gave no usable answer; the text says why. Ask again after `retry_after_seconds`. `operator`:
    an operator must act, because the source refuses our key or breaks its contract, and every request fails.
    `not_done`: the source has certainly changed nothing, because the request was not sent or was refused.
    `answered`: a shop platform works, but refuses this request or fails on it."""

    def __init__(
        self,
        why: str,
        retry_after_seconds: float = 0,
        *,
        operator: bool = False,
        not_done: bool = False,
        answered: bool = False,
    ) -> None:
        super().__init__(why)
        self.retry_after_seconds = retry_after_seconds
        self.operator, self.not_done, self.answered = operator, not_done, answered


class NotYet(SourceProblem):
    """The source works, but has not finished yet what it was asked for: ask again. This is no failure of the
    source."""


class OutOfTime(SourceProblem):
    """The look-up had no time left for a request, or for the rest of its answer."""


@contextmanager
def after_change() -> Iterator[None]:
    """Wrap a look-up after a change request: if it fails, clear `not_done`, as the change may be made."""
    try:
        yield
    except SourceProblem as problem:
        problem.not_done = False
        raise


@contextmanager
def order_of(email: object) -> Iterator[None]:
    """Wrap the parsing of an order's record: give its OrderProblem the customer's address."""
    try:
        yield
    except OrderProblem as problem:
        problem.customer_email = normalise_address(email) if isinstance(email, str) else None
        raise


@dataclass(frozen=True, slots=True)
class OrderPage:
    """Orders, newest first, and the cursor of the next page; None at the end. `problems`: a sentence about each
    order that was left out, because its record is wrong. `is_cut`: older ones were not read in time."""

    orders: tuple[Order, ...]
    next_cursor: str | None = None
    problems: tuple[str, ...] = ()
    is_cut: bool = False


def cut_page(found: Sequence[T], most: int) -> tuple[Sequence[T], list[str]]:
    """Return the first `most` records of a page, and a problem for people if it has more."""
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
    """The source cancelled it. `order` is the order as it is now."""

    order: Order


@dataclass(frozen=True, slots=True)
class TooLate:
    """The source refuses the change because the order has gone too far, such as when it was shipped."""

    why: str


@dataclass(frozen=True, slots=True)
class NotSupported:
    """The source cannot do this, and has changed nothing: a person does it."""

    why: str


@dataclass(frozen=True, slots=True)
class AddressChanged:
    """The source has the new address: we read the order again after the change."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """The source may have done something else than we asked for, or its answer was lost: a person must look."""

    why: str


CancelOutcome = Cancelled | TooLate | NotSupported | Unsure
AddressOutcome = AddressChanged | TooLate | NotSupported | Unsure


class OrderSource(Protocol):
    """A source of orders. Each method makes a few requests within a deadline, and raises SourceProblem if it
    gets no usable answer. The caller must check whose order it is: a source may return another customer's.

    In orders of a source, a payment's `refunded_minor` includes our own refunds."""

    name: str

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        """Return a page of the orders of the customer with this mail address. Raises SourceProblem."""

    def load_order(self, order_id: str) -> Order | None:
        """Return one order as it is now; None if there is none. Raises SourceProblem, and OrderProblem for a
        record with wrong values (see `order_of`)."""

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        """Cancel an order or some of its items. Raises SourceProblem, and OrderProblem if the source cancelled
        it but returned a record with wrong values."""

    def change_address(self, order_id: str, wanted: NewAddress) -> AddressOutcome:
        """Change the delivery address of an order, and read it back. Only an order that the shop has not begun
        to ship, and whose price does not change, gets a new address. The same address twice changes nothing.
        Raises SourceProblem."""
