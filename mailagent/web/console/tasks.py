"""The page of tasks: remedies that people of the shop do. They report each as done or not possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, abort, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.labels import MANAGER_REASONS, REFUND_REASONS
from mailagent.domain.refunds.policy import ManagerReason, needs_two
from mailagent.domain.refunds.refund import Refund, RefundReason
from mailagent.domain.remedies.labels import REMEDY_KINDS, REMEDY_STATES
from mailagent.domain.remedies.remedy import (
    OPEN,
    Remedy,
    RemedyStatus,
    TaskProblem,
    TaskStop,
    tell_again,
)
from mailagent.domain.shop import person_of
from mailagent.remedies import find_all_waiting, finish
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.mail import inbound
from mailagent.store.refunds import orders, remedies
from mailagent.store.refunds.stops import find_task_stop, find_task_stops
from mailagent.web.console.conversations.refunding import wait_for_look_up
from mailagent.web.console.page import (
    go_to,
    page,
    pages_beside,
    read_window,
    record_act,
    redact,
    redact_line,
    typed,
)
from mailagent.web.guard import current_person, needs
from mailagent.web.language import _, translate, upper_first

blueprint = Blueprint("ops_tasks", __name__)

PATH = "/ops/tasks"
_OPEN = [each.value for each in RemedyStatus if each in OPEN]
_ENDED = [each.value for each in RemedyStatus if each not in OPEN]


@blueprint.get("/ops/tasks")
@needs(Permission.TASKS)
def show() -> Response:
    """Show the open tasks, oldest first; or those that have ended."""
    return _page()


def _page(problem: str = "", remedy_id: str = "", note: str = "") -> Response:
    """Return the page. `problem`: why the `note` that a person typed for a task was not recorded."""
    is_open = request.args.get("state") != "ended"
    statuses = _OPEN if is_open else _ENDED
    live = services.current()
    with live.database.snapshot() as connection:
        part = remedies.read(connection, statuses, read_window(newest_first=not is_open))
        tasks = _list_shown(connection, part.rows)
    return page(
        "ops/tasks.html",
        422 if problem else 200,
        tasks=tasks,
        is_open=is_open,
        problem=problem,
        unsent={remedy_id: note},
        lost="" if remedy_id in [x["remedy"].remedy_id for x in tasks if x["may_do"]] else note,
        now=live.now(),
        **pages_beside(part, PATH, {} if is_open else {"state": "ended"}),
    )


def _list_shown(connection: sa.Connection, shown: Sequence[Remedy]) -> list[dict[str, Any]]:
    """Return the tasks of a page, each with the customer who asked for it, their mail, a refund that a manager
    must decide before the task is done, why only a manager may do it now, and who approved it as the first of
    two managers."""
    asked = inbound.list_by_id(connection, [each.mail_id for each in shown])
    mails = {each.mail_id: f"{each.subject}\n\n{each.new_text}" for each in asked}
    is_open = [each for each in shown if each.is_open]
    first, stopped = find_all_waiting(connection, is_open), find_task_stops(connection, is_open)
    managers = services.current().shop.manager_emails
    approvals = remedies.find_approvals(connection, shown, managers)
    askers = remedies.list_askers(connection, [each.remedy_id for each in shown])
    return [
        _shown(each, mails, first.get(each.remedy_id), stopped.get(each.remedy_id))
        | {"asked_by": askers[each.remedy_id]}
        | _approved(each, approvals.get(each.remedy_id))
        for each in shown
    ]


def _shown(
    remedy: Remedy, mails: Mapping[str, str], waiting: Refund | None, stop: TaskStop | None
) -> dict[str, Any]:
    why = [translate(MANAGER_REASONS[ManagerReason(each)]) for each in remedy.policy_reasons]
    return {
        "remedy": remedy,
        "kind": translate(REMEDY_KINDS[remedy.kind]),
        "state": translate(REMEDY_STATES[remedy.status]),
        "reason": translate(REFUND_REASONS[RefundReason(remedy.reason)]) if remedy.reason else "",
        "wish": redact(remedy.wish or ""),
        # The wish alone may mislead: "do not send it to 1 New Road" has an address, too.
        "mail": redact_line(mails.get(remedy.mail_id, "")).strip(),
        "needs_manager": why,
        "waiting": waiting,
        "stop": translate(stop.value) if stop else "",
        "stop_name": stop.name if stop else "",
        "may_be_done": not waiting and (not stop or current_person().is_manager),
        "may_do": remedy.is_open
        and remedy.status is not RemedyStatus.ASKED
        and (not why or current_person().is_manager),
    }


def _approved(remedy: Remedy, first: Row | None) -> dict[str, Any]:
    me = person_of(current_person().email)
    return {
        "first": first,
        "needs_first": not first and needs_two(remedy.policy_reasons),
        "has_approved": first is not None and person_of(first.actor) == me,
    }


@blueprint.post("/ops/tasks/<remedy_id>")
@needs(Permission.TASKS)
def decide(remedy_id: str) -> Response:
    """Record that a task is done, or not possible, as the pressed button says. The customer gets a mail. If two
    managers are needed, the first one only approves the task."""
    is_done, note = "done" in request.form, typed("note", request.form) or None
    if is_done == ("fail" in request.form):
        abort(400)  # an outcome may move money, so a form without one of the buttons does nothing
    if is_done:
        _look_up(remedy_id)
    try:
        with services.current().database.transaction() as connection:
            approves = request.form.get("done") == "approve"
            person = current_person().email
            if is_done:
                _check_stop(connection, remedy_id)
            is_news = finish(connection, remedy_id, person, is_done, note, approves=approves)
            again = None if is_news else _note_again(connection, remedy_id, note, approves)
    except TaskProblem as problem:
        return _page(translate(str(problem)), remedy_id, note or "")
    return _page(again, remedy_id, note or "") if again else go_to(PATH)


def _note_again(
    connection: sa.Connection, remedy_id: str, note: str | None, approves: bool
) -> str | None:
    """Return what to tell a person who reports what is recorded already, if it may have been done twice, or
    their words would be lost; then it is in the audit log."""
    remedy = remedies.find(connection, remedy_id)
    if remedy is None:
        return None
    again = tell_again(remedy, current_person().email, note, approves, _)
    if again:
        told = {"kind": remedy.kind.value, "order_id": remedy.order_id}
        record_act(connection, audit.DONE_AGAIN, remedy_id, told | {"status": remedy.status.value})
    return again


def _check_stop(connection: sa.Connection, remedy_id: str) -> None:
    """Lock a task. Raise TaskProblem if a manager's form does not name why only managers may do it now: they
    must know of it first."""
    remedy = remedies.lock(connection, remedy_id)
    if remedy is None or not remedy.is_open or not current_person().is_manager:
        return
    stop = find_task_stop(connection, orders.load(connection, remedy.order_id), remedy)
    if stop and request.form.get("stop") != stop.name:
        happened = _("Something has happened while this page was open.")
        raise TaskProblem(f"{happened} {upper_first(translate(stop.value))}.")


def _look_up(remedy_id: str) -> None:
    """Have the order of an open task looked up, because it may have changed since the page was shown."""
    with services.current().database.snapshot() as connection:
        remedy = remedies.find(connection, remedy_id)
        order = orders.load(connection, remedy.order_id) if remedy and remedy.is_open else None
    if order is not None:
        wait_for_look_up(order)
