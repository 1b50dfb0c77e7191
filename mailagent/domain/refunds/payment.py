"""Requests to a payment gateway and their outcomes: done, refused or unknown. Look up an unknown outcome by
its idempotency key before asking again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from mailagent.domain.money import Money


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """One request to a gateway: refund `amount` of `payment_id` under `idempotency_key`. `may_be_made`: an
    earlier call under the key may have been carried out; its outcome is not known. `credit`: the store credit
    that the customer gets instead of the money. `restocks`: units that came back, by item id, to be put
    in stock again."""

    idempotency_key: str
    refund_id: str
    order_id: str
    payment_id: str
    amount: Money
    may_be_made: bool = False
    credit: Money | None = None
    restocks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Refunded:
    """The gateway made the refund; `reference` is its id there."""

    reference: str


@dataclass(frozen=True, slots=True)
class Pending:
    """The gateway has the refund, but has not settled it. Look it up again after `look_again_seconds`, or
    when an event of the gateway comes."""

    reference: str
    look_again_seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The gateway will never refund this payment, for a reason in the payment itself."""

    why: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """Certainly not done; ask again after `retry_after_seconds`. `operator`: the gateway refuses our API key,
    so it would refuse every refund. `for_people`: a person must fix the cause first. `failed`: the gateway's
    id of a refund that it made and could not carry out."""

    why: str
    retry_after_seconds: float
    operator: bool = False
    for_people: bool = False
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The response was lost: look the refund up by its key before asking again. `for_people`: a look-up does
    not help, a person must act. `operator`: the gateway refuses our API key. `answered`: the gateway works,
    but its answer about this refund is unusable."""

    why: str
    for_people: bool = False
    operator: bool = False
    answered: bool = False


# A gateway remembers a key for at least a day (https://docs.stripe.com/api/idempotent_requests). Half of that
# leaves time for slow calls.
KEY_IS_KNOWN_FOR = timedelta(hours=12)


def may_have_been_asked(intended: bool, requested_at: datetime, now: datetime) -> bool:
    """Return whether to look a refund up before asking the gateway to pay it.

    Without an intent we never asked, by this database. But if a backup was restored since, the gateway may
    know a request that we lost; it recognises the key only as long as it remembers it.
    """
    return intended or now - requested_at >= KEY_IS_KNOWN_FOR


def key_of(refund_id: str, number: int) -> str:
    """Return the idempotency key of a refund's payment, by its number from 1."""
    return refund_id if number == 1 else f"{refund_id}.{number}"


def refund_id_of(key: str) -> str:
    """Return the refund of an idempotency key."""
    return key.partition(".")[0]


PaymentOutcome = Refunded | Pending | Refused | NotDone | OutcomeUnknown


class RefundState(StrEnum):
    """A refund's state at the gateway. A settled one may still fail: then the money comes back."""

    PENDING = "pending"
    SETTLED = "settled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GatewayRefund:
    """A refund at the gateway, ours or not. `payment_ids` are the payment intent and its charge.
    `idempotency_key` and `order_id` are our metadata, None on a refund that is not ours; `why` is the
    gateway's reason for a failure."""

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
    """A dispute about a payment. `charged_back`: the bank took the money (True), returned it (False), or only
    inquires (None)."""

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
        """Return whether this request goes over the network. What a gateway cannot do itself, the ledger
        records: other payments, and store credit."""

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Refund the money; the same key twice refunds it once."""

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return the outcome of an earlier request under the same key; NotDone if there was none. A gateway
        that may forget a refund returns OutcomeUnknown instead if the request says `may_be_made`."""

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

    def body(self) -> dict[str, Any]:
        """Return what to store of it: no names, addresses or cards, which events contain."""
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
