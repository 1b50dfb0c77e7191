"""Pages of runs: their records in DBOS, and the state of their rows. Also replays and cancels them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.replay import (
    RecordedStep,
    RowsNow,
    effect_of,
    plan_replay,
    tell_rows,
)
from mailagent.domain.text import tell_error
from mailagent.engine import FAILED, QUEUE_OF, SCHEDULED, STATUSES
from mailagent.engine.reasons import reason_key
from mailagent.engine.replay import Refusal, ReplayRefused
from mailagent.engine.run import (
    Run,
    RunFilter,
    first_step_to_repeat,
    parse_position,
    position_of,
    tell_failure,
)
from mailagent.store import audit
from mailagent.store.console import run_subjects
from mailagent.store.console.run_subjects import Subject
from mailagent.web.console.labels import REFUSALS, RUN_STATES, WORKFLOWS, money, run_path
from mailagent.web.console.lines import is_answered, run_state, what_of
from mailagent.web.console.page import (
    address,
    found,
    go_to,
    not_found,
    page,
    parse_days,
    record_act,
    redact,
    redact_line,
    typed,
)
from mailagent.web.console.run_steps import with_text
from mailagent.web.guard import needs
from mailagent.web.language import _, sentence

blueprint = Blueprint("ops_runs", __name__)

PAGE_SIZE = 50
FILTERS = ("status", "workflow", "about", "from", "to")

DONE = {
    "rewound": "The run is queued again; a worker starts it within a second or two.",
    "forked": "A new run was started with a copy of this one's history.",
    "stopped": "The run ends before its next step. Its rows stay as they are.",
}


@blueprint.get("/ops/runs")
@needs(Permission.RUNS)
def list_runs() -> Response:
    """List runs, newest first."""
    facts = {name: typed(name) for name in FILTERS}
    after = parse_position(typed("after"))
    runs = services.current().workflow_client.runs.list_page(_wanted(facts, after), PAGE_SIZE + 1)
    shown = runs[:PAGE_SIZE]
    with services.current().database.snapshot() as connection:
        known = run_subjects.list_subjects(connection, {run.subject for run in shown})
    older = {**facts, "after": position_of(shown[-1])} if len(runs) > PAGE_SIZE else None
    return page(
        "ops/runs.html",
        runs=[line_of(run, known.get(run.subject)) for run in shown],
        facts=facts,
        filtered=any(facts.values()),
        statuses=[(name, RUN_STATES[name][0]) for name in STATUSES],
        workflows=WORKFLOWS,
        now=services.current().now(),
        newer=address("/ops/runs", facts) if after else None,
        older=address("/ops/runs", older) if older else None,
    )


def _wanted(facts: dict[str, str], after: str | None) -> RunFilter:
    status, workflow = facts["status"], facts["workflow"]
    statuses: tuple[str, ...] = (status,) if status in STATUSES else ()
    workflows = (workflow,) if workflow in WORKFLOWS else (*QUEUE_OF,)
    if status == "failed":  # DBOS has two statuses for it
        statuses = tuple(sorted(FAILED))
        workflows = workflows if workflow else (*QUEUE_OF, *SCHEDULED)
    since, until = parse_days(facts)
    return RunFilter(
        statuses=statuses,
        workflows=workflows,
        about=facts["about"] or None,
        since=since,
        before=until,
        after=after,
    )


def line_of(run: Run, known: Subject | None) -> dict[str, Any]:
    """Return the values that pages show about a run. `known`: the row that it is about."""
    return {
        "about_row": known,
        "what": redact_line(what_of(run.workflow, known)) if known else "",
        "amount": money(known.amount.minor, known.amount.currency)
        if known and known.amount
        else "",
        "run": run,
        "path": run_path(run.run_id),
        "workflow": WORKFLOWS.get(run.workflow, run.workflow),
        "state": run_state(run, known),
        "is_answered": is_answered(run, known),
        "error": tell_failure(run, _) if run.has_failed else "",
    }


@blueprint.get("/ops/runs/<run_id>")
@needs(Permission.RUNS)
def show(run_id: str) -> Response:
    """Show a run: its record in DBOS, the state of its row, and every recorded step."""
    run = _find(run_id)
    done = "" if run.has_failed else request.args.get("done", "")  # it may have failed again
    return show_run(run, done=DONE.get(done))


def _find(run_id: str) -> Run:
    return found(services.current().workflow_client.runs.find_run(run_id, with_steps=True), "run")


def show_run(run: Run, done: str | None = None, refused: str | None = None) -> Response:
    """Return the page of a run; `done` or `refused` is the result of the reader's action."""
    live = services.current()
    with live.database.snapshot() as connection:
        rows = _look(connection, run)
        known = run_subjects.list_subjects(connection, [run.subject]).get(run.subject)
    line = line_of(run, known)
    return page(
        "ops/run.html",
        409 if refused else 200,
        line=line,
        **line,
        done=done,
        refused=refused,
        facts=() if rows is None else tell_rows(rows, sentence),
        about=_paths(run),
        forks=[
            (fork, run_path(fork.run_id))
            for fork in live.workflow_client.runs.list_forks(run.run_id)
        ],
        origin=run_path(run.forked_from) if run.forked_from else None,
        steps=[_step(step) for step in with_text(run.steps)],
        replays=run.replays,
        alike=address("/ops/replays", {"reason": reason_key(run)}) if run.has_failed else None,
        may_replay=run.workflow in QUEUE_OF and not run.is_active,
        may_cancel=run.is_active,
    )


