"""Replaying a run, and stopping one: what it will do is said before the button, and one click does it once."""

from __future__ import annotations

from typing import Any, cast

from flask import Blueprint, Response, redirect, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.replay_plan import plan_replay, tell_reach
from mailagent.engine import QUEUE_OF, Refusal, ReplayRefused, Run, first_step_to_repeat
from mailagent.store import audit
from mailagent.store.console import rows_now
from mailagent.web.console.pages import not_found, page
from mailagent.web.console.run_words import REFUSALS, path_of_run
from mailagent.web.console.runs import find, show_run
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_replay", __name__)


@blueprint.get("/ops/runs/<run_id>/replay")
@needs(Permission.RUNS)
def preview(run_id: str) -> Response:
    """Show what a replay from a step keeps, does again and comes to. It starts nothing."""
    run = find(run_id)
    if run is None or run.workflow not in QUEUE_OF:
        return not_found("run")
    last = max((step.number for step in run.steps), default=0)
    start = _step_asked(request.args.get("from_step"), last) or first_step_to_repeat(run)
    live = services.current()
    with live.database.snapshot() as connection:
        rows = rows_now.look(connection, run.subject)
    plan = plan_replay(run.workflow, run.steps, start, rows)
    return page(
        "ops/replay.html",
        run=run,
        path=path_of_run(run.run_id),
        plan=plan,
        reach=tell_reach(plan),
        choices=[
            *((step.number, step.name) for step in run.steps),
            (last + 1, "after the last step"),
        ],
        seen=_seen(run),
        number=len(live.doorbell.list_forks(run_id)) + 1,
    )


def _step_asked(text: str | None, last: int) -> int | None:
    """Return the step that an address or a form names, or None for none that a replay can begin with."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 9:
        return None
    return int(text) if 1 <= int(text) <= last + 1 else None


@blueprint.post("/ops/runs/<run_id>/replay")
@needs(Permission.RUNS)
def replay(run_id: str) -> Response:
    """Rewind a run in place, or fork it. A second click finds that the first one has done it."""
    run = find(run_id)
    if run is None:
        return not_found("run")
    form = request.form
    start = _step_asked(form.get("from_step"), max((step.number for step in run.steps), default=0))
    if start is None:
        return show_run(run, refused="The run has no such step. Nothing was started.", status=409)
    try:
        if form.get("how") == "fork":
            done, details = "forked", _fork(run, start, form.get("number"))
        else:
            done, details = "rewound", _rewind(run, start, form.get("seen"))
    except ReplayRefused as refusal:
        return _refused(run_id, run, refusal)
    _record(f"run {done}", run_id, {"from_step": start, **details})
    return _back(run_id, done)


def _fork(run: Run, start: int, number: str | None) -> dict[str, Any]:
    wanted = int(number) if number and number.isascii() and number.isdigit() else 0
    _, fork_id = services.current().doorbell.fork_run(run.run_id, start, wanted)
    return {"fork": fork_id}


def _rewind(run: Run, start: int, seen: str | None) -> dict[str, Any]:
    if not run.is_active and seen != _seen(run):
        raise ReplayRefused(Refusal.MOVED_ON, f"run {run.run_id} has run since it was looked at")
    services.current().doorbell.replay_run(run.run_id, start)
    return {}


def _seen(run: Run) -> str:
    """Return what a form holds of a run, to tell whether it has run since: DBOS's time of its last change,
    and how often people acted on it, because on SQLite that time has whole seconds only."""
    with services.current().database.snapshot() as connection:
        acts = audit.count_of(connection, run.run_id)
    return f"{run.updated_at.timestamp():.3f}-{acts}"


@blueprint.post("/ops/runs/<run_id>/cancel")
@needs(Permission.RUNS)
def cancel(run_id: str) -> Response:
    """Stop a run before its next step. Its rows stay as they are."""
    run = find(run_id)
    if run is None:
        return not_found("run")
    try:
        services.current().doorbell.cancel_run(run_id)
    except ReplayRefused as refusal:
        return _refused(run_id, run, refusal)
    _record("run stopped", run_id, {"status": run.status})
    return _back(run_id, "stopped")


def _refused(run_id: str, run: Run, refusal: ReplayRefused) -> Response:
    return show_run(find(run_id) or run, refused=REFUSALS[refusal.refusal], status=409)


def _record(action: str, run_id: str, details: dict[str, Any]) -> None:
    live = services.current()
    with live.database.transaction() as connection:
        audit.record(connection, live.now(), current_person().email, action, run_id, details)


def _back(run_id: str, done: str) -> Response:
    return cast(Response, redirect(f"{path_of_run(run_id)}?done={done}", 303))
