"""Requests to a payment gateway and their outcomes: refunded, pending, refused, not done, or unknown. If the
outcome is unknown, look it up by the idempotency key before you ask again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from mailagent.domain.money import Money

# Until then a call that a worker has begun may be under way. WooCommerce's adapter takes the longest: six
# requests of 45 seconds.
CALL_IS_UNDER_WAY_FOR = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """One request to a gateway: refund `amount` of `payment_id` under `idempotency_key`. `may_be_made`: the
    gateway may have carried out an earlier call under this key, whose outcome we do not know. `asked_gateway`:
    the name of the gateway that has this refund, or may have it; None if none was asked. `credit`: the store
    credit that the customer gets instead of the money. `restocks`: pairs of an item id and a number of units
    that came back and go into stock again."""

    idempotency_key: str
    refund_id: str
    order_id: str
    payment_id: str
    amount: Money
    may_be_made: bool = False
    asked_gateway: str | None = None
    credit: Money | None = None
    restocks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Refunded:
    """The gateway made the refund; `reference` is its id there."""

    reference: str


@dataclass(frozen=True, slots=True)
class Pending:
    """The gateway has the refund, but has not settled it. Look it up again after `look_again_seconds`, or when
    the gateway's webhook sends an event about it."""

    reference: str
    look_again_seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The gateway will never refund this payment, for a reason in the payment itself."""

    why: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """The refund was certainly not made; ask again after `retry_after_seconds`. `operator`: the gateway refuses
    our API key, so it would refuse every refund. `for_people`: a person must fix the cause first. `failed`: the
    gateway's id of a refund that it made but could not carry out."""

    why: str
    retry_after_seconds: float
    operator: bool = False
    for_people: bool = False
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The response was lost: look the refund up by its key before you ask again. `for_people`: a look-up does
    not help, so a person must act. `operator`: the gateway refuses our API key. `answered`: the gateway works,
    but we cannot use its answer about this refund."""

    why: str
    for_people: bool = False
    operator: bool = False
    answered: bool = False


# A gateway remembers an idempotency key for at least a day (https://docs.stripe.com/api/idempotent_requests).
# We count on half of that, because calls may be slow.
KEY_IS_KNOWN_FOR = timedelta(hours=12)


def may_have_been_asked(intended: bool, requested_at: datetime, now: datetime) -> bool:
    """Return whether to look a refund up before we ask the gateway to pay it. `intended`: an intent is on
    record.

    Without an intent, this database has never asked. But after a restored backup, the gateway may know a
    request that we lost, and it recognises the key only within KEY_IS_KNOWN_FOR.
    """
    return intended or now - requested_at >= KEY_IS_KNOWN_FOR


def key_of(refund_id: str, number: int) -> str:
    """Return the idempotency key of a refund payment. `number`: which of the refund's payments, from 1."""
    return refund_id if number == 1 else f"{refund_id}.{number}"


def refund_id_of(key: str) -> str:
    """Return the id of the refund whose payment has this idempotency key."""
    return key.partition(".")[0]


# The state of a refund payment that is recorded and has not ended. The gateway may have been asked for it.
INTENDED = "asked"

PaymentOutcome = Refunded | Pending | Refused | NotDone | OutcomeUnknown


class RefundState(StrEnum):
    """A refund's state at the gateway. A settled refund may still fail: then the money comes back to the
    shop."""

    PENDING = "pending"
    SETTLED = "settled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GatewayRefund:
    """A refund at the gateway, ours or external. `payment_ids` are all ids of its payment, such as the payment
    intent and its charge. `idempotency_key` and `order_id` come from our metadata, None for an external refund.
    `why`: the gateway's reason for a failure."""

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
    """The total refunded of a payment `at` a time, from an event that does not name the single refunds."""

    gateway: str
    payment_ids: tuple[str, ...]
    amount: Money
    at: datetime


@dataclass(frozen=True, slots=True)
class Dispute:
    """A dispute about a payment. `charged_back`: True if the customer's bank took the money, False if it
    returned the money, None if it only asks."""

    dispute_id: str
    gateway: str
    payment_ids: tuple[str, ...]
    charged_back: bool | None


class ListingProblem(Exception):
    """The gateway's refunds cannot be listed; the text says why."""


class PaymentGateway(Protocol):
    """A payment gateway. Each refund stores its `name`."""

    name: str

    def is_remote(self, request: RefundRequest) -> bool:
        """Return whether this request goes over the network. The ledger records requests that a gateway cannot
        carry out itself: refunds of other gateways' payments, and store credit."""

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Refund the money. A second request with the same key refunds nothing more."""

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return the outcome of an earlier request with the same key; NotDone if there was none. A gateway that
        may not find a refund that it made returns OutcomeUnknown instead, if the request says `may_be_made`."""

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return all refunds of a payment, ours and external ones. Raises ListingProblem."""


@dataclass(frozen=True, slots=True)
class GatewayEvent:
    """An event of a gateway's webhook. `refunds` and `dispute` are empty if it is not about them. `given_back`:
    the total refunded, if the event does not name the refunds. `foreign`: why it is not about this shop's
    payments. `problem`: why we cannot read it."""

    event_id: str
    kind: str
    occurred_at: datetime
    refunds: tuple[GatewayRefund, ...] = ()
    dispute: Dispute | None = None
    given_back: RefundedTotal | None = None
    foreign: str | None = None
    problem: str | None = None

    def payment_ids(self) -> set[str]:
        """Return all ids of the payment that it is about."""
        about = (*self.refunds, self.dispute, self.given_back)
        return {name for each in about if each for name in each.payment_ids}

    def body(self) -> dict[str, Any]:
        """Return what we store of it as JSON, without the names, addresses and cards that events contain."""
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
