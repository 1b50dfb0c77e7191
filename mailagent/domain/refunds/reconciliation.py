"""Compares our refunds of a payment with the gateway's; each difference is a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import GatewayRefund, RefundState


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
    """Our record of one refund of one payment. `key` is our idempotency key, None for a refund made outside
    mailagent; `state` is asked, done, refused or returned."""

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
        """Return the beginning of a sentence about it."""
        words = f"{self.name} of {self.amount} on payment {payment_id}"
        return words if self.refund_id else f"{words}, which was made elsewhere,"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. `theirs` is the gateway's refund, None if it has none; `order_id` is None if we have
    none."""

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
    matched: set[int] = set()
    for refund in theirs:
        index = _find(refund, ours)
        part = None if index is None else ours[index]
        if index is not None:
            matched.add(index)
        if part is not None and part.state in ("asked", "done"):
            found = _compare_one(part.describe(payment_id), part, refund)
        elif refund.state is RefundState.FAILED:
            found = []
        else:
            found = [(Kind.UNKNOWN_HERE, _describe_unknown(payment_id, part, refund))]
        order_id, refund_id = (part.order_id, part.refund_id) if part else (None, None)
        differences += [
            Difference(kind, payment_id, f"{sentence}.", order_id, refund_id, refund)
            for kind, sentence in found
        ]
    for index, part in enumerate(ours):
        if index not in matched and part.state in ("asked", "done"):
            differences.append(_missing(payment_id, part))
    return differences


def _find(refund: GatewayRefund, ours: Sequence[OurPart]) -> int | None:
    """Return the index of our part for the gateway's refund: by its reference, else by our key. Of two with
    the reference, prefer the one that counts: a refund that came back may be recorded again as external."""
    named = [index for index, part in enumerate(ours) if part.reference == refund.reference]
    if named:
        return min(named, key=lambda index: ours[index].state in ("refused", "returned"))
    for index, part in enumerate(ours):
        if part.reference is None and part.key and part.key == refund.idempotency_key:
            return index
    return None


def _compare_one(ours: str, part: OurPart, theirs: GatewayRefund) -> list[tuple[Kind, str]]:
    found = []
    reference = theirs.reference
    if theirs.amount != part.amount:
        found.append(
            (
                Kind.AMOUNT,
                f"{ours} has another amount at the gateway: {theirs.amount} as {reference}",
            )
        )
    if theirs.state is RefundState.FAILED:
        why = theirs.why or "no reason given"
        found.append(
            (
                Kind.FAILED_THERE,
                f"{ours} failed at the gateway, which has it as {reference} ({why})",
            )
        )
    elif part.state == "asked":
        found.append(
            (
                Kind.PENDING,
                f"{ours} is under way here; the gateway has it as {reference}, {theirs.state}",
            )
        )
    elif part.key and theirs.state is RefundState.PENDING:
        found.append((Kind.PENDING, f"{ours} is paid here; the gateway has {reference} as pending"))
    return found


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
