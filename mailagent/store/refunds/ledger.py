"""The ledger, the built-in payment gateway: it records refunds that the shop pays elsewhere, such as by its
bank. It has one entry for each idempotency key, which a trigger protects from changes, and a settlement for
each entry, which says whether the shop has paid it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from mailagent.domain.refunds.payment import (
    GatewayRefund,
    NotDone,
    PaymentOutcome,
    Pending,
    Refunded,
    RefundRequest,
    Refused,
)
from mailagent.domain.refunds.settlement import (
    LOOK_AGAIN_SECONDS,
    Settlement,
    SettlementRules,
    SettlementState,
)
from mailagent.store import schema
from mailagent.store.database import Database, columns_of, insert_once
from mailagent.store.ids import new_id
from mailagent.store.refunds import settlements

_entries = schema.ledger_entries


class LedgerGateway:
    """A gateway without a provider: see `domain.refunds.payment.PaymentGateway`."""

    name = "ledger"

    def __init__(
        self, database: Database, now: Callable[[], datetime], rules: SettlementRules | None = None
    ) -> None:
        self._database = database
        self._now = now
        self._rules = rules or SettlementRules()

    def is_remote(self, _request: RefundRequest) -> bool:
        """Return False: the ledger is our own database."""
        return False

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Record the refund. A second request with the same key returns the first entry's outcome."""
        now = self._now()
        values = columns_of(
            _entries,
            request,
            reference=new_id("ledger"),
            amount_minor=request.amount.minor,
            credit_minor=request.credit.minor if request.credit else None,
            currency=request.amount.currency,
            recorded_at=now,
        )
        with self._database.transaction() as connection:
            if insert_once(connection, _entries, values, "idempotency_key"):
                settlements.open_one(connection, request, self._rules, now)
            return _outcome(settlements.find(connection, request.idempotency_key))

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return the outcome of the entry with the request's key; NotDone if there is none."""
        with self._database.transaction() as connection:
            found = settlements.find(connection, request.idempotency_key)
        return _outcome(found)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return the entries of a payment, oldest first."""
        with self._database.snapshot() as connection:
            found = settlements.list_of_payment(connection, payment_id)
        return [each.as_refund(self.name) for each in found]


def _outcome(found: Settlement | None) -> PaymentOutcome:
    if found is None:
        return NotDone("not in the ledger", 0)
    match found.state:
        case SettlementState.SETTLED:
            return Refunded(found.reference)
        case SettlementState.FAILED:
            return Refused(found.reason or "")
        case _:
            return Pending(found.reference, LOOK_AGAIN_SECONDS)
