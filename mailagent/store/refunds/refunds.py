"""Refunds as rows: what was asked for, who decided, what was paid. Lock the order before you lock a refund."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import Purpose
from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import (
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
    check_transition,
)
from mailagent.store import audit, schema
from mailagent.store.database import Row, batches, columns_of, from_row, required, update_rows
from mailagent.store.refunds import refund_payments

_refunds, _lines, _payments = schema.refunds, schema.refund_lines, schema.refund_payments
_outbound = schema.outbound_mails
_MAY_BE_PAID_IN_PART = (RefundStatus.APPROVED.value, RefundStatus.FAILED.value)

# A query with a row for each line of a refund. Only a manager's decision changes lines, while the order is
# locked.
_WITH_LINES = (
    sa.select(
        _refunds,
        _lines.c.line_no,
        _lines.c.item_id,
        _lines.c.quantity,
        _lines.c.amount_minor.label("line_minor"),
        _lines.c.approved_quantity,
        _lines.c.is_rest,
    )
    .outerjoin_from(_refunds, _lines, _lines.c.refund_id == _refunds.c.refund_id)
    .order_by(_refunds.c.refund_id, _lines.c.line_no)
)


def outcome_key(refund_id: str) -> str:
    """Return the `dedup_key` of the mail that tells a customer how a refund ended."""
    return f"outcome:{refund_id}"


def promise_key(refund_id: str) -> str:
    """Return the `dedup_key` of the mail that tells a customer until when a refund is paid."""
    return f"promised:{refund_id}"


def returned_key(refund_id: str, minor: int) -> str:
    """Return the `dedup_key` of the mail that tells a customer that money came back. `minor`: how much in all,
    in minor units: a second refund payment may come back later, and then needs another mail."""
    return f"returned:{refund_id}:{minor}"


def _outcome_key(refund_id: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.literal(outcome_key("")).concat(refund_id)


def record(
    connection: sa.Connection, refund: Refund, proposal_key: str, policy_facts: Mapping[str, Any]
) -> None:
    """Record a new refund with its lines.

    Raises IntegrityError, by a trigger, if the order's refunds would exceed what was paid.
    """
    connection.execute(
        _refunds.insert(),
        columns_of(
            _refunds,
            refund,
            proposal_key=proposal_key,
            amount_minor=refund.amount.minor,
            currency=refund.amount.currency,
            policy_facts=dict(policy_facts),
        ),
    )
    for line, item_id in zip(refund.lines, refund.item_ids, strict=True):
        values = columns_of(
            _lines,
            line,
            refund_id=refund.refund_id,
            item_id=item_id,
            amount_minor=line.amount.minor,
        )
        connection.execute(_lines.insert(), values)


def find(connection: sa.Connection, refund_id: str) -> Refund | None:
    return next(iter(list_by_id(connection, [refund_id])), None)


def list_by_id(connection: sa.Connection, refund_ids: Sequence[str]) -> tuple[Refund, ...]:
    return _list(connection, _WITH_LINES.where(_refunds.c.refund_id.in_(refund_ids)))


def load(connection: sa.Connection, refund_id: str) -> Refund:
    return required(find(connection, refund_id), f"refund {refund_id}")


def lock(connection: sa.Connection, refund_id: str) -> Refund:
    """Lock a refund until the commit, and return it. Raises LookupError."""
    query = _WITH_LINES.where(_refunds.c.refund_id == refund_id).with_for_update(of=_refunds)
    return required(next(iter(_list(connection, query)), None), f"refund {refund_id}")


def lock_of_mail(connection: sa.Connection, refund_id: str) -> tuple[Refund, tuple[Refund, ...]]:
    """Lock a refund and the other refunds that the same mail asked for; return it, and the others oldest first.
    Raises LookupError."""
    this = _refunds.alias("this")
    same_mail = sa.exists().where(
        this.c.refund_id == refund_id,
        this.c.conversation_id == _refunds.c.conversation_id,
        this.c.mail_id == _refunds.c.mail_id,
    )
    found = _list(connection, _WITH_LINES.where(same_mail).with_for_update(of=_refunds))
    refund = next((each for each in found if each.refund_id == refund_id), None)
    return required(refund, f"refund {refund_id}"), tuple(each for each in found if each != refund)


def list_of_order(connection: sa.Connection, order_id: str) -> tuple[Refund, ...]:
    return _list(connection, _WITH_LINES.where(_refunds.c.order_id == order_id))


def list_of_orders(connection: sa.Connection, order_ids: Sequence[str]) -> tuple[Refund, ...]:
    return _list(connection, _WITH_LINES.where(_refunds.c.order_id.in_(order_ids)))


def list_of_proposal(
    connection: sa.Connection, order_id: str, proposal_key: str
) -> tuple[tuple[Refund, ...], Refund | None]:
    """Return all refunds of an order, oldest first, and the one with this `proposal_key` or None."""
    rows = connection.execute(_WITH_LINES.where(_refunds.c.order_id == order_id)).all()
    found = _from_rows(connection, rows)
    made = {row.refund_id for row in rows if row.proposal_key == proposal_key}
    return found, next((each for each in found if each.refund_id in made), None)


def list_of_conversation(connection: sa.Connection, conversation_id: str) -> tuple[Refund, ...]:
    return _list(connection, _WITH_LINES.where(_refunds.c.conversation_id == conversation_id))


def list_of_customer(connection: sa.Connection, email: str) -> tuple[Refund, ...]:
    theirs = sa.select(schema.orders.c.order_id).where(schema.orders.c.customer_email == email)
    return _list(connection, _WITH_LINES.where(_refunds.c.order_id.in_(theirs)))


def list_newest_elsewhere(
    connection: sa.Connection, email: str, order_id: str, limit: int
) -> tuple[Refund, ...]:
    """Return the newest refunds of a customer's other orders."""
    orders = schema.orders.c
    theirs = (
        sa.select(_refunds.c.refund_id, _refunds.c.requested_at)
        .join(schema.orders, orders.order_id == _refunds.c.order_id)
        .where(orders.customer_email == email, orders.order_id != order_id)
        .cte("theirs")
        .prefix_with("MATERIALIZED", dialect="postgresql")  # else PostgreSQL may scan all refunds
    )
    newest = sa.select(theirs.c.refund_id).order_by(theirs.c.requested_at.desc()).limit(limit)
    return _list(connection, _WITH_LINES.where(_refunds.c.refund_id.in_(newest)))


