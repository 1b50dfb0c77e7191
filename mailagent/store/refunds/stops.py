"""Stops: reasons not to pay an approved refund, or not to do a task, because its order has changed since."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import sqlalchemy as sa

from mailagent.domain.money import read_money
from mailagent.domain.operations.run_about import hash_customer
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.orders.shipment import find_parcels, left_to_ship
from mailagent.domain.refunds.offer import units_of, worth_of
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.payment import refund_id_of
from mailagent.domain.refunds.refund import (
    ItemsProblem,
    Refund,
    RefundReason,
    WantedItem,
    price_lines,
)
from mailagent.domain.refunds.settlement import SettlementState
from mailagent.domain.remedies.remedy import SENT_AGAIN as SENT_AGAIN_KINDS
from mailagent.domain.remedies.remedy import Remedy, RemedyKind, RemedyStatus, TaskStop
from mailagent.store import audit, schema
from mailagent.store.database import Row, in_literals
from mailagent.store.mail import conversations
from mailagent.store.orders import problems, versions
from mailagent.store.refunds import order_import, orders, refunds, remedies, settlements
from mailagent.store.refunds.external_refunds import given_back_minor, sum_elsewhere

CANCELLED = "the order was cancelled after the refund was approved and before it was paid"
NEW_CUSTOMER = "the order's customer has another address than when the refund was asked for"
CHARGED_BACK = "the customer's bank took the payment back (chargeback) before the refund was paid"
SENT_AGAIN = "its items were sent again after it was asked for"
SENT_ANYWAY = "the order was sent, although what it pays for had been cancelled"
ARRIVED = "a parcel of it was delivered after it was approved because none had come"
ELSEWHERE = "something was refunded elsewhere since it was asked for, and too little is left"
TWICE = "as much was refunded elsewhere since it was approved, perhaps for the same items"
UNITS_BACK = "the order was sent with units that had been cancelled"
GONE = "the shop's system does not know the order any more"
UNUSABLE = "the order's record in the shop's system cannot be read"
REFUSED = "the order has changed in the shop's system in what this refund rests on"
OF_ANSWERS = {Freshness.GONE: GONE, Freshness.UNUSABLE: UNUSABLE, Freshness.REFUSED: REFUSED}
# Up to so many refunds are selected by their ids; for more, the query reads all refunds in the ledger.
FEW = 500
STOPS = (CANCELLED, NEW_CUSTOMER, CHARGED_BACK, SENT_AGAIN, SENT_ANYWAY, ARRIVED, ELSEWHERE, TWICE)


def find_stop(
    connection: sa.Connection, order: Order, refund: Refund, *, knows_all: bool
) -> str | None:
    """Return why we must not pay (the rest of) a refund; None if we may. A shop that cancels an order may have
    refunded it itself. `knows_all`: our rows have all refunds of the order, so check that enough is left."""
    if order.status is OrderStatus.CANCELLED and not refund.despite_cancel:
        return CANCELLED
    if is_another_customers(connection, order, refund):
        return NEW_CUSTOMER
    if order.charged_back.minor:
        return CHARGED_BACK
    if remedies.is_sent_since(connection, refund):
        return SENT_AGAIN
    if order.was_sent and _is_for_cancelled_order(connection, refund):
        return SENT_ANYWAY
    if _has_arrived(order, refund):
        return ARRIVED
    if knows_all and orders.taken_minor(connection, order.order_id) > order.paid.minor:
        return ELSEWHERE
    return None


def is_another_customers(connection: sa.Connection, order: Order, refund: Refund) -> bool:
    """Return whether an order has a new address: it may belong to another customer than the one who asked."""
    asked_by = conversations.load(connection, refund.conversation_id).customer_email
    return hash_customer(order.customer_email) not in (refund.approved_for, hash_customer(asked_by))


def _is_for_cancelled_order(connection: sa.Connection, refund: Refund) -> bool:
    remedy = remedies.find_of_refund(connection, refund.refund_id)
    return remedy is not None and remedy.is_done_cancellation and remedy.is_whole_cancellation


def _has_arrived(order: Order, refund: Refund) -> bool:
    """Return whether a refund was approved without a person because a parcel is late, and one of its parcels
    has come since. The policy leaves it to a manager if one had come before."""
    if refund.reason is not RefundReason.NOT_DELIVERED or refund.decided_by != audit.POLICY:
        return False
    parcels = find_parcels(order.shipments, dict(units_of(refund.item_ids, refund.lines))).parcels
    return any(each.is_delivered for each in parcels)


def has_units_back(connection: sa.Connection, refund: Refund, source_name: str) -> bool:
    """Return whether units that were cancelled for a refund are in its order's newest record again, and
    may have been shipped. For a cancellation of the whole order, `find_stop` checks this instead."""
    remedy = remedies.find_of_refund(connection, refund.refund_id)
    if remedy is None or not remedy.is_done_cancellation or not remedy.items:
        return False
    if not _may_be_sent(orders.load(connection, refund.order_id), remedy, source_name):
        return False
    before = versions.units_before(connection, remedy)
    return bool(remedy.units - (before - versions.units_now(connection, remedy.order_id)))


def _may_be_sent(order: Order, remedy: Remedy, source_name: str) -> bool:
    """Return whether units of a cancellation may have been shipped. Other units of a pending order
    may have been shipped before. If a person made the cancellation, the shop's system may not know
    of it: then only a parcel that lists the units shows that they were shipped."""
    by_system = remedy.decided_by == source_name
    if by_system and order.status is not OrderStatus.PENDING:
        return order.was_sent
    left = left_to_ship(order.shipments, order.units)
    if left is None:
        return by_system
    return any(left[item_id] < number for item_id, number in remedy.units.items())


def find_stop_if_not_made(
    connection: sa.Connection, order: Order, keys: Container[str]
) -> str | None:
    """Return why these payments of an order must not be made any more, if the gateway has made none
    of them; None if they may be. In that case, the refunds in the source's record of the order are
    other ones. `keys`: the payments' idempotency keys."""
    payments = versions.payments_now(connection, order.order_id)
    more = order_import.more_elsewhere_minor(connection, order, payments, keys)
    taken = orders.taken_minor(connection, order.order_id)
    return ELSEWHERE if more > 0 and taken + more > order.paid.minor else None


