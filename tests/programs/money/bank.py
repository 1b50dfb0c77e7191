"""A bank for the state machine: it keeps its own books, loses answers, dawdles and refuses.

Like any bank it gives back no more than was paid. It remembers an idempotency key for a day, as Stripe does:
who asks later without looking first moves the money again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, Payment
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    Pending,
    Refunded,
    RefundRequest,
    RefundState,
    Refused,
)

KEYS_KEPT = timedelta(hours=24)

_STATES = {
    "succeeded": RefundState.SETTLED,
    "pending": RefundState.PENDING,
    "failed": RefundState.FAILED,
    "unfunded": RefundState.FAILED,
}
_WHY = {"failed": "account closed", "unfunded": "insufficient funds"}

# What may happen to one call, in the order in which examples get harder.
MOODS = ("well", "busy", "lost before", "lost after", "slow", "no balance", "unfunded", "refused")


@dataclass
class Entry:
    """One refund in the bank's books; `state` is `succeeded`, `pending`, `failed` for good, or `unfunded`: it
    failed, and another one may be made under its key."""

    request: RefundRequest
    reference: str
    state: str
    made_at: datetime
    bank: str = "bank"

    @property
    def moved(self) -> bool:
        return self.state in ("succeeded", "pending")

    @property
    def ours(self) -> bool:
        return bool(self.request.refund_id)

    def word(self) -> GatewayRefund:
        """What the bank says of it to whoever asks, and in its events."""
        return GatewayRefund(
            reference=self.reference,
            gateway=self.bank,
            payment_ids=(self.request.payment_id,),
            amount=self.request.amount,
            state=_STATES[self.state],
            idempotency_key=self.request.idempotency_key or None,
            order_id=self.request.order_id if self.ours else None,
            why=_WHY.get(self.state),
        )


class Bank:
    """A payment gateway. `moods` are what happens to its next calls; afterwards all is well. `takes_back`:
    money that it gave back may return to it."""

    name = "bank"
    takes_back = True
    remote = False  # whether a circuit breaker stands before it

    def is_remote(self, _request: RefundRequest) -> bool:
        return self.remote

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.entries: list[Entry] = []
        self.refusals: list[tuple[str, datetime]] = []
        self.paid: dict[str, int] = {}  # by payment, in minor units
        self.moods: list[str] = []

    def open_order(self, order: Order) -> Order:
        """Take the payments of an order; return it with the names that they have here."""
        named = (f"{order.order_id}:{each.payment_id}" for each in order.payments)
        paid = zip(order.payments, named, strict=True)
        payments = tuple(replace(each, payment_id=name) for each, name in paid)
        self.paid.update((each.payment_id, each.amount.minor) for each in payments)
        return replace(order, payments=payments)

    def tells_of(self, _entry: Entry) -> bool:
        """Return whether it sends events about a refund."""
        return True

    def restocked(self) -> Counter[str]:
        """Return how many units of each item were put in stock again; a bank has no stock."""
        return Counter()

    def close(self) -> None:
        """Nothing is open."""

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        mood = self._mood()
        if mood == "busy":
            return NotDone("the bank is busy", 1)
        if mood == "lost before":
            return OutcomeUnknown("no answer")
        entry = self._remembered(request)
        if entry is None:
            if mood == "refused" or self._has_refused(request):
                self.refusals.append((request.idempotency_key, self._now()))
                return Refused("the card is closed")
            if mood == "no balance":
                return NotDone("the shop's balance is too low", 0, for_people=True)
            if request.amount.minor > self._left(request.payment_id):
                return Refused("more than is left of the payment")
            state = {"slow": "pending", "unfunded": "unfunded"}.get(mood, "succeeded")
            entry = self._enter(request, state)
        return OutcomeUnknown("no answer") if mood == "lost after" else _outcome(entry)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        if self._mood() in ("lost before", "lost after"):
            return OutcomeUnknown("no answer")
        found = [each for each in self.entries if each.request.refund_id == request.refund_id]
        found = [each for each in found if each.request.idempotency_key == request.idempotency_key]
        found.sort(key=lambda each: each.moved)
        return _outcome(found[-1]) if found else NotDone("the bank knows of none", 0)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        return [each.word() for each in self.entries if each.request.payment_id == payment_id]

    def refund_elsewhere(self, order: Order, payment: Payment, share: int) -> Entry | None:
        """Give a part of what the payment has left back without being asked by us; None if nothing is."""
        amount = Money(self._left(payment.payment_id) // share, order.currency)
        if amount.minor <= 0:
            return None
        request = RefundRequest("", "", order.order_id, payment.payment_id, amount)
        return self._enter(request, "succeeded")

    def _left(self, payment_id: str) -> int:
        moved = [each for each in self.entries if each.moved]
        given = sum(e.request.amount.minor for e in moved if e.request.payment_id == payment_id)
        return self.paid[payment_id] - given

    def _mood(self) -> str:
        return self.moods.pop(0) if self.moods else "well"

    def _remembered(self, request: RefundRequest) -> Entry | None:
        return next(
            (
                each
                for each in self.entries
                if each.request.idempotency_key == request.idempotency_key
                and each.state != "unfunded"
                and self._now() - each.made_at < KEYS_KEPT
            ),
            None,
        )

    def _has_refused(self, request: RefundRequest) -> bool:
        return any(
            key == request.idempotency_key and self._now() - at < KEYS_KEPT
            for key, at in self.refusals
        )

    def _enter(self, request: RefundRequest, state: str) -> Entry:
        reference = f"{request.payment_id}#{len(self.entries) + 1}"
        self.entries.append(Entry(request, reference, state, self._now()))
        return self.entries[-1]


def _outcome(entry: Entry) -> PaymentOutcome:
    match entry.state:
        case "pending":
            return Pending(entry.reference, 60)
        case "failed":
            return Refused("the bank could not deliver it")
        case "unfunded":
            why = f"{entry.reference} failed: the shop's balance was too low"
            return NotDone(why, 0, for_people=True, failed=entry.reference)
    return Refunded(entry.reference)
