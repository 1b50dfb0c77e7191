"""`flask runs …`: list, show, replay, fork and cancel workflow runs."""

from __future__ import annotations

import json
from typing import Any

import click

from mailagent import services
from mailagent.cli.actor import record_act
from mailagent.cli.printing import (
    AS_JSON,
    Commands,
    columns,
    limit,
    one_line,
    print_json,
    print_records,
)
from mailagent.domain.operations.replay import ReplayPlan, plan_replay
from mailagent.domain.text import tell_error
from mailagent.engine import QUEUE_OF, STATUSES
from mailagent.engine.replay import ReplayRefused
from mailagent.engine.run import Run, RunFilter, first_step_to_repeat, no_such_run, tell_failure
from mailagent.store.console import run_subjects

runs = Commands("runs", help="Workflow runs.")


@runs.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs in this state.")
@click.option("--about", help="Only runs about this conversation, order, refund, mail or customer.")
@AS_JSON
@limit("newest first")
def list_runs(status: str | None, about: str | None, as_json: bool, limit: int) -> None:
    """List runs, newest first."""
    wanted = RunFilter(statuses=(status,) if status else (), about=about)
    found = services.current().workflow_client.runs.list_page(wanted, limit)
    shown = "run_id workflow status created_at error"
    print_records([_record(run) for run in found], shown, "There are no runs.", as_json=as_json)


@runs.command("show")
@click.argument("run_id")
@AS_JSON
def show_run(run_id: str, as_json: bool) -> None:
    """Show a run with its steps, and what a replay would do."""
    run = services.current().workflow_client.runs.find_run(run_id, with_steps=True)
    if run is None:
        raise click.ClickException(no_such_run(run_id))
    if as_json:
        print_json(_record(run))
        return
    click.echo(f"{run.run_id}  {run.workflow} of {run.subject}  {run.status}")
    with services.current().database.snapshot() as connection:
        known = run_subjects.list_subjects(connection, [run.subject]).get(run.subject)
    if known:
        click.echo(f"about: {known.tell_masked()}")
    if run.was_taken_over:
        click.echo(f"taken over: {run.attempts} workers have begun it, one after the other")
    for step in run.steps:
        shown = (
            f"ERROR {tell_error(step.error)}"
            if step.error
            else json.dumps(step.output, ensure_ascii=False)
        )
        click.echo(f"  {step.number:3}  {step.name:18}  {one_line(shown)[:120]}")
    if run.has_failed:
        click.echo(f"failed: {tell_failure(run)}")
    if not run.is_active and run.workflow in QUEUE_OF:
        click.echo(_what_a_replay_does(run, None))


FROM_STEP = click.option(
    "--from-step", type=int, help="Repeat from this step (default: the failed one)."
)


@runs.command("replay")
@click.argument("run_id")
@FROM_STEP
def replay_run(run_id: str, from_step: int | None) -> None:
    """Run a finished run again under its id. No mail and no money goes out twice."""
    try:
        run = services.current().workflow_client.replays.replay_run(run_id, from_step)
    except ReplayRefused as refusal:
        raise click.ClickException(str(refusal)) from None
    record_act("run rewound", run_id, {"from_step": _start(run, from_step)})
    click.echo(_what_a_replay_does(run, from_step))
    click.echo(f"Run {run_id} is queued again; a worker starts it within two seconds.")


@runs.command("fork")
@click.argument("run_id")
@FROM_STEP
def fork_run(run_id: str, from_step: int | None) -> None:
    """Start a new run with a copy of a finished run's history. The original stays as it is."""
    try:
        run, fork_id = services.current().workflow_client.replays.fork_run(run_id, from_step)
    except ReplayRefused as refusal:
        raise click.ClickException(str(refusal)) from None
    record_act("run forked", run_id, {"from_step": _start(run, from_step), "fork": fork_id})
    click.echo(_what_a_replay_does(run, from_step))
    click.echo(
        f"Run {fork_id} is queued, a fork of {run_id}; `flask runs show {fork_id}` shows it."
    )


@runs.command("cancel")
@click.argument("run_id")
def cancel_run(run_id: str) -> None:
    """Cancel an active run. Its rows stay as they are; you can replay it later."""
    try:
        run = services.current().workflow_client.replays.cancel_run(run_id)
    except ReplayRefused as refusal:
        raise click.ClickException(str(refusal)) from None
    record_act("run stopped", run_id, {"status": run.status})
    click.echo(
        f"Run {run_id} ({run.workflow} of {run.subject}) ends before its next step. "
        f"`flask runs replay {run_id}` starts it again."
    )


def _what_a_replay_does(run: Run, from_step: int | None) -> str:
    live = services.current()
    with live.database.snapshot() as connection:
        found = run_subjects.look(connection, [run.subject], source_name=live.order_source_name)
    rows = found.get(run.subject)
    return "\n".join(_tell(plan_replay(run.workflow, run.steps, _start(run, from_step), rows)))


def _start(run: Run, from_step: int | None) -> int:
    return from_step if from_step is not None else first_step_to_repeat(run)


def _tell(plan: ReplayPlan) -> list[str]:
    kept = ", ".join(step.name for step in plan.kept)
    lines = [f"A replay from step {plan.start} keeps: {kept or 'nothing'}"]
    lines.append("and runs again:" if plan.again else "and runs again: the steps after them.")
    lines += [f"  {step.number:3}  {step.name:18}  {step.does}" for step in plan.again]
    return [*lines, *plan.reach, *plan.facts]


def _record(run: Run) -> dict[str, Any]:
    names = "run_id workflow subject status created_at updated_at worker_id forked_from attempts output error"
    return {
        **columns(run, names),
        "attributes": dict(run.attributes),
        "steps": [
            {"step": step.number, **columns(step, "name output error started_at")}
            for step in run.steps
        ],
    }
