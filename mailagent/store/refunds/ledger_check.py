"""Our books, for whoever compares them with the gateway's: by payment, whatever order it is of."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.store import schema

_payments, _refunds = schema.refund_payments, schema.refunds


def list_payment_ids(connection: sa.Connection, since: datetime) -> list[str]:
    """Return the payments of orders that changed since a time, and those that a refund asked for since
    then, or one that is still to be paid, was to give back."""
    changed = (
        sa.select(schema.order_payments.c.payment_id)
        .join(schema.orders, schema.orders.c.order_id == schema.order_payments.c.order_id)
        .where(schema.orders.c.updated_at >= since)
    )
    asked = (
        sa.select(_payments.c.payment_id)
        .join(_refunds, _refunds.c.refund_id == _payments.c.refund_id)
        .where(sa.or_(_payments.c.intended_at >= since, _payments.c.state == "asked"))
    )
    return sorted(connection.scalars(sa.union(changed, asked)))