def list_all(connection: sa.Connection, order_id: str | None = None) -> tuple[Refund, ...]:
    return list_of_order(connection, order_id) if order_id else _list(connection, _WITH_LINES)


def _list(connection: sa.Connection, query: sa.Select[Any]) -> tuple[Refund, ...]:
    return _from_rows(connection, connection.execute(query).all())


def _from_rows(connection: sa.Connection, rows: Sequence[Row]) -> tuple[Refund, ...]:
    in_part = {row.refund_id for row in rows if row.status in _MAY_BE_PAID_IN_PART}
    done = _sum_done(connection, in_part) if in_part else {}
    return tuple(
        _refund(list(lines), done.get(refund_id))
        for refund_id, lines in groupby(rows, key=lambda row: str(row.refund_id))
    )


def _sum_done(connection: sa.Connection, refund_ids: set[str]) -> dict[str, Row]:
    """Return how much the gateway paid of each refund, and how much of that came back, in minor units."""
    came_back, total = _payments.c.returned_at.is_not(None), sa.func.sum(_payments.c.amount_minor)
    query = (
        sa.select(
            _payments.c.refund_id,
            total.filter(~came_back).label("part_paid"),
            total.filter(came_back).label("returned"),
        )
        .where(_payments.c.state == "done")
        .group_by(_payments.c.refund_id)
    )
    queries = (query.where(_payments.c.refund_id.in_(some)) for some in batches(sorted(refund_ids)))
    return {row.refund_id: row for each in queries for row in connection.execute(each)}


def _refund(rows: Sequence[Row], done: Row | None) -> Refund:
    row = rows[0]
    lines = [each for each in rows if each.line_no is not None]

    def money(minor: int | None) -> Money | None:
        return Money(int(minor), row.currency) if minor else None

    def line_of(line: Row) -> RefundLine:
        worth = Money(line.line_minor, row.currency)
        return RefundLine(line.line_no, line.quantity, worth, bool(line.is_rest))

    approved = {
        line.line_no: line.approved_quantity for line in lines if line.approved_quantity is not None
    }
    refund = from_row(
        Refund,
        row,
        amount=Money(row.amount_minor, row.currency),
        lines=tuple(map(line_of, lines)),
        item_ids=tuple(line.item_id for line in lines),
        reason=RefundReason(row.reason),
        status=RefundStatus(row.status),
        policy_reasons=tuple(row.policy_reasons),
        part_paid=money(done.part_paid) if done else None,
        returned=money(done.returned) if done else None,
    )
    return replace(refund.covering(approved), amount=refund.amount) if approved else refund


def claim(connection: sa.Connection, refund_id: str, run_id: str) -> RefundStatus:
    """Record which run gets the refund's wake-ups. Return the refund's status, which is locked until the
    commit. Raises LookupError."""
    update = _update(refund_id).values(run_id=run_id)
    status = connection.scalar(update.returning(_refunds.c.status))
    return RefundStatus(required(status, f"refund {refund_id}"))


def move(connection: sa.Connection, refund: Refund, status: RefundStatus, **values: Any) -> None:
    """Change the status of a locked refund, and begin the sweep's count again. Raises ValueError if there is no
    such transition."""
    check_transition(refund.status, status)
    update = _update(refund.refund_id).where(_refunds.c.status == refund.status.value)
    connection.execute(update.values(status=status.value, wake_ups=0, **values))


def lower(
    connection: sa.Connection, refund: Refund, amount: Money, quantities: Mapping[int, int]
) -> None:
    """Record that a manager approved only `amount`, and only `quantities` units, by line number.

    Raises ValueError if that is nothing, or more than was asked for.
    """
    if amount.currency != refund.amount.currency or not 0 < amount.minor <= refund.amount.minor:
        raise ValueError(f"{amount} is not between 0 and {refund.amount}")
    connection.execute(_update(refund.refund_id).values(amount_minor=amount.minor))
    for line_no, quantity in quantities.items():
        here = _lines.c.refund_id == refund.refund_id, _lines.c.line_no == line_no
        update_rows(connection, _lines, *here, approved_quantity=quantity)