def _step(step: RecordedStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "name": step.name,
        "does": effect_of(step.name),
        "started_at": step.started_at,
        "error": tell_error(step.error) if step.error else "",
        "output": _shown_output(step.output),
    }


def _shown_output(value: Any) -> str:
    """Return a step's output as text, with secret links redacted; empty for no output."""
    if value is None:
        return ""
    return redact(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _paths(run: Run) -> dict[str, str]:
    """Return the pages of the rows that a run is about, by the names of its attributes."""
    about = {**run.attributes}
    kind = run.subject.partition("_")[0]
    if kind in ("conversation", "refund"):
        about.setdefault(kind, run.subject)
    paths = {
        "conversation": "/ops/conversations/",
        "refund": "/ops/refunds/",
        "order": "/ops/runs?about=",
        "customer_hash": "/ops/runs?about=",
    }
    return {name: f"{path}{quote(about[name])}" for name, path in paths.items() if name in about}


def _look(connection: sa.Connection, run: Run) -> RowsNow | None:
    name = services.current().order_source_name
    return run_subjects.look(connection, [run.subject], source_name=name).get(run.subject)


# --- replay ---------------------------------------------------------------------------------------


@blueprint.get("/ops/runs/<run_id>/replay")
@needs(Permission.RUNS)
def preview(run_id: str) -> Response:
    """Show which steps a replay keeps, which it runs again, and what they do. It starts nothing."""
    run = _find(run_id)
    if run.workflow not in QUEUE_OF:
        return not_found("run")
    last = max((step.number for step in run.steps), default=0)
    start = _step_asked(request.args.get("from_step"), last) or first_step_to_repeat(run)
    live = services.current()
    with live.database.snapshot() as connection:
        rows = _look(connection, run)
        known = run_subjects.list_subjects(connection, [run.subject]).get(run.subject)
    plan = plan_replay(run.workflow, run.steps, start, rows, sentence)
    return page(
        "ops/replay.html",
        line=line_of(run, known),
        run=run,
        path=run_path(run.run_id),
        plan=plan,
        choices=[
            *((step.number, step.name) for step in run.steps),
            (last + 1, _("after the last step")),
        ],
        seen=_seen(run),
        number=live.workflow_client.runs.next_fork_number(run_id),
    )


def _step_asked(text: str | None, last: int) -> int | None:
    """Return the number of the step at which the request wants to start; None if a replay cannot start
    there."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 9:
        return None
    return int(text) if 1 <= int(text) <= last + 1 else None


@blueprint.post("/ops/runs/<run_id>/replay")
@needs(Permission.RUNS)
def replay(run_id: str) -> Response:
    """Rewind a run in place, or fork it. A second click changes nothing."""
    run = _find(run_id)
    form, replays = request.form, services.current().workflow_client.replays
    start = _step_asked(form.get("from_step"), max((step.number for step in run.steps), default=0))
    if start is None:
        return show_run(run, refused=REFUSALS[Refusal.NO_SUCH_STEP])
    try:
        if form.get("how") == "fork":
            text = form.get("number", "")
            number = int(text) if text.isascii() and text.isdigit() else 0
            fork_id = replays.fork_run(run_id, start, number)[1]
            return _done(run_id, "run forked", {"from_step": start, "fork": fork_id})
        if not run.is_active and form.get("seen") != _seen(run):
            raise ReplayRefused(Refusal.MOVED_ON, f"run {run_id} has run since the page was opened")
        replays.replay_run(run_id, start)
    except ReplayRefused as refused:
        return _refused(run_id, refused)
    return _done(run_id, "run rewound", {"from_step": start})


def _seen(run: Run) -> str:
    with services.current().database.snapshot() as connection:
        return seen_of(run, audit.count_of(connection, run.run_id))


def seen_of(run: Run, acts: int) -> str:
    """Return a version of a run, by which a form notices a change: DBOS's time of the last change, and the
    number of acts on the run, because on SQLite the time has only whole seconds."""
    return f"{run.updated_at.timestamp():.3f}-{acts}"


@blueprint.post("/ops/runs/<run_id>/cancel")
@needs(Permission.RUNS)
def cancel(run_id: str) -> Response:
    """Stop a run before its next step. Its rows stay as they are."""
    run = _find(run_id)
    try:
        services.current().workflow_client.replays.cancel_run(run_id)
    except ReplayRefused as refused:
        return _refused(run_id, refused)
    return _done(run_id, "run stopped", {"status": run.status})


def _refused(run_id: str, refused: ReplayRefused) -> Response:
    return show_run(_find(run_id), refused=REFUSALS[refused.refusal])


def _done(run_id: str, action: audit.Action, details: dict[str, Any]) -> Response:
    with services.current().database.transaction() as connection:
        record_act(connection, action, run_id, details)
    return go_to(f"{run_path(run_id)}?done={action.removeprefix('run ')}")
