"""Remedies as rows: what customers asked for beside refunds. Lock the order before you lock a remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.domain.refunds.policy import needs_two
from mailagent.domain.refunds.refund import Refund, RefundStatus, taken_units
from mailagent.domain.remedies.remedy import (
    OPEN,
    SENT_AGAIN,
    STANDING,
    Remedy,
    RemedyItem,
    RemedyKind,
    RemedyStatus,
    check_transition,
)
from mailagent.domain.shop import person_of
from mailagent.store import audit, schema
from mailagent.store.database import Row, columns_of, from_row, in_literals, update_rows
from mailagent.store.pagination import Count, Cursor, Part, Source, Window, moment_of, read_part
from mailagent.store.refunds import refunds

FIGURE = "tasks"  # of the inbox
COUNTED_MAX = 1_000

_remedies, _lines = schema.remedies, schema.order_lines
_IS_TASK = in_literals(_remedies.c.status, RemedyStatus.TASK.value)


def outcome_key(remedy: Remedy) -> str:
    """Return the `dedup_key` of the mail that tells a customer how a remedy ended."""
    return f"remedy:{remedy.remedy_id}"


def asked_key(remedy: Remedy) -> str:
    """Return the `dedup_key` of the mail that asks a customer to send goods back."""
    return f"return:{remedy.remedy_id}"


def record(connection: sa.Connection, remedy: Remedy, proposal_key: str) -> None:
    values = columns_of(
        _remedies,
        remedy,
        proposal_key=proposal_key,
        items=[asdict(item) for item in remedy.items],
        policy_reasons=list(remedy.policy_reasons),
    )
    connection.execute(_remedies.insert(), values)


def find(connection: sa.Connection, remedy_id: str) -> Remedy | None:
    return _first(connection, _remedies.c.remedy_id == remedy_id)


def lock(connection: sa.Connection, remedy_id: str) -> Remedy | None:
    """Lock the order of a remedy, which protects the remedy, too; return it, or None if there is none."""
    known = find(connection, remedy_id)
    if known is None:
        return None
    orders = schema.orders
    locked = sa.select(orders.c.order_id).where(orders.c.order_id == known.order_id)
    connection.execute(locked.with_for_update())
    return _first(connection, _remedies.c.remedy_id == remedy_id)


def find_of_proposal(connection: sa.Connection, proposal_key: str) -> Remedy | None:
    return _first(connection, _remedies.c.proposal_key == proposal_key)


def find_of_refund(connection: sa.Connection, refund_id: str) -> Remedy | None:
    """Return the remedy that must be done before a refund is paid; None for most refunds."""
    return _first(connection, _remedies.c.refund_id == refund_id)


def list_open_of_refunds(
    connection: sa.Connection, refund_ids: Collection[str]
) -> Sequence[Remedy]:
    """Return the open remedies that must be done before these refunds are paid."""
    is_open = in_literals(_remedies.c.status, *sorted(OPEN))
    return _list(connection, _remedies.c.refund_id.in_(refund_ids), is_open)


def list_of_order(connection: sa.Connection, order_id: str) -> Sequence[Remedy]:
    """Return the remedies of an order, oldest first."""
    return _list(connection, _remedies.c.order_id == order_id)


def list_of_orders(connection: sa.Connection, order_ids: Sequence[str]) -> Sequence[Remedy]:
    """Return the remedies of these orders, oldest first."""
    return _list(connection, _remedies.c.order_id.in_(order_ids))


def list_open(connection: sa.Connection) -> Sequence[Remedy]:
    """Return all open remedies, oldest first."""
    return _list(connection, in_literals(_remedies.c.status, *sorted(OPEN)))


def list_of_mails(
    connection: sa.Connection, conversation_id: str, mail_ids: Collection[str]
) -> Sequence[Remedy]:
    """Return the remedies that these mails of a conversation asked for."""
    here = _remedies.c.conversation_id == conversation_id
    return _list(connection, here, _remedies.c.mail_id.in_(mail_ids))


def has_lapsed(refund: Refund) -> bool:
    """Return whether a refund ended unpaid because its remedy was not done. Such a refund is `withdrawn`."""
    by_others = refund.decided_by not in (None, audit.CUSTOMER)
    return refund.status is RefundStatus.WITHDRAWN and by_others


def where_held_up(refund_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that an open remedy must be done before a refund is paid."""
    is_open = in_literals(_remedies.c.status, *sorted(OPEN))
    return sa.exists().where(_remedies.c.refund_id == refund_id, is_open)