def record_receipt(connection: sa.Connection, refunds: Sequence[Refund], outbound_id: str) -> None:
    for refund in refunds:
        connection.execute(_update(refund.refund_id).values(receipt_id=outbound_id))


def list_sharing_receipt(
    connection: sa.Connection, conversation_id: str, outbound_id: str
) -> list[str]:
    """Return the ids of a conversation's refunds whose receipt is this mail, written for another refund."""
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
    """Return refunds that were requested before a time and are not decided or paid yet, each with its run, in
    the order of their ids: those that come after `after`. `expires_at` is set while a manager has to decide."""
    waits = _refunds.c.status == RefundStatus.AWAITING_APPROVAL.value
    approvals = schema.approvals
    query = _page(sa.case((waits, approvals.c.expires_at)), limit, after)
    return connection.execute(
        query.outerjoin(approvals, approvals.c.refund_id == _refunds.c.refund_id).where(
            _refunds.c.status.in_(["awaiting_approval", "approved"]),
            _refunds.c.requested_at < before,
        )
    ).all()


def _page(expires_at: sa.ColumnElement[Any], limit: int, after: str) -> sa.Select[Any]:
    return (
        sa.select(
            _refunds.c.refund_id,
            _refunds.c.run_id,
            _refunds.c.wake_ups,
            expires_at.label("expires_at"),
        )
        .where(_refunds.c.refund_id > after)
        .order_by(_refunds.c.refund_id)
        .limit(limit)
    )


def count_wake_ups(connection: sa.Connection, refund_id: str, before: int, wake_ups: int) -> bool:
    """Record how many runs the sweep has enqueued for a refund; above its limit, people take care of it. Return
    False, and change nothing, if the number is not `before` any more."""
    update = _update(refund_id).where(_refunds.c.wake_ups == before)
    return connection.execute(update.values(wake_ups=wake_ups)).rowcount > 0


def count_anew(connection: sa.Connection, refund_id: str) -> None:
    """Let the sweep look after a refund again, although people have it: they replay its run."""
    connection.execute(_update(refund_id).values(wake_ups=0))


# --- refunds whose outcome the customer does not know, or was told wrongly ------------------------


def list_untold(
    connection: sa.Connection, since: datetime, limit: int, after: str = ""
) -> Sequence[Row]:
    """Return refunds that have ended or whose money came back, since a time, without a mail to the customer
    about it; with the columns of `list_under_way`."""
    here = _refunds.c.refund_id
    told = sa.or_(
        _refunds.c.receipt_id.is_not(None),
        sa.exists().where(_outbound.c.dedup_key == _outcome_key(_refunds.c.refund_id)),
    )
    return connection.execute(
        _page(sa.null(), limit, after).where(
            _refunds.c.status.in_(["paid", "rejected", "expired", "failed"]),
            _refunds.c.refund_id.in_(_ended_since(since)),
            sa.or_(~told, sa.and_(sa.exists().where(_where_untrue(here)), ~_returned_mail(here))),
        )
    ).all()


def _ended_since(since: datetime) -> sa.Select[str]:
    # By the audit log: a row has no time at which it failed, and none at which its money came back.
    entry = schema.audit.c
    return sa.select(entry.subject).where(entry.action.in_(audit.OUTCOMES), entry.at >= since)


def list_told_before_return(connection: sa.Connection, refund_id: str) -> Sequence[Row]:
    """Return the refund payments that a mail reported as made and whose money came back after that mail."""
    query = sa.select(_payments).join(_outbound, _where_untrue(sa.literal(refund_id)))
    return connection.execute(query.order_by(_payments.c.idempotency_key)).all()


def _where_untrue(refund_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a mail reported a payment as made, and its money came back later. A receipt
    reports all payments, unless it was rewritten before sending; a failed refund's mail, the earlier ones."""
    receipt = _outbound.c.purpose == Purpose.RECEIPT.value
    told = _refunds.alias("told")
    shared = sa.select(told.c.receipt_id).where(told.c.refund_id == _payments.c.refund_id)
    return sa.and_(
        _payments.c.refund_id == refund_id,
        _payments.c.state == "done",
        _payments.c.returned_at.is_not(None),  # few did: look at no mail for the others
        sa.or_(
            _outbound.c.dedup_key == _outcome_key(refund_id),
            _outbound.c.outbound_id == shared.correlate(_payments).scalar_subquery(),
        ),
        sa.or_(receipt, _outbound.c.created_at >= _payments.c.done_at),
        _outbound.c.created_at < _payments.c.returned_at,
        ~sa.and_(receipt, refund_payments.WRITTEN_AGAIN),
    )


def _returned_mail(refund_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a mail with the `returned_key` reported all that came back."""
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
    return sa.exists().where(_outbound.c.dedup_key == key)
