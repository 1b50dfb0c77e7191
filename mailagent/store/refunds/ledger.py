"""The built-in payment gateway: it records refunds that the shop settles elsewhere, such as by its bank. There
is one entry for each idempotency key; a trigger keeps entries from changing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    NotDone,
    PaymentOutcome,
    Refunded,
    RefundRequest,
    RefundState,
)
from mailagent.store import schema
from mailagent.store.database import Database, columns_of, insert_once
from mailagent.store.ids import new_id

_entries = schema.ledger_entries


class LedgerGateway:
    """A gateway without a provider. It satisfies `domain.payment.PaymentGateway`."""

    name = "ledger"

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def is_remote(self, _payment_id: str) -> bool:
        """The ledger is our own database."""
        return False

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Record the refund; the same key again returns the first entry."""
        reference = new_id("ledger")
        values = columns_of(
            _entries,
            request,
            reference=reference,
            amount_minor=request.amount.minor,
            currency=request.amount.currency,
            recorded_at=self._now(),
        )
        with self._database.transaction() as connection:
            new = insert_once(connection, _entries, values, "idempotency_key")
        return Refunded(reference) if new else self.look_up(request)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return the entry under the request's key, or NotDone."""
        with self._database.transaction() as connection:
            reference = connection.scalar(
                sa.select(_entries.c.reference).where(
                    _entries.c.idempotency_key == request.idempotency_key
                )
            )
        return Refunded(reference) if reference else NotDone("not in the ledger", 0)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return the entries of a payment, oldest first. What is in the ledger is settled."""
        query = sa.select(_entries).where(_entries.c.payment_id == payment_id)
        with self._database.snapshot() as connection:
            rows = connection.execute(query.order_by(_entries.c.recorded_at)).all()
        return [
            GatewayRefund(
                reference=row.reference,
                gateway=self.name,
                payment_ids=(row.payment_id,),
                amount=Money(row.amount_minor, row.currency),
                state=RefundState.SETTLED,
                idempotency_key=row.idempotency_key,
                order_id=row.order_id,
            )
            for row in rows
        ]