def find_stop_since_approval(
    connection: sa.Connection, order: Order, refund: Refund, rows: Sequence[Row]
) -> str | None:
    """Return TWICE if, since a refund was approved, as much as its items are worth was refunded elsewhere,
    perhaps for the same items; else None. None also if the customer keeps the items, or if a gateway has made a
    part of the refund, which may be what was refunded elsewhere. `rows`: the refund's payments."""
    if any(row.state == "done" for row in rows):
        return None
    # If our payments were not made, the refunds in the source's record are other ones.
    return _find_twice(connection, order, refund, {row.idempotency_key for row in rows})


def _find_twice(
    connection: sa.Connection, order: Order, refund: Refund, not_made: Container[str]
) -> str | None:
    """Return TWICE as `find_stop_since_approval` does. `not_made`: the keys of payments that are not in the
    source's record of the order."""
    if refund.keeps_items:
        return None
    grown = _grown_minor(connection, order, refund, not_made)
    return TWICE if grown >= max(1, worth_of(refund.lines, order.currency).minor) else None


def _grown_minor(
    connection: sa.Connection, order: Order, refund: Refund, not_made: Container[str]
) -> int:
    """Return how much was refunded elsewhere since a refund was approved, in minor units; 0 if we cannot
    know."""
    made = audit.list_details(connection, refund.refund_id, "refund approved")
    if not made or "elsewhere" not in made[-1]:  # of an earlier version
        return 0
    payments = versions.payments_now(connection, order.order_id)
    more = order_import.more_elsewhere_minor(connection, order, payments, not_made)
    then = read_money(made[-1]["elsewhere"]).minor
    return given_back_minor(connection, order.order_id) + more - then


