"""Refunds as rows: what was proposed, who decided, what was paid. Lock the order before a refund."""

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

# Statements that each mail needs are built once: building one costs about what sending it does.
# The lines come with their refund, a row for each. They never change: to lock the refund is enough.
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
_OF_CUSTOMER = _WITH_LINES.where(
    _refunds.c.order_id.in_(
        sa.select(schema.orders.c.order_id).where(
            schema.orders.c.customer_email == sa.bindparam("email")
        )
    )
)
_OF_ORDER = _WITH_LINES.where(_refunds.c.order_id == sa.bindparam("order_id"))
_beside = _refunds.alias("beside")
_BESIDE = _WITH_LINES.where(
    _refunds.c.order_id
    == sa.select(_beside.c.order_id)
    .where(_beside.c.refund_id == sa.bindparam("refund_id"))
    .scalar_subquery()
)
_OF_CONVERSATION = _WITH_LINES.where(_refunds.c.conversation_id == sa.bindparam("conversation_id"))
_BY_ID = _WITH_LINES.where(_refunds.c.refund_id == sa.bindparam("refund_id"))
_LOCK = _BY_ID.with_for_update(of=_refunds)
_asked = _refunds.alias("asked")
_LOCK_OF_MAIL = _WITH_LINES.where(
    sa.exists().where(
        _asked.c.refund_id == sa.bindparam("refund_id"),
        _asked.c.conversation_id == _refunds.c.conversation_id,
        _asked.c.mail_id == _refunds.c.mail_id,
    )
).with_for_update(of=_refunds)
# An update's own values come by their columns' names, so `here` is the key.
_UPDATE = _refunds.update().where(_refunds.c.refund_id == sa.bindparam("here"))
_MOVE = _UPDATE.where(_refunds.c.status == sa.bindparam("from_status"))
_CLAIM = _UPDATE.returning(_refunds.c.status)
_STATUS = sa.select(_refunds.c.status).where(_refunds.c.refund_id == sa.bindparam("refund_id"))
_DONE_OF = (
    sa.select(_payments.c.refund_id, sa.func.sum(_payments.c.amount_minor))
    .where(
        _payments.c.refund_id.in_(sa.bindparam("refund_ids", expanding=True)),
        _payments.c.state == "done",
    )
    .group_by(_payments.c.refund_id)
)
_KEPT_OF = _DONE_OF.where(_payments.c.returned_at.is_(None))
_RETURNED_OF = _DONE_OF.where(_payments.c.returned_at.is_not(None))
_INSERT, _INSERT_LINES = _refunds.insert(), _lines.insert()


