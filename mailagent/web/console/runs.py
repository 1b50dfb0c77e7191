"""Runs: what DBOS recorded beside what the rows say; and replaying them."""

from __future__ import annotations

from typing import Any, cast

from flask import Blueprint, Response, redirect, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.replay import effect_of, plan_replay, tell_reach, tell_rows
from mailagent.domain.text import is_one_line, tell_error
from mailagent.engine import (
    FAILED,
    QUEUE_OF,
    SCHEDULED,
    STATUSES,
    RecordedStep,
    Refusal,
    ReplayRefused,
    Run,
    RunFilter,
    first_step_to_repeat,
    parse_position,
    position_of,
)
from mailagent.store import audit
from mailagent.store.console import run_subjects
from mailagent.web.console.labels import (
    REFUSALS,
    STATES,
    WORKFLOWS,
    output_of,
    path_of_run,
    paths_of,
)
from mailagent.web.console.page import address, day_after, not_found, page, parse_day, typed
from mailagent.web.console.run_steps import with_text
from mailagent.web.guard import current_person, needs

blueprint = Blueprint("ops_runs", __name__)

PAGE_SIZE = 50
FILTERS = ("status", "workflow", "about", "from", "to")
LONGEST_ID = 300

# "failed" is what people look for: DBOS has two states for it.
_GROUPS = {"failed": tuple(sorted(FAILED))}

DONE = {
    "rewound": "The run is queued again; a worker takes it up within a second or two.",
    "forked": "A new run was started with a copy of this one's history.",
    "stopped": "The run ends before its next step. Its rows stay as they are.",
}


@blueprint.get("/ops/runs")
@needs(Permission.RUNS)
def list_runs() -> Response:
    """List runs, newest first."""
    facts = {name: typed(name) for name in FILTERS}
    after = parse_position(typed("after"))
    found = services.current().workflow_client.runs.list_page(_wanted(facts, after), PAGE_SIZE + 1)
    shown = found[:PAGE_SIZE]
    older = {**facts, "after": position_of(shown[-1])} if len(found) > PAGE_SIZE else None
    return page(
        "ops/runs.html",
        runs=[_line(run) for run in shown],
        facts=facts,
        filtered=any(facts.values()),
        statuses=[(name, STATES[name][0]) for name in STATUSES],
        workflows=WORKFLOWS,
        now=services.current().now(),
        newer=address("/ops/runs", facts) if after else None,
        older=address("/ops/runs", older) if older else None,
    )


def _wanted(facts: dict[str, str], after: str | None) -> RunFilter:
    status, workflow = facts["status"], facts["workflow"]
    statuses = _GROUPS.get(status) or ((status,) if status in STATUSES else ())
    workflows = (workflow,) if workflow in WORKFLOWS else (*QUEUE_OF,)
    if status == "failed" and not workflow:
        workflows = (*QUEUE_OF, *SCHEDULED)
    return RunFilter(
        statuses=statuses,
        workflows=workflows,
        about=facts["about"] or None,
        since=parse_day(facts["from"]),
        before=day_after(parse_day(facts["to"])),
        after=after,
    )


def _line(run: Run) -> dict[str, Any]:
    words, kind = STATES.get(run.status, (run.status, ""))
    return {
        "run": run,
        "path": path_of_run(run.run_id),
        "workflow": WORKFLOWS.get(run.workflow, run.workflow),
        "state": words,
        "kind": kind,
        "error": tell_error(run.error) if run.has_failed else "",
    }


@blueprint.get("/ops/runs/<run_id>")
@needs(Permission.RUNS)
def show(run_id: str) -> Response:
    """Show a run: DBOS's state beside that of its row, and every recorded step."""
    run = find(run_id)
    if run is None:
        return not_found("run")
    return show_run(run, done=DONE.get(request.args.get("done", "")))


def find(run_id: str) -> Run | None:
    """Return a run with its steps; None for one that DBOS does not know, or cannot."""
    if len(run_id) > LONGEST_ID or not is_one_line(run_id):
        return None
    return services.current().workflow_client.runs.find_run(run_id, with_steps=True)


def show_run(
    run: Run, done: str | None = None, refused: str | None = None, status: int = 200
) -> Response:
    """Return the page of a run; `done` or `refused` says what came of what its reader wanted."""
    live = services.current()
    with live.database.snapshot() as connection:
        rows = run_subjects.look(connection, run.subject)
    return page(
        "ops/run.html",
        status,
        **_line(run),
        done=done,
        refused=refused,
        facts=() if rows is None else tell_rows(rows),
        about=paths_of(run),
        forks=[
            (fork, path_of_run(fork.run_id))
            for fork in live.workflow_client.runs.list_forks(run.run_id)
        ],
        origin=path_of_run(run.forked_from) if run.forked_from else None,
        steps=[_step(step) for step in with_text(run.steps)],
        may_replay=run.workflow in QUEUE_OF and not run.is_active,
        may_cancel=run.is_active,
    )


def _step(step: RecordedStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "name": step.name,
        "does": effect_of(step.name).does,
        "started_at": step.started_at,
        "error": tell_error(step.error) if step.error else "",
        "output": output_of(step.output),
    }


# --- replay ---------------------------------------------------------------------------------------


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
        rows = run_subjects.look(connection, run.subject)
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
        number=len(live.workflow_client.runs.list_forks(run_id)) + 1,
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
    _, fork_id = services.current().workflow_client.replays.fork_run(run.run_id, start, wanted)
    return {"fork": fork_id}


def _rewind(run: Run, start: int, seen: str | None) -> dict[str, Any]:
    if not run.is_active and seen != _seen(run):
        raise ReplayRefused(Refusal.MOVED_ON, f"run {run.run_id} has run since it was looked at")
    services.current().workflow_client.replays.replay_run(run.run_id, start)
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
        services.current().workflow_client.replays.cancel_run(run_id)
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