def _find_stop_of_open(connection: sa.Connection, order: Order, refund: Refund) -> str | None:
    """Return why people must not pay what the ledger lists of a refund, if they have not paid it, or what else
    it lists of the order, in the shop's system already."""
    states = settlements.list_states(connection, order.order_id)
    unpaid = {key for key, state in states.items() if state is SettlementState.OPEN}
    # A colleague refunds the whole price of the items, also what we have paid of it.
    ours = {key for key in states if refund_id_of(key) == refund.refund_id}
    stop = find_stop_if_not_made(connection, order, unpaid)
    stop = stop or _find_twice(connection, order, refund, unpaid | ours)
    # If shipping is refunded, too, our own payment alone may be as much as the items are worth.
    has_paid = any(states[key] is SettlementState.SETTLED for key in ours)
    if stop is TWICE and has_paid and _grown_minor(connection, order, refund, unpaid) <= 0:
        return None
    return stop


def find_stops(connection: sa.Connection, refund_ids: Iterable[str]) -> dict[str, str]:
    """Return why the shop must not pay refunds of the ledger any more, by refund id. Those that it may pay are
    left out."""
    found, wanted = {}, set(refund_ids)
    few = len(wanted) <= FEW
    in_ledger = _DOUBTFUL.join(schema.ledger_settlements, _rows.refund_id == _refunds.refund_id)
    query = in_ledger.where(in_literals(_rows.state, "open"))
    query = query.where(_refunds.refund_id.in_(wanted)) if few else query
    for refund_id in connection.scalars(query) if wanted else ():
        if refund_id in wanted:
            refund = refunds.load(connection, refund_id)
            order = orders.load(connection, refund.order_id)
            stop = find_stop(connection, order, refund, knows_all=True)
            stop = stop or _find_stop_of_open(connection, order, refund)
            answer = problems.find_answer(connection, order.order_id)
            stop = stop or (OF_ANSWERS[answer] if answer else None)
            if stop is not None:
                found[refund_id] = stop
    return found


def list_doubtful(connection: sa.Connection, refund_ids: Sequence[str]) -> set[str]:
    """Return those of these refunds that may have a stop; the orders of the others have not changed."""
    return set(connection.scalars(_DOUBTFUL.where(_refunds.refund_id.in_(refund_ids))))


def find_task_stop(connection: sa.Connection, order: Order, remedy: Remedy) -> TaskStop | None:
    """Return why only a manager may do a task now; None if the team may. If money went back
    otherwise, the shop would lose the goods that are sent, too."""
    asked_by = conversations.load(connection, remedy.conversation_id).customer_email
    # The goods may be back, the order cancelled, or the task done by the shop's system: then a person only
    # reports that.
    is_cancelled = remedy.kind is RemedyKind.CANCEL and order.status is OrderStatus.CANCELLED
    is_past = remedy.kind is RemedyKind.RETURN or is_cancelled or remedy.may_be_done
    if order.customer_email != asked_by and not is_past:
        return TaskStop.NEW_CUSTOMER
    if remedy.kind not in SENT_AGAIN_KINDS:
        return None
    if order.status is OrderStatus.CANCELLED:
        return TaskStop.CANCELLED
    if order.charged_back.minor:
        return TaskStop.CHARGED_BACK
    return TaskStop.ELSEWHERE if _may_be_refunded(connection, order, remedy) else None


def _may_be_refunded(connection: sa.Connection, order: Order, remedy: Remedy) -> bool:
    """Return whether so much was refunded elsewhere that a remedy's items may be in it, as in the
    policy, and more than when the remedy was asked for."""
    made = audit.list_details(connection, remedy.remedy_id, "request made")
    unsaved = _unsaved_minor(connection, order)
    elsewhere = given_back_minor(connection, order.order_id) + unsaved
    then = made[0].get("elsewhere") if made else None
    if elsewhere <= (read_money(then).minor if then else 0):
        return False
    wanted = [WantedItem(item_id, units) for item_id, units in remedy.units.items()]
    earlier = refunds.list_of_orders(connection, [order.order_id])
    try:
        worth = sum(line.amount.minor for line in price_lines(order, wanted, earlier))
    except ItemsProblem:  # the order does not have them any more
        return True
    left = order.left_after(orders.taken_minor(connection, order.order_id) + unsaved)
    return worth <= elsewhere or left.minor < worth


