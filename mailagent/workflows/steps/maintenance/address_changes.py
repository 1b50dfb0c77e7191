"""Asks the shop's system to change delivery addresses, where the policy says so.

Each order is looked up first: it must not be shipped. After a crash we ask again, because the same address
twice is harmless. If the system refuses, does not say what it did, or does not answer in time, the team gets a
task.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from mailagent import remedies as ending
from mailagent import services
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.orders.source import (
    AddressChanged,
    AddressOutcome,
    NotSupported,
    SourceProblem,
    TooLate,
    Unsure,
)
from mailagent.domain.refunds.order import OrderProblem, OrderStatus
from mailagent.domain.remedies.address import NewAddress
from mailagent.domain.remedies.labels import REMEDY_KINDS
from mailagent.domain.remedies.remedy import Remedy, RemedyKind, RemedyStatus
from mailagent.store import audit
from mailagent.store.refunds import orders, remedies
from mailagent.store.refunds.remedies import Asking
from mailagent.workflows.steps import order_source
from mailagent.workflows.steps.maintenance.rows import process_each
from mailagent.workflows.steps.notices import tell_team

logger = logging.getLogger(__name__)

AT_ONCE = 5  # a sweep must end within its minute
# Early enough for a person to stop the parcel.
GIVEN_TO_PEOPLE_AFTER = timedelta(minutes=30)
_PLEASE_CHANGE = (
    "Please change it before the order is shipped, and say so: then the customer hears it."
)


def see_to() -> int:
    """Ask the shop's system for the address changes that wait, the oldest first. Returns how many are settled:
    made, refused, or a task for the team."""
    with services.current().database.snapshot() as connection:
        asked = remedies.list_asked(connection, RemedyKind.CHANGE_ADDRESS, AT_ONCE)
    return process_each(asked, str, _see_to)


def _see_to(remedy_id: str) -> int:
    live = services.current()
    with live.database.snapshot() as connection:
        remedy = remedies.find(connection, remedy_id)
    if remedy is None or remedy.status is not RemedyStatus.ASKED:
        return 0
    try:
        outcome = _change(remedy)
    except (SourceProblem, OrderProblem) as problem:
        logger.warning("order=%s event=address_kept: not changed yet: %s", remedy.order_id, problem)
        if live.now() - remedy.requested_at < GIVEN_TO_PEOPLE_AFTER:
            return 0
        outcome = _tell(problem)
    with live.database.transaction() as connection:
        locked = remedies.lock(connection, remedy_id)
        if locked is not None and locked.status is RemedyStatus.ASKED:
            if locked.asked_at is not None and not isinstance(outcome, AddressChanged):
                outcome = Unsure(outcome.why)  # a request may have done it: its answer was lost
            _record(connection, locked, outcome)
    return 1


def _tell(problem: SourceProblem | OrderProblem) -> NotSupported | Unsure:
    if isinstance(problem, SourceProblem) and problem.not_done and problem.operator:
        return NotSupported(f"it refused us: {problem}")
    return Unsure(str(problem))


def _change(remedy: Remedy) -> AddressOutcome:
    """Look up the order, and ask for its new address unless something stands in the way. Raises SourceProblem
    or OrderProblem if there is no usable answer."""
    live, parts = services.current(), remedy.address
    if live.order_source is None or parts is None:
        return NotSupported("orders are imported")
    found = order_source.refresh(remedy.order_id)
    if found is Freshness.AWAY:
        raise SourceProblem("the order cannot be looked up")
    if found is not Freshness.FRESH:
        return Unsure(f"the order's record there is {found.value}")
    with live.database.transaction() as connection:
        allowed = _note_asking(connection, remedy)
    if not isinstance(allowed, Asking):
        return allowed
    wanted = NewAddress(**parts)
    try:
        outcome = order_source.ask(lambda source: source.change_address(remedy.order_id, wanted))
    except SourceProblem as problem:
        if problem.not_done:
            _note_not_done(allowed)
        raise
    if isinstance(outcome, NotSupported | TooLate):
        _note_not_done(allowed)
    return outcome


def _note_asking(connection: sa.Connection, remedy: Remedy) -> Asking | TooLate | Unsure:
    """Record that the system is asked: from here on it may be done, even if this process dies. Or return why it
    must not be asked."""
    refused = _find_obstacle(connection, remedy)
    if refused is not None:
        return refused
    asking = remedies.note_asking(connection, remedy.remedy_id, services.current().now())
    return asking or Unsure("another sweep has dealt with it")


def _note_not_done(asking: Asking) -> None:
    with services.current().database.transaction() as connection:
        remedies.note_not_done(connection, asking)


def _find_obstacle(connection: sa.Connection, remedy: Remedy) -> TooLate | Unsure | None:
    """Lock the order, and return why its address cannot be changed any more; None if it can."""
    order = orders.lock_of_conversation(connection, remedy.order_id, remedy.conversation_id)
    if order is None:
        return Unsure("the order is another customer's now")
    if order.status is not OrderStatus.PENDING:
        return TooLate(f"the order is {order.status.value}")
    is_replaced = _find_later(connection, remedy) is not None
    return TooLate("the customer asked for something else since") if is_replaced else None


def _find_later(connection: sa.Connection, remedy: Remedy) -> Remedy | None:
    """Return what the customer asked for instead since: another address, or to cancel the whole order."""
    for each in remedies.list_of_order(connection, remedy.order_id):
        is_instead = each.kind is remedy.kind or each.is_whole_cancellation
        if is_instead and each.requested_at > remedy.requested_at:
            return each
    return None


def _record(connection: sa.Connection, remedy: Remedy, outcome: AddressOutcome) -> None:
    actor = services.current().order_source_name or audit.CLOCK
    later = _find_later(connection, remedy)
    if isinstance(outcome, AddressChanged):
        ending.end(connection, remedy, RemedyStatus.DONE, actor)
    elif later is not None:  # the later request counts, whatever became of this one
        task = _make_task(connection, remedy)
        ending.close(
            connection, task, RemedyStatus.WITHDRAWN, audit.CUSTOMER, mail_id=later.mail_id
        )
    elif isinstance(outcome, TooLate):
        ending.end(connection, remedy, RemedyStatus.NOT_POSSIBLE, actor)
    elif isinstance(outcome, NotSupported):
        task = _make_task(connection, remedies.note(connection, remedy, address=None))
        _tell_team(
            connection,
            task,
            f"The shop's system does not change it: {outcome.why}.",
            _PLEASE_CHANGE,
        )
    elif remedy.asked_at is None:
        task = _make_task(connection, remedies.note(connection, remedy, address=None))
        _tell_team(
            connection, task, f"The shop's system was not asked: {outcome.why}.", _PLEASE_CHANGE
        )
    else:
        _tell_team(
            connection,
            _make_task(connection, remedy),
            f"The shop's system was asked, but it is not sure what it did: {outcome.why}.",
            "Please see where the order goes, put it right, and say so: then the customer hears it.",
        )


def _make_task(connection: sa.Connection, remedy: Remedy) -> Remedy:
    live = services.current()
    remedies.move(connection, remedy, RemedyStatus.TASK)
    due_at = live.now() + timedelta(days=live.policy.remedies.task_days)
    return remedies.note(connection, replace(remedy, status=RemedyStatus.TASK), due_at=due_at)


def _tell_team(connection: sa.Connection, remedy: Remedy, *lines: str) -> None:
    title = f"{REMEDY_KINDS[remedy.kind].capitalize()}, order {remedy.order_id}"
    page = f"What is wanted: {services.current().shop.public_url}/ops/tasks"
    tell_team(connection, f"task:{remedy.remedy_id}", title, [*lines, page])
