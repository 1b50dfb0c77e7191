"""Refunds as rows: what was requested, who decided, what was paid. Lock the order before a refund."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import (
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
    check_transition,
)
from mailagent.store import schema
from mailagent.store.database import Row

_refunds, _lines, _payments = schema.refunds, schema.refund_lines, schema.refund_payments

# One row for each line of a refund. Lines never change, so it is enough to lock the refund.
_WITH_LINES = (
    sa.select(
        _refunds,
        _lines.c.line_no,
        _lines.c.item_id,
        _lines.c.quantity,
        _lines.c.amount_minor.label("line_minor"),
    )
    .outerjoin_from(_refunds, _lines, _lines.c.refund_id == _refunds.c.refund_id)
    .order_by(_refunds.c.refund_id, _lines.c.line_no)
)


def record(
    connection: sa.Connection,
    refund: Refund,
    proposal_key: str,
    policy_facts: Mapping[str, Any],
    item_ids: Mapping[int, str],
) -> None:
    """Record a new refund with its lines; `item_ids` gives the item of each line.

    Raises IntegrityError, by a trigger, if the order's refunds would exceed what was paid.
    """
    connection.execute(
        _refunds.insert(),
        {
            "refund_id": refund.refund_id,
            "proposal_key": proposal_key,
            "order_id": refund.order_id,
            "conversation_id": refund.conversation_id,
            "mail_id": refund.mail_id,
            "amount_minor": refund.amount.minor,
            "currency": refund.amount.currency,
            "shipping_minor": refund.shipping_minor,
            "short_minor": refund.short_minor,
            "four_eyes": refund.four_eyes,
            "policy_version": refund.policy_version,
            "reason": refund.reason.value,
            "status": refund.status.value,
            "policy_reasons": list(refund.policy_reasons),
            "policy_facts": dict(policy_facts),
            "requested_at": refund.requested_at,
            "decided_by": refund.decided_by,
            "decided_at": refund.decided_at,
        },
    )
    lines = [
        {
            "refund_id": refund.refund_id,
            "line_no": line.line_no,
            "item_id": item_ids[line.line_no],
            "quantity": line.quantity,
            "amount_minor": line.amount.minor,
        }
        for line in refund.lines
    ]
    connection.execute(_lines.insert(), lines)


def find(connection: sa.Connection, refund_id: str) -> Refund | None:
    found = _list(connection, _WITH_LINES.where(_refunds.c.refund_id == refund_id))
    return found[0] if found else None


def load(connection: sa.Connection, refund_id: str) -> Refund:
    """Return a refund that must exist. Raises LookupError."""
    return _required(find(connection, refund_id), refund_id)


def lock(connection: sa.Connection, refund_id: str) -> Refund:
    """Return the refund, and keep others from changing it until the commit. Raises LookupError."""
    query = _WITH_LINES.where(_refunds.c.refund_id == refund_id).with_for_update(of=_refunds)
    found = _list(connection, query)
    return _required(found[0] if found else None, refund_id)


def lock_of_mail(connection: sa.Connection, refund_id: str) -> tuple[Refund, tuple[Refund, ...]]:
    """Lock a refund and the others that the same mail led to, oldest first. Raises LookupError."""
    this = _refunds.alias("this")
    same_mail = sa.exists().where(
        this.c.refund_id == refund_id,
        this.c.conversation_id == _refunds.c.conversation_id,
        this.c.mail_id == _refunds.c.mail_id,
    )
    found = _list(connection, _WITH_LINES.where(same_mail).with_for_update(of=_refunds))
    refund = next((each for each in found if each.refund_id == refund_id), None)
    return _required(refund, refund_id), tuple(each for each in found if each != refund)


def _required(refund: Refund | None, refund_id: str) -> Refund:
    if refund is None:
        raise LookupError(f"refund {refund_id} does not exist")
    return refund


def status_of(connection: sa.Connection, refund_id: str) -> RefundStatus:
    """Return the state of a refund. Raises LookupError."""
    query = sa.select(_refunds.c.status).where(_refunds.c.refund_id == refund_id)
    return _status(connection.scalar(query), refund_id)


def _status(status: str | None, refund_id: str) -> RefundStatus:
    if status is None:
        raise LookupError(f"refund {refund_id} does not exist")
    return RefundStatus(status)


def list_of_order(connection: sa.Connection, order_id: str) -> tuple[Refund, ...]:
    """Return all refunds of an order, oldest first."""
    return _list(connection, _WITH_LINES.where(_refunds.c.order_id == order_id))


def list_of_proposal(
    connection: sa.Connection, order_id: str, proposal_key: str
) -> tuple[tuple[Refund, ...], Refund | None]:
    """Return all refunds of an order, oldest first, and the one that this proposal made."""
    rows = connection.execute(_WITH_LINES.where(_refunds.c.order_id == order_id)).all()
    found = _from_rows(connection, rows)
    made = {row.refund_id for row in rows if row.proposal_key == proposal_key}
    return found, next((each for each in found if each.refund_id in made), None)


def list_of_conversation(connection: sa.Connection, conversation_id: str) -> tuple[Refund, ...]:
    return _list(connection, _WITH_LINES.where(_refunds.c.conversation_id == conversation_id))


def list_of_customer(connection: sa.Connection, email: str) -> tuple[Refund, ...]:
    """Return all refunds of a customer's orders, oldest first."""
    theirs = sa.select(schema.orders.c.order_id).where(schema.orders.c.customer_email == email)
    return _list(connection, _WITH_LINES.where(_refunds.c.order_id.in_(theirs)))


