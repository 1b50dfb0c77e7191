"""What is read of a refund right before it is paid, and before what the gateway said of it is recorded: along
with its lock, whether there is more to read."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.domain.refund import Refund
from mailagent.store import gateway_events, refunds, schema

_refunds, _payments = schema.refunds, schema.refund_payments
_conversations = schema.conversations

# The refund's lock does not protect these two: intents are written under the order's, events under none.
_LOCK = refunds.LOCK.add_columns(
    gateway_events.SPEAKS_OF_REFUND.label("heard"),
    sa.exists()
    .where(_payments.c.refund_id == _refunds.c.refund_id)
    .correlate(_refunds)
    .label("intended"),
    sa.select(_conversations.c.customer_email)
    .where(_conversations.c.conversation_id == _refunds.c.conversation_id)
    .correlate(_refunds)
    .scalar_subquery()
    .label("asked_by"),
)


@dataclass(frozen=True, slots=True)
class Locked:
    """A locked refund. `heard`: whether any event of the gateway's speaks of its payments or its order's;
    `intended`: whether it is written down what the gateway is asked; `asked_by`: the customer's address."""

    refund: Refund
    heard: bool
    intended: bool
    asked_by: str


def lock(connection: sa.Connection, refund_id: str) -> Locked:
    """Lock a refund whose order is locked already, as `refunds.lock` does. Raises LookupError."""
    rows = connection.execute(_LOCK, {"refund_id": refund_id}).all()
    if not rows:
        raise LookupError(f"refund {refund_id} does not exist")
    [refund] = refunds.from_rows(connection, rows)
    row = rows[0]
    return Locked(refund, bool(row.heard), bool(row.intended), row.asked_by)