def _unsaved_minor(connection: sa.Connection, order: Order) -> int:
    """Return how much more was refunded elsewhere than our rows say, in minor units, by a record of the order
    that we could not save because our refunds forbid its change."""
    if problems.find_answer(connection, order.order_id) is None:
        return 0
    payments = versions.payments_now(connection, order.order_id)
    return order_import.more_elsewhere_minor(connection, order, payments, ())


def find_task_stops(connection: sa.Connection, tasks: Sequence[Remedy]) -> dict[str, TaskStop]:
    """Return why only managers may do tasks now, by the task's id. Those that the team may do are left out."""
    ids = [each.remedy_id for each in tasks]
    query = _DOUBTFUL_TASKS.where(_remedies.remedy_id.in_(ids))
    doubtful = set(connection.scalars(query)) if ids else ()
    found = {
        each.remedy_id: find_task_stop(connection, orders.load(connection, each.order_id), each)
        for each in tasks
        if each.remedy_id in doubtful
    }
    return {remedy_id: stop for remedy_id, stop in found.items() if stop}


def list_doubtful_tasks(connection: sa.Connection, limit: int) -> Sequence[str]:
    """Return the ids of open tasks that may be stopped, in random order, so that none keeps others waiting: up
    to `limit` about which no manager was asked, then as many others, which may have a second stop by now."""
    query = _DOUBTFUL_TASKS.where(in_literals(_remedies.status, RemedyStatus.TASK.value))
    some = query.order_by(sa.func.random()).limit(limit)
    return [*connection.scalars(some.where(~_IS_TOLD)), *connection.scalars(some.where(_IS_TOLD))]


_rows, _refunds, _orders = schema.ledger_settlements.c, schema.refunds.c, schema.orders.c
_payments, _remedies = schema.order_payments.c, schema.remedies.c
_versions = schema.order_versions.c
_HAS_CHANGED = (
    _orders.status == OrderStatus.CANCELLED.value,
    _orders.customer_email != schema.conversations.c.customer_email,
    _orders.look_up_problem.in_([each.value for each in OF_ANSWERS]),
    sa.exists().where(
        _payments.order_id == _orders.order_id, _payments.charged_back_at.is_not(None)
    ),
    sum_elsewhere(_orders.order_id) > 0,
)
# Fast queries that leave out most tasks and refunds: those whose orders have certainly not changed.
_DOUBTFUL_TASKS = (
    sa.select(_remedies.remedy_id)
    .join(schema.orders, _orders.order_id == _remedies.order_id)
    .join(schema.conversations, schema.conversations.c.conversation_id == _remedies.conversation_id)
    .where(sa.or_(*_HAS_CHANGED))
)
_IS_TOLD = sa.exists().where(
    schema.audit.c.subject == _remedies.remedy_id, schema.audit.c.action == audit.MANAGER_ASKED
)
_DOUBTFUL = (
    sa.select(_refunds.refund_id)
    .join(schema.orders, _orders.order_id == _refunds.order_id)
    .join(schema.conversations, schema.conversations.c.conversation_id == _refunds.conversation_id)
    .where(
        sa.or_(
            *_HAS_CHANGED,
            sa.exists().where(
                _versions.order_id == _orders.order_id,
                _versions.fetched_at >= _refunds.requested_at,
            ),
            sa.exists().where(
                _remedies.order_id == _orders.order_id,
                _remedies.status == RemedyStatus.DONE.value,
                _remedies.kind.in_([each.value for each in SENT_AGAIN_KINDS]),
            ),
            sa.exists().where(
                _remedies.refund_id == _refunds.refund_id,
                _remedies.status == RemedyStatus.DONE.value,
                _remedies.kind == RemedyKind.CANCEL.value,
            ),
            sa.and_(
                _refunds.reason == RefundReason.NOT_DELIVERED.value,
                _refunds.decided_by == audit.POLICY,
            ),
        ),
    )
    .distinct()
)
