"""What a payment gateway is asked and what can come of it. Three outcomes, not two: done,
refused, or unknown; unknown is looked up by key before anything is asked again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mailagent.domain.money import Money


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """One call to a gateway: give `amount` of `payment_id` back, under `idempotency_key`."""

    idempotency_key: str
    refund_id: str
    order_id: str
    payment_id: str
    amount: Money


@dataclass(frozen=True, slots=True)
class Refunded:
    """The gateway has the refund; `reference` is its own name for it."""

    reference: str


@dataclass(frozen=True, slots=True)
class Pending:
    """The gateway has the refund, and does not know yet whether it will succeed; look again after
    `look_again_seconds`, or when the gateway says so."""

    reference: str
    look_again_seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The gateway will not do it, however often it is asked."""

    why: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """Certainly not done; may be asked again after `retry_after_seconds`."""

    why: str
    retry_after_seconds: float


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The answer was lost: look it up by key before asking again."""

    why: str


PaymentOutcome = Refunded | Pending | Refused | NotDone | OutcomeUnknown


class PaymentGateway(Protocol):
    """What the refund workflow needs of a gateway. `name` is stored with each refund."""

    name: str

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Give the money back; the same key twice moves it once."""

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return what became of an earlier call under the same key; NotDone when there was none."""
