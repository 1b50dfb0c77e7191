"""Compares our refunds of a payment with the gateway's, and tells each difference in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import INTENDED, GatewayRefund, RefundState


class Kind(StrEnum):
    """How our refund and the gateway's differ."""

    UNKNOWN_THERE = "unknown_there"
    UNKNOWN_HERE = "unknown_here"
    AMOUNT = "amount"
    FAILED_THERE = "failed_there"
    PENDING = "pending"
    NO_ORDER = "no_order"


@dataclass(frozen=True, slots=True)
class OurPart:
    """Our record of one refund payment. `key` is our idempotency key; an external refund has no `key` and no
    `refund_id`. `state` is asked, done, refused or returned."""

    refund_id: str | None
    order_id: str
    amount: Money
    state: str
    key: str | None = None
    reference: str | None = None

    @property
    def name(self) -> str:
        return f"refund {self.refund_id or self.reference}"

    def describe(self, payment_id: str) -> str:
        """Return the subject of a sentence about it."""
        words = f"{self.name} of {self.amount} on payment {payment_id}"
        return words if self.refund_id else f"{words}, which was made elsewhere,"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. `theirs`: the gateway's refund, None if it has none. `order_id`, `refund_id`: None if we
    have no record."""

    kind: Kind
    payment_id: str
    sentence: str
    order_id: str | None = None
    refund_id: str | None = None
    theirs: GatewayRefund | None = None


def compare(
    payment_id: str, ours: Sequence[OurPart], theirs: Iterable[GatewayRefund]
) -> list[Difference]:
    """Return how our refunds of a payment differ from the gateway's."""
    differences = []
    unmatched = [part for part in ours if part.state in (INTENDED, "done")]
    for refund in theirs:
        part = _find(refund, ours)
        if part in unmatched:
            unmatched.remove(part)
        order_id, refund_id = (part.order_id, part.refund_id) if part else (None, None)
        differences += [
            Difference(kind, payment_id, f"{sentence}.", order_id, refund_id, refund)
            for kind, sentence in _compare_one(payment_id, part, refund)
        ]
    return differences + [_missing(payment_id, part) for part in unmatched]


def _find(refund: GatewayRefund, ours: Sequence[OurPart]) -> OurPart | None:
    """Return our record of a refund at the gateway: by the gateway's reference, else by our key. If two have
    the reference, prefer one that is asked or done: a refund that came back may also be recorded as
    external."""
    named = [part for part in ours if part.reference == refund.reference]
    if named:
        return min(named, key=lambda part: part.state in ("refused", "returned"))
    keyed = (part for part in ours if part.reference is None and part.key)
    return next((part for part in keyed if part.key == refund.idempotency_key), None)


def _compare_one(
    payment_id: str, part: OurPart | None, theirs: GatewayRefund
) -> Iterator[tuple[Kind, str]]:
    failed, reference = theirs.state is RefundState.FAILED, theirs.reference
    if part is None or part.state not in (INTENDED, "done"):
        if not failed:
            yield Kind.UNKNOWN_HERE, _describe_unknown(payment_id, part, theirs)
        return
    ours = part.describe(payment_id)
    if theirs.amount != part.amount:
        yield (
            Kind.AMOUNT,
            f"{ours} has another amount at the gateway: {theirs.amount} as {reference}",
        )
    if failed:
        why = theirs.why or "no reason given"
        told = f"{ours} failed at the gateway, which has it as {reference} ({why})"
        yield Kind.FAILED_THERE, told
    elif part.state == INTENDED:
        told = f"{ours} is under way here; the gateway has it as {reference}, {theirs.state}"
        yield Kind.PENDING, told
    elif part.key and theirs.state is RefundState.PENDING:
        yield Kind.PENDING, f"{ours} is paid here; the gateway has {reference} as pending"


def _describe_unknown(payment_id: str, part: OurPart | None, theirs: GatewayRefund) -> str:
    here = "mailagent has no record of it"
    if part is not None:
        state = "refused" if part.state == "refused" else "recorded as returned"
        here = f"here {part.name} was {state}"
    return (
        f"The gateway refunded {theirs.amount} of payment {payment_id} as {theirs.reference}, which is"
        f" {theirs.state}; {here}"
    )


def _missing(payment_id: str, part: OurPart) -> Difference:
    ours, kind = part.describe(payment_id), Kind.PENDING
    sentence = f"{ours} is under way here; the gateway does not have it yet."
    if part.state == "done":
        reference = f" as {part.reference}" if part.reference and part.refund_id else ""
        sentence = f"{ours} is paid here{reference}; the gateway has no such refund."
        kind = Kind.UNKNOWN_THERE
    return Difference(kind, payment_id, sentence, part.order_id, part.refund_id)