def record(
    connection: sa.Connection,
    refund: Refund,
    proposal_key: str,
    policy_facts: Mapping[str, Any],
    item_ids: Mapping[int, str],
) -> None:
    """Record a new refund with its lines; `item_ids` gives the item of each line.

    Raises IntegrityError when the order would give back more than was paid: the trigger's last word.
    """
    connection.execute(
        _INSERT,
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
    # A list takes a way of its own, also for the one line that most refunds have.
    connection.execute(_INSERT_LINES, lines[0] if len(lines) == 1 else lines)


def find(connection: sa.Connection, refund_id: str) -> Refund | None:
    return _one(connection, _BY_ID, refund_id=refund_id)


def load(connection: sa.Connection, refund_id: str) -> Refund:
    """Return a refund that must exist. Raises LookupError."""
    return _found(find(connection, refund_id), refund_id)


def lock(connection: sa.Connection, refund_id: str) -> Refund:
    """Return the refund and keep others from changing it until the commit. Raises LookupError."""
    return _found(_one(connection, _LOCK, refund_id=refund_id), refund_id)


def lock_of_mail(connection: sa.Connection, refund_id: str) -> tuple[Refund, tuple[Refund, ...]]:
    """Return a refund and the others that the same mail led to, oldest first, all locked as by `lock`. Raises
    LookupError."""
    found = _list(connection, _LOCK_OF_MAIL, refund_id=refund_id)
    refund = next((each for each in found if each.refund_id == refund_id), None)
    return _found(refund, refund_id), tuple(each for each in found if each != refund)


def record_receipt(connection: sa.Connection, refunds: Sequence[Refund], outbound_id: str) -> None:
    """Record that a receipt under another refund's key tells of these locked ones, too."""
    for refund in refunds:
        connection.execute(_UPDATE, {"here": refund.refund_id, "receipt_id": outbound_id})


def list_sharing_receipt(
    connection: sa.Connection, conversation_id: str, outbound_id: str
) -> list[str]:
    """Return the refunds of a conversation of which a receipt tells that is under another one's key."""
    query = sa.select(_refunds.c.refund_id).where(
        _refunds.c.conversation_id == conversation_id, _refunds.c.receipt_id == outbound_id
    )
    return list(connection.scalars(query.order_by(_refunds.c.refund_id)))


def _found(refund: Refund | None, refund_id: str) -> Refund:
    if refund is None:
        raise LookupError(f"refund {refund_id} does not exist")
    return refund


def status_of(connection: sa.Connection, refund_id: str) -> RefundStatus:
    """Return the state of a refund. Raises LookupError."""
    status = connection.scalar(_STATUS, {"refund_id": refund_id})
    if status is None:
        raise LookupError(f"refund {refund_id} does not exist")
    return RefundStatus(status)


def list_of_order(connection: sa.Connection, order_id: str) -> tuple[Refund, ...]:
    """Return all refunds of an order, oldest first."""
    return _list(connection, _OF_ORDER, order_id=order_id)


def list_beside(connection: sa.Connection, refund_id: str) -> tuple[Refund, ...]:
    """Return all refunds of a refund's order, itself among them, oldest first."""
    return _list(connection, _BESIDE, refund_id=refund_id)


def list_of_proposal(
    connection: sa.Connection, order_id: str, proposal_key: str
) -> tuple[tuple[Refund, ...], Refund | None]:
    """Return all refunds of an order, oldest first, and which of them was made of this proposal, if any."""
    rows = connection.execute(_OF_ORDER, {"order_id": order_id}).all()
    found = _from_rows(connection, rows)
    made = {row.refund_id for row in rows if row.proposal_key == proposal_key}
    return found, next((each for each in found if each.refund_id in made), None)


def list_of_conversation(connection: sa.Connection, conversation_id: str) -> tuple[Refund, ...]:
    return _list(connection, _OF_CONVERSATION, conversation_id=conversation_id)


def list_of_customer(connection: sa.Connection, email: str) -> tuple[Refund, ...]:
    """Return all refunds of a customer's orders, oldest first."""
    return _list(connection, _OF_CUSTOMER, email=email)


def list_all(connection: sa.Connection, order_id: str | None = None) -> tuple[Refund, ...]:
    return list_of_order(connection, order_id) if order_id else _list(connection, _WITH_LINES)


def _one(connection: sa.Connection, query: sa.Select[Any], **values: str) -> Refund | None:
    found = _list(connection, query, **values)
    return found[0] if found else None


def _list(connection: sa.Connection, query: sa.Select[Any], **values: str) -> tuple[Refund, ...]:
    return _from_rows(connection, connection.execute(query, values).all())


def _from_rows(connection: sa.Connection, rows: Sequence[Row]) -> tuple[Refund, ...]:
    """Return the refunds of these rows, each a refund with one of its lines."""
    parts = _sums_of_failed(connection, rows, _KEPT_OF)
    returned = _sums_of_failed(connection, rows, _RETURNED_OF)
    return tuple(
        _refund(list(lines), parts.get(refund_id), returned.get(refund_id))
        for refund_id, lines in groupby(rows, key=lambda row: str(row.refund_id))
    )


def _sums_of_failed(
    connection: sa.Connection, rows: Sequence[Row], query: sa.Select[str, int]
) -> dict[str, int]:
    """Return what some payments gave back of refunds that failed as a whole, in minor units."""
    failed = {row.refund_id for row in rows if row.status == RefundStatus.FAILED.value}
    if not failed:
        return {}
    sums = connection.execute(query, {"refund_ids": sorted(failed)}).all()
    return {refund_id: int(minor) for refund_id, minor in sums}


def _refund(rows: Sequence[Row], part_paid_minor: int | None, returned_minor: int | None) -> Refund:
    """Restore a refund from its rows, one for each of its lines."""
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
    """Record which run looks after the refund now, so that wake-ups wake there; return its state, which
    nobody else changes until the commit. Raises LookupError."""
    status = connection.scalar(_CLAIM, {"here": refund_id, "run_id": run_id})
    if status is None:
        raise LookupError(f"refund {refund_id} does not exist")
    return RefundStatus(status)


def move(connection: sa.Connection, refund: Refund, status: RefundStatus, **values: Any) -> None:
    """Take a locked refund to another state. Raises ValueError for a step that does not exist."""
    check_transition(refund.status, status)
    here = {"here": refund.refund_id, "from_status": refund.status.value}
    connection.execute(_MOVE, {**here, "status": status.value, **values})


def lower_amount(connection: sa.Connection, refund: Refund, amount: Money) -> None:
    """Record that a manager approved less; the lines keep what was asked for.

    Raises ValueError for more than was asked for, or nothing.
    """
    if amount.currency != refund.amount.currency or not 0 < amount.minor <= refund.amount.minor:
        raise ValueError(f"{amount} is not between 0 and {refund.amount}")
    connection.execute(_UPDATE, {"here": refund.refund_id, "amount_minor": amount.minor})


# --- the payments a refund goes back to -------------------------------------------------------


def list_under_way(
    connection: sa.Connection, before: datetime, limit: int, after: str = ""
) -> Sequence[Row]:
    """Return refunds that still have to be decided or paid, with the run that looks after them, in
    the order of their ids from the one behind `after`.

    `expires_at` is set while a manager has to decide.
    """
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
    """Whether a refund is decided, or one of two managers has approved it."""
    waits = _refunds.c.status == RefundStatus.AWAITING_APPROVAL.value
    approvals, decisions = schema.approvals, schema.decisions
    decided = sa.exists().where(
        approvals.c.refund_id == _refunds.c.refund_id,
        decisions.c.approval_id == approvals.c.approval_id,
    )
    return sa.exists().where(_refunds.c.refund_id == refund_id, sa.or_(~waits, decided))


def count_wake_up(connection: sa.Connection, refund_id: str, run_id: str) -> None:
    """Record that the sweep woke again for a refund, and which run has it now."""
    connection.execute(
        _refunds.update()
        .where(_refunds.c.refund_id == refund_id)
        .values(wake_ups=_refunds.c.wake_ups + 1, run_id=run_id)
    )


def stop_waking(connection: sa.Connection, refund_id: str, wake_ups: int) -> bool:
    """Record that people have the case: `wake_ups` is above the sweep's limit. Returns whether
    that is new."""
    stopped = connection.execute(
        _refunds.update()
        .where(_refunds.c.refund_id == refund_id, _refunds.c.wake_ups < wake_ups)
        .values(wake_ups=wake_ups)
    )
    return stopped.rowcount > 0
