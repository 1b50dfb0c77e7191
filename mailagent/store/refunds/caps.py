"""What was refunded without asking, counted for the policy's caps, and the locks that keep it exact.

Lock the order first, then the customer, then the shop: in one order nobody waits for each other.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.refunds.policy_rules import Granted
from mailagent.domain.refunds.refund import HOLDING, RefundStatus
from mailagent.store import audit, schema

_refunds, _payments = schema.refunds, schema.refund_payments

# The first half of our advisory locks' keys: theirs and DBOS's must never meet.
_CUSTOMER, _SHOP = 0x6D61_0001, 0x6D61_0002


def lock_customer(connection: sa.Connection, email: str) -> None:
    """Let no other refund of this customer be decided until the commit, whichever order it is of."""
    digest = hashlib.sha256(email.encode()).digest()
    _lock(connection, _CUSTOMER, int.from_bytes(digest[:4], signed=True))


def lock_shop(connection: sa.Connection) -> None:
    """Let no other refund of the shop be decided until the commit. Only for those who cap a day."""
    _lock(connection, _SHOP, 0)


def _lock(connection: sa.Connection, kind: int, key: int) -> None:
    # On SQLite every transaction that may write is alone already.
    if connection.dialect.name == "postgresql":
        connection.execute(
            sa.text("SELECT pg_advisory_xact_lock(:kind, :key)"), {"kind": kind, "key": key}
        )


def granted_to_customer(
    connection: sa.Connection, email: str, since: datetime, currency: str
) -> Granted:
    """Return what one customer got without a person's decision, asked for since a time."""
    theirs = sa.select(schema.orders.c.order_id).where(schema.orders.c.customer_email == email)
    return _granted(connection, since, currency, _refunds.c.order_id.in_(theirs))


def granted_by_shop(connection: sa.Connection, since: datetime, currency: str) -> Granted:
    """Return what all customers got without a person's decision, asked for since a time."""
    return _granted(connection, since, currency, sa.true())


def _granted(
    connection: sa.Connection, since: datetime, currency: str, whose: sa.ColumnElement[bool]
) -> Granted:
    """Count every currency's refunds, and add up the money of one."""
    held = _held()
    row = connection.execute(
        sa.select(
            sa.func.coalesce(sa.func.sum(sa.case((held > 0, 1), else_=0)), 0),
            sa.func.coalesce(
                sa.func.sum(sa.case((_refunds.c.currency == currency, held), else_=0)), 0
            ),
        ).where(_refunds.c.decided_by == audit.POLICY, _refunds.c.requested_at >= since, whose)
    ).one()
    return Granted(int(row[0]), int(row[1]))


def _held() -> sa.ColumnElement[int]:
    """What a refund holds: all of it, or of one that failed what some of its payments gave back."""
    part = (
        sa.select(sa.func.coalesce(sa.func.sum(_payments.c.amount_minor), 0))
        .where(
            _payments.c.refund_id == _refunds.c.refund_id,
            _payments.c.state == "done",
            _payments.c.returned_at.is_(None),
        )
        .scalar_subquery()
    )
    return sa.case(
        (_refunds.c.status.in_([each.value for each in HOLDING]), _refunds.c.amount_minor),
        (_refunds.c.status == RefundStatus.FAILED.value, part),
        else_=0,
    )
