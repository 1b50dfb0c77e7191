"""What a payment gateway is asked and what can come of it. Three outcomes, not two: done,
refused, or unknown; unknown is looked up by key before anything is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

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
    """The gateway will never give this payment back: the reason lies in the payment itself."""

    why: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """Certainly not done; may be asked again after `retry_after_seconds`. `operator`: the gateway refuses
    our key, so every other refund would meet the same. `for_people`: asking again does not help until
    somebody has put the cause right. `failed`: the gateway's name for a refund that it made and could not
    carry out."""

    why: str
    retry_after_seconds: float
    operator: bool = False
    for_people: bool = False
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The answer was lost: look it up by key before asking again. `for_people`: looking does not help,
    somebody has to. `operator`: the gateway refuses our key. `answered`: the gateway is well, only what it
    said of this refund is of no use."""

    why: str
    for_people: bool = False
    operator: bool = False
    answered: bool = False


# A gateway knows a key again for a day at least (https://docs.stripe.com/api/idempotent_requests); half of
# that leaves room for calls that take long.
KEY_IS_KNOWN_FOR = timedelta(hours=12)


def may_have_been_asked(intended: bool, requested_at: datetime, now: datetime) -> bool:
    """Return whether to look up what became of a refund before the gateway is asked to pay it.

    Without an intent it was never asked by this database. But a backup may have been restored since: what
    was asked for in the time that is lost the gateway knows by the key, as long as that lives.
    """
    return intended or now - requested_at >= KEY_IS_KNOWN_FOR


PaymentOutcome = Refunded | Pending | Refused | NotDone | OutcomeUnknown


class RefundState(StrEnum):
    """How far a gateway is with a refund. A settled one may still fail: the money comes back."""

    PENDING = "pending"
    SETTLED = "settled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GatewayRefund:
    """A refund as the gateway has it, whoever asked for it. `payment_ids` are its payment's names there,
    a payment intent and its charge. `idempotency_key` and `order_id` are what we wrote on it, None on
    one that is not ours; `why` is the gateway's word for a failure."""

    reference: str
    gateway: str
    payment_ids: tuple[str, ...]
    amount: Money
    state: RefundState
    idempotency_key: str | None = None
    order_id: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class RefundedTotal:
    """How much of a payment was refunded `at` a time, from a gateway that does not name the refunds."""

    gateway: str
    payment_ids: tuple[str, ...]
    amount: Money
    at: datetime


@dataclass(frozen=True, slots=True)
class Dispute:
    """A customer's bank and the shop at odds about a payment. `charged_back`: the bank has taken the
    money (True), the shop has it again (False), or it is only asked about (None)."""

    dispute_id: str
    gateway: str
    payment_ids: tuple[str, ...]
    charged_back: bool | None


class ListingProblem(Exception):
    """The gateway's refunds cannot be read now; the text says why."""


class PaymentGateway(Protocol):
    """What the refund workflow needs of a gateway. `name` is stored with each refund."""

    name: str

    def is_remote(self, payment_id: str) -> bool:
        """Say whether a refund of this payment is asked for over the network."""

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Give the money back; the same key twice moves it once."""

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return what became of an earlier call under the same key; NotDone when there was none."""

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return all refunds of a payment, also those that are not ours. Raises ListingProblem."""


@dataclass(frozen=True, slots=True)
class GatewayEvent:
    """What an event of a gateway's webhook says. `refunds` and `dispute` are empty where it says nothing
    of them; `given_back` is set where it says that money was given back but not by which refunds.
    `foreign` says why it is not about our money; `problem` why it cannot be understood."""

    event_id: str
    kind: str
    occurred_at: datetime
    refunds: tuple[GatewayRefund, ...] = ()
    dispute: Dispute | None = None
    given_back: RefundedTotal | None = None
    foreign: str | None = None
    problem: str | None = None

    def payment_ids(self) -> set[str]:
        """Return all names of the payment that it speaks of."""
        about = (*self.refunds, self.dispute, self.given_back)
        return {name for each in about if each for name in each.payment_ids}

    def facts(self) -> dict[str, Any]:
        """Return what is worth keeping of it: no names, addresses or cards, of which events are full."""
        return {
            "refunds": [
                {
                    "reference": each.reference,
                    "payment_ids": list(each.payment_ids),
                    "amount": str(each.amount),
                    "state": each.state.value,
                    "key": each.idempotency_key,
                    "order_id": each.order_id,
                    "why": each.why,
                }
                for each in self.refunds
            ],
            "dispute": self.dispute.dispute_id if self.dispute else None,
            "payment_ids": list(self.dispute.payment_ids) if self.dispute else [],
            "charged_back": self.dispute.charged_back if self.dispute else None,
            "given_back": self.given_back
            and {
                "payment_ids": list(self.given_back.payment_ids),
                "total": str(self.given_back.amount),
            },
        }
