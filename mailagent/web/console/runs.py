"""Runs of the workflows: what DBOS recorded beside what the rows say. Replaying one is in `replay`."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from mailagent import services
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.failure import tell_error
from mailagent.domain.operations.rows_now import tell_rows
from mailagent.domain.operations.step_effects import effect_of
from mailagent.domain.typed_text import is_one_line
from mailagent.engine import (
    FAILED,
    QUEUE_OF,
    SCHEDULED,
    STATUSES,
    RecordedStep,
    Run,
    RunFilter,
    parse_position,
    position_of,
)
from mailagent.store.console import rows_now
from mailagent.web.console.pages import not_found, page
from mailagent.web.console.paging import address, day_after, parse_day, typed
from mailagent.web.console.recorded import with_words
from mailagent.web.console.run_words import STATES, WORKFLOWS, output_of, path_of_run, paths_of
from mailagent.web.guard import needs

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
    found = services.current().doorbell.list_page(_wanted(facts, after), PAGE_SIZE + 1)
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
    return services.current().doorbell.find_run(run_id, with_steps=True)


def show_run(
    run: Run, done: str | None = None, refused: str | None = None, status: int = 200
) -> Response:
    """Return the page of a run; `done` or `refused` says what came of what its reader wanted."""
    live = services.current()
    with live.database.snapshot() as connection:
        rows = rows_now.look(connection, run.subject)
    return page(
        "ops/run.html",
        status,
        **_line(run),
        done=done,
        refused=refused,
        facts=() if rows is None else tell_rows(rows),
        about=paths_of(run),
        forks=[(fork, path_of_run(fork.run_id)) for fork in live.doorbell.list_forks(run.run_id)],
        origin=path_of_run(run.forked_from) if run.forked_from else None,
        steps=[_step(step) for step in with_words(run.steps)],
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
