"""Refunds whose outcome the customer does not know yet, or was told wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import Purpose
from mailagent.store import schema
from mailagent.store.database import Row

_refunds, _payments = schema.refunds, schema.refund_payments


def list_untold(
    connection: sa.Connection, since: datetime, limit: int, after: str = ""
) -> Sequence[Row]:
    """Return refunds requested since a time whose end, or whose returned money, no mail to the customer
    reports; with the columns of `refunds.list_under_way`."""
    here = _refunds.c.refund_id
    told = sa.or_(
        _refunds.c.receipt_id.is_not(None),
        sa.exists().where(
            schema.outbound_mails.c.dedup_key == sa.literal("outcome:").concat(_refunds.c.refund_id)
        ),
    )
    return connection.execute(
        sa.select(
            _refunds.c.refund_id,
            _refunds.c.run_id,
            _refunds.c.wake_ups,
            sa.null().label("expires_at"),
        )
        .where(
            _refunds.c.status.in_(["paid", "rejected", "expired", "failed"]),
            _refunds.c.requested_at >= since,
            _refunds.c.refund_id > after,
            sa.or_(~told, sa.and_(sa.exists().where(_was_untrue(here)), ~_returned_mail(here))),
        )
        .order_by(_refunds.c.refund_id)
        .limit(limit)
    ).all()


def list_told_before_return(connection: sa.Connection, refund_id: str) -> Sequence[Row]:
    """Return the intents that a mail reported as refunded and whose money came back after that mail."""
    mails = schema.outbound_mails
    return connection.execute(
        sa.select(_payments)
        .join(mails, _was_untrue(sa.literal(refund_id)))
        .order_by(_payments.c.idempotency_key)
    ).all()


def _was_untrue(refund_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether a mail reported a payment as refunded and its money came back later. A receipt reports all
    payments; the mail about a failed refund only those that were refunded by then."""
    mails = schema.outbound_mails
    receipt = mails.c.purpose == Purpose.RECEIPT.value
    told = _refunds.alias("told")
    shared = sa.select(told.c.receipt_id).where(told.c.refund_id == _payments.c.refund_id)
    return sa.and_(
        _payments.c.refund_id == refund_id,
        _payments.c.state == "done",
        sa.or_(
            mails.c.dedup_key == sa.literal("outcome:").concat(refund_id),
            mails.c.outbound_id == shared.correlate(_payments).scalar_subquery(),
        ),
        sa.or_(receipt, mails.c.created_at >= _payments.c.done_at),
        mails.c.created_at < _payments.c.returned_at,
    )


def _returned_mail(refund_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether a mail, `returned:<refund>:<minor units>`, reported all that came back."""
    minor = (
        sa.select(sa.func.sum(_payments.c.amount_minor))
        .where(
            _payments.c.refund_id == refund_id,
            _payments.c.state == "done",
            _payments.c.returned_at.is_not(None),
        )
        .correlate(_refunds)
        .scalar_subquery()
    )
    key = sa.literal("returned:").concat(refund_id).concat(":").concat(sa.cast(minor, sa.Text))
    return sa.exists().where(schema.outbound_mails.c.dedup_key == key)