def list_all(connection: sa.Connection, order_id: str | None = None) -> tuple[Refund, ...]:
    return list_of_order(connection, order_id) if order_id else _list(connection, _WITH_LINES)


def _list(connection: sa.Connection, query: sa.Select[Any]) -> tuple[Refund, ...]:
    return _from_rows(connection, connection.execute(query).all())


def _from_rows(connection: sa.Connection, rows: Sequence[Row]) -> tuple[Refund, ...]:
    failed = {row.refund_id for row in rows if row.status == RefundStatus.FAILED.value}
    came_back = _payments.c.returned_at.is_not(None)
    part_paid = _sum_done(connection, failed, ~came_back)
    returned = _sum_done(connection, failed, came_back)
    return tuple(
        _refund(list(lines), part_paid.get(refund_id), returned.get(refund_id))
        for refund_id, lines in groupby(rows, key=lambda row: str(row.refund_id))
    )


def _sum_done(
    connection: sa.Connection, refund_ids: set[str], where: sa.ColumnElement[bool]
) -> dict[str, int]:
    """Add up the payments of each refund that the gateway has done, in minor units."""
    if not refund_ids:
        return {}
    query = (
        sa.select(_payments.c.refund_id, sa.func.sum(_payments.c.amount_minor))
        .where(_payments.c.refund_id.in_(sorted(refund_ids)), _payments.c.state == "done", where)
        .group_by(_payments.c.refund_id)
    )
    return {refund_id: int(minor) for refund_id, minor in connection.execute(query)}


def _refund(rows: Sequence[Row], part_paid_minor: int | None, returned_minor: int | None) -> Refund:
    """Restore a refund from its rows, one for each line."""
    row = rows[0]
    lines = [each for each in rows if each.line_no is not None]
    return Refund(
        refund_id=row.refund_id,
        order_id=row.order_id,
        conversation_id=row.conversation_id,
        mail_id=row.mail_id,
        amount=Money(row.amount_minor, row.currency),
        lines=tuple(
            RefundLine(line.line_no, line.quantity, Money(line.line_minor, row.currency))
            for line in lines
        ),
        item_ids=tuple(line.item_id for line in lines),
        reason=RefundReason(row.reason),
        status=RefundStatus(row.status),
        requested_at=row.requested_at,
        policy_reasons=tuple(row.policy_reasons),
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        note=row.note,
        gateway=row.gateway,
        gateway_reference=row.gateway_reference,
        paid_at=row.paid_at,
        failure=row.failure,
        run_id=row.run_id,
        shipping_minor=row.shipping_minor,
        short_minor=row.short_minor,
        four_eyes=row.four_eyes,
        despite_cancel=row.despite_cancel,
        approved_for=row.approved_for,
        receipt_id=row.receipt_id,
        policy_version=row.policy_version,
        part_paid=None if part_paid_minor is None else Money(part_paid_minor, row.currency),
        returned=None if returned_minor is None else Money(returned_minor, row.currency),
    )


