"""Reminds the team of tasks that wait, looks up their orders, tells managers of those that are stopped, and
ends those that were not done in time: the customer is told, and the team gets the conversation. Tells the
operators of settlements past their date."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent import remedies as ending
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.operations.circuit_breaker import BreakerState, breaker_state
from mailagent.domain.orders.freshness import TASK_FRESH_FOR
from mailagent.domain.remedies.labels import REMEDY_KINDS
from mailagent.domain.remedies.remedy import Remedy, RemedyStatus, TaskStop
from mailagent.domain.text import tell_moment
from mailagent.store import audit
from mailagent.store.mail import conversations
from mailagent.store.operations import circuit_breakers
from mailagent.store.refunds import orders, remedies, settlements
from mailagent.store.refunds.stops import (
    find_stops,
    find_task_stop,
    find_task_stops,
    list_doubtful_tasks,
)
from mailagent.workflows.steps.maintenance.rows import process_each
from mailagent.workflows.steps.notices import list_managers_for, tell_operators, tell_team
from mailagent.workflows.steps.recording import step

TASKS_AT_ONCE = 500
SETTLEMENTS_AT_ONCE = 500
# So many tasks about which managers were asked, and so many others. Each takes several queries, and may make a
# mail to each manager.
STOPS_AT_ONCE = 20
# How many orders a sweep has looked up at once, so that it does not flood the shop's system.
LOOK_UPS_AT_ONCE = {BreakerState.CLOSED: 5, BreakerState.PROBE: 1, BreakerState.OPEN: 0}
NAMED = 20


def see_to() -> int:
    """Remind the team, once, of tasks that have waited for half of their time, and managers of tasks that
    only they may do. Tell managers, once for each reason, of stopped tasks. Expire tasks past their date.
    Enqueue look-ups of the orders of open tasks, for the next sweep. Returns how many tasks were acted on.

    A task past its date gets a later date instead if the shop's system may have done it (the team is told),
    or if a refund holds it up.
    """
    live = services.current()
    with live.database.snapshot() as connection:
        overdue = remedies.list_overdue(connection, live.now(), TASKS_AT_ONCE)
        doubtful = list_doubtful_tasks(connection, STOPS_AT_ONCE)
    ended = process_each(overdue, str, _expire)
    told = process_each(doubtful, str, _tell_if_stopped) + _remind()
    _look_up_orders()
    return ended + told


def _expire(remedy_id: str) -> int:
    live, why = services.current(), HandOverReason.TASK_OVERDUE
    with live.database.transaction() as connection:
        remedy = remedies.lock(connection, remedy_id)
        if remedy is None or not remedy.is_open:
            return 0
        if ending.find_waiting(connection, remedy):
            # People may not do it yet, and what they wait for has a date of its own.
            ending.postpone(connection, remedy)
            return 1
        key = f"overdue:{remedy_id}"
        if remedy.may_be_done:  # then only a person can say that it was not
            key += f":{live.now():%Y-%m-%d}"
            ending.postpone(connection, remedy)
        else:
            ending.end(connection, remedy, RemedyStatus.EXPIRED, audit.CLOCK)
        conversation = conversations.lock(connection, remedy.conversation_id)
        mailers.hand_to_team(connection, conversation, why, key)
    return 1


def _tell_if_stopped(remedy_id: str) -> int:
    live = services.current()
    with live.database.transaction() as connection:
        remedy = remedies.lock(connection, remedy_id)
        if remedy is None or not remedy.is_open:
            return 0
        order = orders.load(connection, remedy.order_id)
        stop = find_task_stop(connection, order, remedy)
        managers = list_managers_for(order.customer_email)
        if not stop or not managers:
            return 0
        why = {"why": stop.value}
        if why in audit.list_details(connection, remedy_id, audit.MANAGER_ASKED):
            return 0
        title = f"{REMEDY_KINDS[remedy.kind].capitalize()}, order {order.order_id}: it is stopped"
        lines = [
            f"{stop[0].upper()}{stop[1:]}.",
            "Only managers may do it now. If nothing is to be done, say that it is not possible.",
            f"Please decide by {tell_moment(remedy.due_at)}: {live.shop.public_url}/ops/tasks",
        ]
        tell_team(connection, f"stopped:{remedy_id}:{stop.name}", title, lines, managers)
        audit.record(connection, live.now(), audit.CLOCK, audit.MANAGER_ASKED, remedy_id, why)
    return 1


def _look_up_orders() -> None:
    """Enqueue look-ups of orders of open tasks. An order whose last look-up failed gets one in an hour only: it
    may be gone, and its failures may open the circuit breaker."""
    live = services.current()
    source, now = live.providers.orders, live.now()
    if source is None:
        return
    with live.database.snapshot() as connection:
        most = LOOK_UPS_AT_ONCE[breaker_state(circuit_breakers.find(connection, source), now)]
        stale = remedies.list_stale_orders(connection, now - TASK_FRESH_FOR, most)
    if not stale:
        return
    with live.database.transaction() as connection:
        for row in stale:
            at = now.replace(minute=0) if row.look_up_problem else now
            live.workflow_client.queue.enqueue_look_up(connection, row.order_id, at)


def _remind() -> int:
    live = services.current()
    before = live.now() - timedelta(days=live.policy.remedies.task_days) / 2
    with live.database.transaction() as connection:
        slow = remedies.take_slow(connection, before, live.now(), TASKS_AT_ONCE)
        stopped = find_task_stops(connection, slow)
        if slow:
            lines = _lines(slow, stopped)
            tell_team(connection, f"tasks:{slow[0].remedy_id}", _title(slow), lines)
        for manager, theirs in _by_manager(connection, slow).items():
            key, why = f"managers:{theirs[0].remedy_id}:reminder", "Only managers may do them."
            lines = [*_lines(theirs, stopped), why]
            tell_team(connection, key, _title(theirs), lines, [manager])
    return len(slow)


def _by_manager(connection: sa.Connection, slow: Sequence[Remedy]) -> dict[str, list[Remedy]]:
    theirs = [each for each in slow if each.needs_manager]
    owners = orders.find_owners(connection, [each.order_id for each in theirs])
    addresses = services.current().shop.manager_emails
    first = remedies.find_approvals(connection, theirs, addresses)
    found = defaultdict[str, list[Remedy]](list)
    for each in theirs:
        approver = [first[each.remedy_id].actor] if each.remedy_id in first else []
        for manager in list_managers_for(owners[each.order_id].customer_email, *approver):
            found[manager].append(each)
    return found


def _title(slow: Sequence[Remedy]) -> str:
    return f"{len(slow)} tasks wait" if len(slow) > 1 else "A task waits"


def _lines(slow: Sequence[Remedy], stopped: Mapping[str, TaskStop]) -> list[str]:
    named = [
        f"{REMEDY_KINDS[each.kind].capitalize()}, order {each.order_id}, by {tell_moment(each.due_at)}"
        + (f"; {stopped[each.remedy_id]}" if each.remedy_id in stopped else "")
        for each in slow[:NAMED]
    ]
    more = [f"{len(slow) - NAMED} more wait."] if len(slow) > NAMED else []
    page = f"{services.current().shop.public_url}/ops/tasks"
    return [f"Customers wait for them. All of them: {page}", *named, *more]


# --- settlements ----------------------------------------------------------------------------------


@step
def tell_overdue_settlements() -> int:
    """Mail the operators, once for each, about settlements past their date; return how many there are."""
    live = services.current()
    with live.database.transaction() as connection:
        due = settlements.take_overdue(connection, live.now(), SETTLEMENTS_AT_ONCE)
        if due:
            stopped = find_stops(connection, (each.refund_id for each in due))
            many = f"{len(due)} refunds are" if len(due) > 1 else "A refund is"
            lines = [
                "They are approved and in the ledger, and nothing says that they were paid. Pay them, and tick "
                "them off: the customers then get their receipts.",
                *(
                    f"{each.to_give}{' of store credit' if each.credit else ''} for order"
                    f" {each.order_id}, due {each.due_at:%Y-%m-%d}"
                    f"{_unless(stopped.get(each.refund_id))}"
                    for each in due[:NAMED]
                ),
            ]
            if len(due) > NAMED:
                lines.append(f"{len(due) - NAMED} more.")
            button = ("See what waits to be paid", f"{live.shop.public_url}/ops/settlements")
            key = f"settlements:{due[0].idempotency_key}"
            tell_operators(connection, f"{many} not paid in time", lines, key, button)
    return len(due)


def _unless(stop: str | None) -> str:
    return f"; do not pay it: {stop}" if stop else ""
