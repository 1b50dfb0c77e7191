"""Our books and the gateway's, compared payment by payment: what differs, in a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import GatewayRefund, RefundState


class Kind(StrEnum):
    """How the books differ about a refund."""

    UNKNOWN_THERE = "unknown_there"
    UNKNOWN_HERE = "unknown_here"
    AMOUNT = "amount"
    FAILED_THERE = "failed_there"
    PENDING = "pending"
    NO_ORDER = "no_order"


@dataclass(frozen=True, slots=True)
class OurPart:
    """What our books say of one refund of one payment. `key` is our idempotency key, None for one that
    was made without us; `state` is asked, done, refused or returned."""

    refund_id: str | None
    order_id: str
    amount: Money
    state: str
    key: str | None = None
    reference: str | None = None

    @property
    def name(self) -> str:
        """Return what people call it."""
        return f"refund {self.refund_id or self.reference}"

    def told(self, payment_id: str) -> str:
        """Return the beginning of a sentence about it."""
        told = f"{self.name} of {self.amount} on payment {payment_id}"
        return told if self.refund_id else f"{told}, which was made elsewhere,"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. `theirs` is the gateway's refund, None where it has none; `order_id` is None where
    we have none."""

    kind: Kind
    payment_id: str
    sentence: str
    order_id: str | None = None
    refund_id: str | None = None
    theirs: GatewayRefund | None = None


def compare(
    payment_id: str, ours: Sequence[OurPart], theirs: Iterable[GatewayRefund]
) -> list[Difference]:
    """Return how our books about a payment differ from the gateway's; equal books give nothing."""
    differences = []
    seen: set[int] = set()
    for refund in theirs:
        index = _find(refund, ours)
        part = None if index is None else ours[index]
        if index is not None:
            seen.add(index)
        differences += _against(payment_id, part, refund)
    for index, part in enumerate(ours):
        if index not in seen and part.state in ("asked", "done"):
            differences.append(_missing(payment_id, part))
    return differences


def _find(refund: GatewayRefund, ours: Sequence[OurPart]) -> int | None:
    """Return which of our parts a refund of the gateway's is: by its own name, else by our key. One that
    counts goes before one that does not: what was taken for returned may count as made elsewhere."""
    named = [index for index, part in enumerate(ours) if part.reference == refund.reference]
    if named:
        return min(named, key=lambda index: ours[index].state in ("refused", "returned"))
    for index, part in enumerate(ours):
        if part.reference is None and part.key and part.key == refund.idempotency_key:
            return index
    return None


def _against(payment_id: str, part: OurPart | None, theirs: GatewayRefund) -> list[Difference]:
    gone = theirs.state is RefundState.FAILED
    if part is None or part.state in ("refused", "returned"):
        if gone:
            return []
        return [_unknown_here(payment_id, part, theirs)]
    said = part.told(payment_id)
    found = []
    if theirs.amount != part.amount:
        found.append(
            (
                Kind.AMOUNT,
                f"{said} has another amount at the gateway: {theirs.amount} as {theirs.reference}",
            )
        )
    if gone:
        why = theirs.why or "no reason given"
        found.append(
            (
                Kind.FAILED_THERE,
                f"{said} failed at the gateway, which has it as {theirs.reference} ({why})",
            )
        )
    elif part.state == "asked":
        found.append(
            (
                Kind.PENDING,
                f"{said} is under way here; the gateway has it as {theirs.reference}, {theirs.state}",
            )
        )
    elif part.key and theirs.state is RefundState.PENDING:
        found.append(
            (Kind.PENDING, f"{said} is paid here; the gateway has {theirs.reference} as pending")
        )
    return [
        Difference(kind, payment_id, f"{sentence}.", part.order_id, part.refund_id, theirs)
        for kind, sentence in found
    ]


def _unknown_here(payment_id: str, part: OurPart | None, theirs: GatewayRefund) -> Difference:
    said = f"The gateway gave back {theirs.amount} of payment {payment_id} as {theirs.reference}"
    here = "we know nothing of it"
    if part is not None:
        here = (
            f"here {part.name} was {'refused' if part.state == 'refused' else 'taken for returned'}"
        )
    order_id, refund_id = (part.order_id, part.refund_id) if part else (None, None)
    sentence = f"{said}, which is {theirs.state}; {here}."
    return Difference(Kind.UNKNOWN_HERE, payment_id, sentence, order_id, refund_id, theirs)


def _missing(payment_id: str, part: OurPart) -> Difference:
    said = part.told(payment_id)
    if part.state == "asked":
        sentence, kind = (
            f"{said} is under way here; the gateway does not have it yet.",
            Kind.PENDING,
        )
    else:
        reference = f" as {part.reference}" if part.reference and part.refund_id else ""
        sentence = f"{said} is paid here{reference}; the gateway has no such refund."
        kind = Kind.UNKNOWN_THERE
    return Difference(kind, payment_id, sentence, part.order_id, part.refund_id)