def where_moved_on(refund_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a refund is decided, or that the first of two managers has approved it. An
    approved refund does not count while `where_held_up` is true."""
    own = schema.refunds.c
    waits = own.status == RefundStatus.AWAITING_APPROVAL.value
    approvals, decisions = schema.approvals, schema.decisions
    decided = sa.exists().where(
        approvals.c.refund_id == own.refund_id, decisions.c.approval_id == approvals.c.approval_id
    )
    moved_on = sa.or_(sa.and_(waits, decided), sa.and_(~waits, ~where_held_up(own.refund_id)))
    return sa.exists().where(own.refund_id == refund_id, moved_on)


def list_sent_again(connection: sa.Connection, order_id: str) -> list[Remedy]:
    """Return the exchanges and replacements of an order that are open or done."""
    known = list_of_order(connection, order_id)
    return [each for each in known if each.kind in SENT_AGAIN and each.status in STANDING]


def list_unasked(
    connection: sa.Connection, since: datetime, email: str | None = None
) -> list[Remedy]:
    """Return the exchanges and replacements since a time that are open or done, and on which no manager had to
    decide. `email`: only this customer's; None: all."""
    orders, status = schema.orders, _remedies.c.status
    theirs = sa.select(orders.c.order_id).where(orders.c.customer_email == email)
    # Each state has an index with a time of its own.
    is_done = in_literals(status, RemedyStatus.DONE.value) & (_remedies.c.decided_at >= since)
    found = _list(
        connection,
        sa.or_(is_done, *(in_literals(status, each.value) for each in sorted(OPEN))),
        _remedies.c.requested_at >= since,
        sa.true() if email is None else _remedies.c.order_id.in_(theirs),
    )
    return [each for each in found if each.kind in SENT_AGAIN and not each.needs_manager]


def list_replaced(connection: sa.Connection, refund: Refund) -> Sequence[Remedy]:
    """Return the exchanges and replacements of a refund's items that the refund replaces: those that an older
    mail asked for, because the later mail wants money instead; and those that the refund's own mail asked for,
    if the order has too few units for both."""
    return list_replaced_by(connection, [refund])[refund.refund_id]


def list_replaced_by(
    connection: sa.Connection, asked: Sequence[Refund]
) -> Mapping[str, Sequence[Remedy]]:
    """Return the result of `list_replaced` for each of these refunds, by refund id."""
    known = _list(connection, _remedies.c.order_id.in_({each.order_id for each in asked}))
    sent = [each for each in known if each.kind in SENT_AGAIN]
    found = {
        refund.refund_id: [each for each in sent if _touches(each, refund)] for refund in asked
    }
    order_ids = {each.order_id for touched in found.values() for each in touched}
    left = _count_left(connection, order_ids, sent) if order_ids else Counter[tuple[str, str]]()
    mail_ids = {each.mail_id for each in sent} | {each.mail_id for each in asked}
    came = _came_at(connection, mail_ids) if order_ids else {}

    def is_same(remedy: Remedy, refund: Refund) -> bool:
        if remedy.mail_id == refund.mail_id:
            return any(left[remedy.order_id, item.item_id] < 0 for item in remedy.items)
        if refund.proposed_by:  # a person knew what was asked for until then
            return remedy.requested_at <= refund.requested_at
        return came[remedy.mail_id] <= came[refund.mail_id]

    return {
        each.refund_id: [remedy for remedy in found[each.refund_id] if is_same(remedy, each)]
        for each in asked
    }


def _came_at(connection: sa.Connection, mail_ids: Collection[str]) -> Mapping[str, datetime]:
    """Return when these mails came: an older one may be answered later."""
    mails = schema.inbound_mails.c
    query = sa.select(mails.mail_id, mails.received_at).where(mails.mail_id.in_(mail_ids))
    return {row.mail_id: row.received_at for row in connection.execute(query)}


def _touches(remedy: Remedy, refund: Refund) -> bool:
    return remedy.order_id == refund.order_id and remedy.touches(remedy.kind, refund.item_ids)


def _count_left(
    connection: sa.Connection, order_ids: Collection[str], sent: Sequence[Remedy]
) -> Counter[tuple[str, str]]:
    """Return how many units are neither refunded nor sent again, by order id and item id. Below 0, some are
    both."""
    left, known = Counter[tuple[str, str]](), refunds.list_of_orders(connection, list(order_ids))
    taken = {
        order_id: taken_units(each for each in known if each.order_id == order_id)
        for order_id in order_ids
    }
    for line in connection.execute(sa.select(_lines).where(_lines.c.order_id.in_(order_ids))):
        left[line.order_id, line.item_id] += line.quantity - taken[line.order_id][line.line_no]
    for remedy in sent:
        if remedy.status in STANDING:
            for item in remedy.items:  # an item may be in it twice, as in the order
                left[remedy.order_id, item.item_id] -= item.quantity
    return left


def is_sent_since(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether some of a refund's items were exchanged or replaced after it was asked for."""
    asked_at, done = refund.requested_at, RemedyStatus.DONE
    known = (each for each in list_of_order(connection, refund.order_id) if _touches(each, refund))
    # These may be for a later mail, if that was answered first.
    first = [each for each in known if each.kind in SENT_AGAIN and each.requested_at <= asked_at]
    others = [each for each in first if each.mail_id != refund.mail_id]
    return any(
        each.status is done and each.decided_at and each.decided_at > asked_at
        for each in (*others, *list_replaced(connection, refund))
    )


def move(connection: sa.Connection, remedy: Remedy, status: RemedyStatus, **values: Any) -> None:
    """Change the status of a locked remedy. Raises ValueError for a transition that does not exist."""
    check_transition(remedy.status, status)
    own = _remedies.c.remedy_id == remedy.remedy_id
    update_rows(connection, _remedies, own, status=status.value, **values)


def note(connection: sa.Connection, remedy: Remedy, **values: Any) -> Remedy:
    """Change columns of a locked remedy other than the status; return the changed remedy."""
    own, changed = _remedies.c.remedy_id == remedy.remedy_id, replace(remedy, **values)
    if "items" in values:
        values["items"] = [asdict(item) for item in changed.items]
    update_rows(connection, _remedies, own, **values)
    return changed


@dataclass(frozen=True, slots=True)
class Asking:
    """A request to the shop's system. `is_first`: no earlier request may have done the remedy."""

    remedy_id: str
    at: datetime
    is_first: bool


def note_asking(connection: sa.Connection, remedy_id: str, now: datetime) -> Asking | None:
    """Record that the shop's system is asked now. Lock the order first, and commit before you ask. Returns None
    if it must not be asked any more."""
    remedy = find(connection, remedy_id)
    if remedy is None or remedy.status is not RemedyStatus.ASKED:
        return None
    # Each request has another time, so that `note_not_done` of one leaves that of another.
    at = max(now, remedy.asked_at + timedelta(microseconds=1)) if remedy.asked_at else now
    note(connection, remedy, asked_at=at)
    return Asking(remedy_id, at, remedy.asked_at is None)


def note_not_done(connection: sa.Connection, asking: Asking) -> None:
    """Record that a request has certainly changed nothing, unless another one may have."""
    if asking.is_first:
        own = (_remedies.c.remedy_id == asking.remedy_id, _remedies.c.asked_at == asking.at)
        update_rows(connection, _remedies, *own, asked_at=None)


def list_askers(connection: sa.Connection, remedy_ids: Collection[str]) -> dict[str, Row]:
    """Return the mail address of the customer who asked for each remedy, by its id, and their name: none if the
    order belongs to another customer now."""
    orders, threads = schema.orders.c, schema.conversations.c
    name = sa.case(
        (orders.customer_email == threads.customer_email, orders.customer_name), else_=""
    )
    query = (
        sa.select(_remedies.c.remedy_id, threads.customer_email, name.label("customer_name"))
        .join(schema.orders, orders.order_id == _remedies.c.order_id)
        .join(schema.conversations, threads.conversation_id == _remedies.c.conversation_id)
        .where(_remedies.c.remedy_id.in_(remedy_ids))
    )
    return {row.remedy_id: row for row in connection.execute(query)}


def find_approvals(
    connection: sa.Connection, tasks: Sequence[Remedy], managers: Collection[str]
) -> dict[str, Row]:
    """Return who approved these tasks as the first of two managers (`actor`), and when (`at`), by the task's
    id. An approval does not count if its author is none of today's `managers`."""
    people = set(map(person_of, managers))
    ids = [each.remedy_id for each in tasks if needs_two(each.policy_reasons)]
    acts = audit.list_acts(connection, ids, audit.FIRST_APPROVED) if ids else ()
    return {each.subject: each for each in acts if person_of(each.actor) in people}


# --- lists ----------------------------------------------------------------------------------------


def read(connection: sa.Connection, statuses: Sequence[str], window: Window) -> Part[Remedy]:
    """Return one page of the remedies in these states: open ones ordered by the time of the request, others by
    the time of their end."""
    at = "requested_at" if OPEN.intersection(statuses) else "decided_at"
    sources = [
        Source(
            sa.select(_remedies).where(in_literals(_remedies.c.status, status)),
            _remedies.c[at],
            _remedies.c.remedy_id,
            _remedy,
        )
        for status in statuses
    ]
    return read_part(
        connection, sources, window, lambda each: Cursor(getattr(each, at), each.remedy_id)
    )


def count_tasks(connection: sa.Connection, now: datetime) -> tuple[Count, int]:
    """Count the open tasks, up to a bound, and those that are past their date."""
    oldest = sa.select(_remedies.c.requested_at, _remedies.c.due_at).where(_IS_TASK)
    some = oldest.order_by(_remedies.c.requested_at).limit(COUNTED_MAX + 1).subquery()
    late = sa.func.count().filter(some.c.due_at < now)
    query = sa.select(sa.func.count(), sa.func.min(some.c.requested_at), late)
    number, oldest_at, overdue = connection.execute(query.select_from(some)).one()
    return Count(number, moment_of(oldest_at), COUNTED_MAX), overdue


def take_slow(
    connection: sa.Connection, before: datetime, now: datetime, limit: int
) -> Sequence[Remedy]:
    """Return open tasks from before a time without a reminder, oldest first, and record that the team has
    one."""
    slow = sa.and_(_IS_TASK, _remedies.c.reminded_at.is_(None), _remedies.c.requested_at < before)
    query = sa.select(_remedies).where(slow).order_by(_remedies.c.requested_at).limit(limit)
    found = [_remedy(row) for row in connection.execute(query.with_for_update())]
    ids = [each.remedy_id for each in found]
    update_rows(connection, _remedies, _remedies.c.remedy_id.in_(ids), reminded_at=now)
    return found


def list_overdue(connection: sa.Connection, now: datetime, limit: int) -> Sequence[str]:
    """Return the ids of tasks that are past their date, oldest first."""
    query = sa.select(_remedies.c.remedy_id).where(_IS_TASK, _remedies.c.due_at <= now)
    return list(connection.scalars(query.order_by(_remedies.c.due_at).limit(limit)))


def list_stale_orders(connection: sa.Connection, before: datetime, limit: int) -> Sequence[Row]:
    """Return the id and the `look_up_problem` of orders of open tasks that their source has not returned since
    `before`: first those without a problem, the one seen longest ago first; then those with one, in random
    order, so that none of them keeps others waiting."""
    orders = schema.orders.c
    is_fine = orders.look_up_problem.is_(None)
    query = sa.select(orders.order_id, orders.look_up_problem).where(
        orders.order_id.in_(sa.select(_remedies.c.order_id).where(_IS_TASK)),
        sa.or_(orders.seen_at.is_(None), orders.seen_at <= before),
    )
    order = (~is_fine, sa.case((is_fine, orders.seen_at)), sa.func.random())
    return connection.execute(query.order_by(*order).limit(limit)).all()


def list_asked(connection: sa.Connection, kind: RemedyKind, limit: int) -> Sequence[str]:
    """Return the ids of the remedies of a kind for which we have to ask the shop's system, oldest first."""
    is_asked = in_literals(_remedies.c.status, RemedyStatus.ASKED.value)
    query = sa.select(_remedies.c.remedy_id).where(is_asked, _remedies.c.kind == kind.value)
    return list(connection.scalars(query.order_by(_remedies.c.requested_at).limit(limit)))


def _list(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> Sequence[Remedy]:
    query = sa.select(_remedies).where(*where).order_by(_remedies.c.remedy_id)
    return [_remedy(row) for row in connection.execute(query)]


def _first(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> Remedy | None:
    return next(iter(_list(connection, *where)), None)


def _remedy(row: Row) -> Remedy:
    return from_row(
        Remedy,
        row,
        kind=RemedyKind(row.kind),
        status=RemedyStatus(row.status),
        items=tuple(RemedyItem(**item) for item in row.items),
        policy_reasons=tuple(row.policy_reasons),
    )