def claim(connection: sa.Connection, refund_id: str, run_id: str) -> RefundStatus:
    """Record which workflow run wake-ups of the refund go to. Return its status, which no other
    transaction changes until the commit. Raises LookupError."""
    update = _update(refund_id).values(run_id=run_id)
    return _status(connection.scalar(update.returning(_refunds.c.status)), refund_id)


def move(connection: sa.Connection, refund: Refund, status: RefundStatus, **values: Any) -> None:
    """Change the status of a locked refund. Raises ValueError for a transition that does not exist."""
    check_transition(refund.status, status)
    update = _update(refund.refund_id).where(_refunds.c.status == refund.status.value)
    connection.execute(update.values(status=status.value, **values))


def lower_amount(connection: sa.Connection, refund: Refund, amount: Money) -> None:
    """Record that a manager approved less; the lines keep what was asked for.

    Raises ValueError for more than was asked for, or nothing.
    """
    if amount.currency != refund.amount.currency or not 0 < amount.minor <= refund.amount.minor:
        raise ValueError(f"{amount} is not between 0 and {refund.amount}")
    connection.execute(_update(refund.refund_id).values(amount_minor=amount.minor))


def record_receipt(connection: sa.Connection, refunds: Sequence[Refund], outbound_id: str) -> None:
    """Record that the receipt of another refund is for these locked ones as well."""
    for refund in refunds:
        connection.execute(_update(refund.refund_id).values(receipt_id=outbound_id))


def list_sharing_receipt(
    connection: sa.Connection, conversation_id: str, outbound_id: str
) -> list[str]:
    """Return the refunds of a conversation that share the receipt of another refund."""
    query = sa.select(_refunds.c.refund_id).where(
        _refunds.c.conversation_id == conversation_id, _refunds.c.receipt_id == outbound_id
    )
    return list(connection.scalars(query.order_by(_refunds.c.refund_id)))


def _update(refund_id: str) -> sa.Update:
    return _refunds.update().where(_refunds.c.refund_id == refund_id)


# --- what the sweep looks for ---------------------------------------------------------------------


def list_under_way(
    connection: sa.Connection, before: datetime, limit: int, after: str = ""
) -> Sequence[Row]:
    """Return refunds that still have to be decided or paid, with their workflow run, in the order of their
    ids from the one behind `after`. `expires_at` is set while a manager has to decide."""
    waits = _refunds.c.status == RefundStatus.AWAITING_APPROVAL.value
    return connection.execute(
        sa.select(
            _refunds.c.refund_id,
            _refunds.c.run_id,
            _refunds.c.wake_ups,
            sa.case((waits, schema.approvals.c.expires_at)).label("expires_at"),
        )
        .outerjoin(schema.approvals, schema.approvals.c.refund_id == _refunds.c.refund_id)
        .where(
            _refunds.c.status.in_(["awaiting_approval", "approved"]),
            _refunds.c.requested_at < before,
            _refunds.c.refund_id > after,
        )
        .order_by(_refunds.c.refund_id)
        .limit(limit)
    ).all()


def has_moved_on(refund_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether a refund is decided, or the first of two managers has approved it."""
    waits = _refunds.c.status == RefundStatus.AWAITING_APPROVAL.value
    approvals, decisions = schema.approvals, schema.decisions
    decided = sa.exists().where(
        approvals.c.refund_id == _refunds.c.refund_id,
        decisions.c.approval_id == approvals.c.approval_id,
    )
    return sa.exists().where(_refunds.c.refund_id == refund_id, sa.or_(~waits, decided))


def count_wake_up(connection: sa.Connection, refund_id: str, run_id: str) -> None:
    """Record that the sweep woke a refund again, and its workflow run."""
    update = _update(refund_id).values(wake_ups=_refunds.c.wake_ups + 1, run_id=run_id)
    connection.execute(update)


def stop_waking(connection: sa.Connection, refund_id: str, wake_ups: int) -> bool:
    """Record that people take care of the refund: `wake_ups` is above the sweep's limit. Return whether that
    is new."""
    update = _update(refund_id).where(_refunds.c.wake_ups < wake_ups)
    return connection.execute(update.values(wake_ups=wake_ups)).rowcount > 0
