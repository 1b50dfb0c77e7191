"""Looks up the orders of the customer who wrote at the order source, if the shop has one: all at the start of a
run, and a single one before a tool uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypedDict

import sqlalchemy as sa
from dbos import DBOS

from mailagent import services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.operations.run_about import HeldUpBy
from mailagent.domain.orders.freshness import Freshness, is_fresh
from mailagent.domain.orders.source import (
    LOOK_UP_SECONDS,
    MOST_ORDERS,
    MOST_PAGES,
    OrderPage,
    OrderSource,
    SourceProblem,
)
from mailagent.domain.refunds.order import Order, OrderProblem
from mailagent.mailers import Reader
from mailagent.mailers.facts import ORDERS_LISTED
from mailagent.store.mail import conversations, inbound
from mailagent.store.orders import lookups, versions
from mailagent.store.orders.versions import Kept
from mailagent.store.refunds import orders
from mailagent.workflows.steps import order_source
from mailagent.workflows.steps.conversation.batch import Batch, is_waiting
from mailagent.workflows.steps.recording import step
from mailagent.workflows.tools.tool import OrderUse


class LookedUp(TypedDict):
    """The result of the look-up at the start of a run. `outcome`: `found`; `away`: the source does not answer,
    and `imported`: the shop has no source any more, so the run uses the stored orders; `later`: the source does
    not answer, and the mail was put off before, so it waits. `versions`: the version of each order that was
    found, by its number."""

    outcome: str
    versions: dict[str, int]


@dataclass(slots=True)
class _Found:
    """The orders that the source listed. `complete`: the customer has no others."""

    orders: dict[str, Order]
    problems: list[str]
    complete: bool = False


@step
def look_up_orders(batch: Batch) -> LookedUp:
    """Look up the orders of the customer who wrote, and save them."""
    if services.current().order_source is None:  # it was configured when the mails were taken
        return LookedUp(outcome="imported", versions={})
    with services.current().database.snapshot() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
        email = conversation.customer_email
        before = versions.find_marks(connection, email=email)
    ends_at = services.current().now() + timedelta(seconds=LOOK_UP_SECONDS)
    try:
        found = _list_orders(email, ends_at)
    except SourceProblem:
        return LookedUp(outcome=_without_source(batch), versions={})
    theirs = [order for order in found.orders.values() if order.customer_email == email]
    strangers = len(found.orders) - len(theirs)
    if strangers:
        found.problems.append(f"orders of other customers in the list of one: {strangers}")
    listed = {order.order_id for order in theirs}
    is_settled = before.keys() <= listed or _look_up_unlisted(email, listed, ends_at)

    def note(connection: sa.Connection, kept: Kept) -> None:
        if not is_settled:
            return  # without a new list, a reply says how old what it lists is
        complete = found.complete and not found.problems and not kept.problems
        now, thread = services.current().now(), conversation.conversation_id
        lookups.record_all(connection, thread, now, complete=complete)

    kept = order_source.save(theirs, before, note)
    for order_id in kept.overtaken:
        if services.current().now() < ends_at:
            order_source.refresh(order_id, ends_at)
    order_source.report(found.problems)
    return LookedUp(outcome="found", versions=kept.versions)


def _list_orders(email: str, ends_at: datetime) -> _Found:
    """Return the customer's newest orders. Raises SourceProblem if not even the first page came."""
    found, cursor = _Found({}, []), None
    for number in range(MOST_PAGES):
        try:
            page = order_source.ask(partial(_find_page, email, cursor), ends_at)
        except SourceProblem:
            if number == 0:
                raise
            break
        if page.orders and all(order.order_id in found.orders for order in page.orders):
            found.problems.append("a page of a customer's orders repeats what came before")
        found.orders |= {order.order_id: order for order in page.orders}
        found.problems += page.problems
        cursor = page.next_cursor
        found.complete = cursor is None and not page.is_cut
        is_late = page.is_cut or services.current().now() >= ends_at
        if cursor is None or is_late or len(found.orders) >= MOST_ORDERS:
            break
    if len(found.orders) > MOST_ORDERS:
        found.orders = dict(list(found.orders.items())[:MOST_ORDERS])
        found.complete = False
    return found


def _find_page(email: str, cursor: str | None, source: OrderSource) -> OrderPage:
    return source.find_orders(email, cursor)


def _look_up_unlisted(email: str, listed: set[str], ends_at: datetime) -> bool:
    """Look up the customer's stored orders that the source did not list: it may have deleted them, or given
    them to another customer. Look up only orders that a reply could list, and at most ORDERS_LISTED. Return
    False if some were not looked up: the source did not answer, there were too many, or the time was up.
    """
    asked = set[str]()
    while True:
        with services.current().database.snapshot() as connection:
            shown, _ = orders.list_of_customer(connection, email, ORDERS_LISTED, with_gone=False)
        unlisted = [each for each in shown if each.order_id not in listed | asked]
        if not unlisted:
            return True
        for order in unlisted:
            if len(asked) == ORDERS_LISTED or services.current().now() >= ends_at:
                return False
            asked.add(order.order_id)
            if order_source.refresh(order.order_id, ends_at) is Freshness.AWAY:
                return False


