"""Tasks: what customers asked for that people of the shop do, ticked off one by one."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, abort, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.refunds.labels import MANAGER_REASONS, REFUND_REASONS
from mailagent.domain.refunds.policy import ManagerReason
from mailagent.domain.refunds.refund import RefundReason
from mailagent.domain.remedies.labels import REMEDY_KINDS, REMEDY_STATES
from mailagent.domain.remedies.remedy import OPEN, Remedy, RemedyStatus, TaskProblem
from mailagent.remedies import find_waiting, finish
from mailagent.store.refunds import remedies
from mailagent.web.console.page import go_to, page, pages_beside, read_window, redact, typed
from mailagent.web.guard import current_person, needs
from mailagent.web.language import translate

blueprint = Blueprint("ops_tasks", __name__)

PATH = "/ops/tasks"
_OPEN = [each.value for each in RemedyStatus if each in OPEN]
_ENDED = [each.value for each in RemedyStatus if each not in OPEN]


@blueprint.get("/ops/tasks")
@needs(Permission.TASKS)
def show() -> Response:
    """Show the tasks that wait, the oldest first; or those that ended."""
    return _page()


def _page(problem: str = "") -> Response:
    is_open = request.args.get("state") != "ended"
    statuses = _OPEN if is_open else _ENDED
    live = services.current()
    with live.database.snapshot() as connection:
        part = remedies.read(connection, statuses, read_window(newest_first=not is_open))
        tasks = [_shown(connection, each) for each in part.rows]
    return page(
        "ops/tasks.html",
        422 if problem else 200,
        tasks=tasks,
        is_open=is_open,
        problem=problem,
        now=live.now(),
        **pages_beside(part, PATH, {} if is_open else {"state": "ended"}),
    )


def _shown(connection: sa.Connection, remedy: Remedy) -> dict[str, Any]:
    """Return a task with its labels, and the refund that is decided first."""
    why = [translate(MANAGER_REASONS[ManagerReason(each)]) for each in remedy.policy_reasons]
    return {
        "remedy": remedy,
        "kind": translate(REMEDY_KINDS[remedy.kind]),
        "state": translate(REMEDY_STATES[remedy.status]),
        "reason": translate(REFUND_REASONS[RefundReason(remedy.reason)]) if remedy.reason else "",
        "wish": redact(remedy.wish or ""),
        "needs_manager": why,
        "waiting": find_waiting(connection, remedy) if remedy.is_open else None,
        "may_do": remedy.status is not RemedyStatus.ASKED
        and (not why or current_person().is_manager),
    }


@blueprint.post("/ops/tasks/<remedy_id>")
@needs(Permission.TASKS)
def decide(remedy_id: str) -> Response:
    """Record that a task is done, or not possible, as the pressed button says. The customer gets a mail."""
    is_done, note = "done" in request.form, typed("note", request.form) or None
    if is_done == ("fail" in request.form):
        abort(400)  # it moves money: no form without one button
    try:
        with services.current().database.transaction() as connection:
            finish(connection, remedy_id, current_person().email, is_done, note)
    except TaskProblem as problem:
        return _page(translate(str(problem)))
    return go_to(PATH)