def _without_source(batch: Batch) -> str:
    with services.current().database.snapshot() as connection:
        waited = inbound.was_put_off(connection, batch["mail_ids"])
    if waited:
        describe_hold_up()
    return "later" if waited else "away"


def describe_hold_up() -> None:
    """Say in the run's attributes that it waits for the order source."""
    if DBOS.workflow_id is not None:
        queue = services.current().workflow_client.queue
        queue.describe_hold_up(DBOS.workflow_id, HeldUpBy.ORDERS)


# --- before a tool --------------------------------------------------------------------------------


def needs_look_up(use: OrderUse, reader: Reader, arguments: Mapping[str, Any]) -> bool:
    """Return whether the rows may not be fresh enough for a tool that only reads."""
    if services.current().order_source is None or not reader.proven or use is OrderUse.NONE:
        return False
    if use is OrderUse.LIST:
        since = inbound.last_received_at(reader.connection, reader.mail_ids)
        return not lookups.are_listed(reader.connection, reader.conversation_id, since)
    order = reader.find_order(str(arguments["order_id"]))
    return order is None or not is_fresh(order, services.current().now())


def look_up_for(
    use: OrderUse, batch: Batch, conversation: Conversation, arguments: Mapping[str, Any]
) -> Freshness:
    """Look up the order, or the list of orders, that a tool is about to use, unless the rows are fresh enough.
    After AWAY, GONE, UNUSABLE or REFUSED the tool must not run. A tool that only shows an order gets FRESH if
    the order is stored."""
    if services.current().order_source is None or not batch["verified"] or use is OrderUse.NONE:
        return Freshness.FRESH
    if use is OrderUse.LIST:
        return _look_up_list(batch, conversation)
    if use is OrderUse.DECIDE and not _is_waiting(batch):
        return Freshness.FRESH  # a replay: the tool finds what was decided
    return _look_up_one(use, batch, conversation, str(arguments["order_id"]))


def _look_up_list(batch: Batch, conversation: Conversation) -> Freshness:
    with services.current().database.snapshot() as connection:
        since = inbound.last_received_at(connection, batch["mail_ids"])
        if lookups.are_listed(connection, conversation.conversation_id, since):
            return Freshness.FRESH
        email = conversation.customer_email
        known, _ = orders.list_of_customer(connection, email, 1, with_gone=False)
    return Freshness.FRESH if known else Freshness.AWAY


def _is_waiting(batch: Batch) -> bool:
    with services.current().database.snapshot() as connection:
        return is_waiting(connection, batch["mail_ids"])


def _look_up_one(
    use: OrderUse, batch: Batch, conversation: Conversation, order_id: str
) -> Freshness:
    live, thread = services.current(), conversation.conversation_id
    if not order_id.isprintable():
        return Freshness.ABSENT
    with live.database.snapshot() as connection:
        known = orders.find_of_conversation(connection, order_id, thread)
        since = inbound.last_received_at(connection, batch["mail_ids"])
        is_absent = known is None and lookups.is_absent(connection, thread, order_id, since)
    if is_absent:
        return Freshness.ABSENT
    if known is None:
        found = _look_up_unknown(conversation, order_id)
    elif use is OrderUse.LOOK and is_fresh(known[0], live.now()):
        return Freshness.FRESH
    else:
        found = order_source.refresh(known[0].order_id)
    if found is Freshness.FRESH or found is Freshness.ABSENT:
        return _record_if_absent(conversation, order_id, live.now())
    # A tool that only shows an order may show the stored one.
    return Freshness.FRESH if known is not None and use is OrderUse.LOOK else found


def _record_if_absent(conversation: Conversation, order_id: str, now: datetime) -> Freshness:
    thread = conversation.conversation_id
    with services.current().database.transaction() as connection:
        # The source may have given it to another customer.
        if orders.find_of_conversation(connection, order_id, thread) is not None:
            return Freshness.FRESH
        lookups.record_absent(connection, thread, order_id, now)
    return Freshness.ABSENT


def _look_up_unknown(conversation: Conversation, order_id: str) -> Freshness:
    """Look up an order number that is not stored as this customer's. Another customer's order,
    stored or not, is not saved. It causes the same requests and outcome as a number that does not
    exist, so that an answer does not show which numbers exist."""
    for spelling in orders.spellings(order_id):
        try:
            order = order_source.ask(partial(_load_order, spelling))
        except SourceProblem:
            return Freshness.AWAY
        except OrderProblem as problem:
            order_source.report([f"order {spelling}: {problem}"])
            if problem.customer_email == conversation.customer_email:
                return Freshness.UNUSABLE
            continue
        if order is not None and order.customer_email == conversation.customer_email:
            return _save_unknown(order, order_id)
    return Freshness.ABSENT


def _load_order(order_id: str, source: OrderSource) -> Order | None:
    return source.load_order(order_id)


def _save_unknown(order: Order, order_id: str) -> Freshness:
    if order.order_id not in orders.spellings(order_id):
        order_source.report([f"order {order_id}: the answer is another order, {order.order_id}"])
        return Freshness.UNUSABLE
    kept = order_source.save([order], before={})
    if not kept.overtaken:
        return Freshness.FRESH if kept.versions else Freshness.UNUSABLE
    # It is stored: as another customer's, or by another look-up since we asked.
    found = order_source.refresh(order.order_id)
    return Freshness.UNUSABLE if found is Freshness.REFUSED else found
