"""The step that mails operators about runs that failed, once for each."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa

from mailagent import engine, services
from mailagent.domain.mail.message import Purpose
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.text import tell_moment
from mailagent.engine.run import Run, subject_of
from mailagent.store import audit
from mailagent.store.console import dismissals, run_subjects
from mailagent.store.console.run_subjects import Subject
from mailagent.store.errors import is_outage
from mailagent.store.operations import incidents
from mailagent.workflows.steps.maintenance.incidents import update_incidents
from mailagent.workflows.steps.maintenance.rows import process_each
from mailagent.workflows.steps.notices import explain_failure, tell_operators
from mailagent.workflows.steps.recording import step

logger = logging.getLogger(__name__)

# Earlier failures are in `flask runs list` only.
LOOK_BACK = timedelta(days=3)
RUNS_IN_ONE_MAIL = 20
# Runs that were refused this long before an incident opened belong to it: the first refusals do not open it.
SAME_INCIDENT = timedelta(hours=1)
RUNS_AT_ONCE = 500
# What goes wrong while a scheduled workflow fails.
_WITHOUT = {
    engine.SWEEP: "Rows that wait may not be enqueued",
    engine.HOUSEKEEPING: "Old data is not deleted",
    engine.PREVIEWS: "Pages show no new photos",
    engine.SHADOW: "The shadow compares no mail",
    engine.LOOK_UP: "The page of a refund, or a task, may show an order as it was before",
}
# What to do about several runs, above the link to the page that replays all but scheduled ones together.
_TOGETHER = (
    "Put right what the reasons name, then replay together all that failed for one reason, by the link below."
    " No mail and no payment is made twice."
)


@step
def report_failed_runs() -> int:
    """Open and close incidents, and mail the operators about newly failed runs, in one mail. Runs that the
    model's provider refused in an open incident are left out. Returns how many runs the mail is about."""
    live = services.current()
    update_incidents()
    with live.database.snapshot() as connection:
        since = live.now() - LOOK_BACK
        failed = live.workflow_client.tables.list_failed(connection, since, dismissals.where_open)
        untold = _without_told(connection, failed)[:RUNS_AT_ONCE]
    found = live.workflow_client.runs
    runs = [
        (found.find_run(run.run_id, with_steps=True) or run)
        if run.status == engine.GIVEN_UP
        else run
        for run in found.find_runs(untold).values()
    ]
    try:
        return _report(runs)
    except Exception as error:
        if is_outage(error):
            raise
        logger.exception("event=report_failed: cannot report failed runs in one mail")
        return process_each(runs, lambda run: run.run_id, lambda run: _report([run]))


def _report(runs: Sequence[Run]) -> int:
    live = services.current()
    with live.database.transaction() as connection:
        by_subject = {subject_of(run): run for run in reversed(runs)}
        told = audit.told(connection, list(by_subject))
        for subject in {*by_subject, *(run.run_id for run in runs)} - told:
            audit.record(connection, live.now(), audit.CLOCK, audit.TOLD, subject)
        known = _failed_by_known_incident(connection)
        about = run_subjects.list_subjects(connection, {run.subject for run in runs})
        to_tell = [
            run
            for subject, run in by_subject.items()
            if not (subject in told or run.run_id in known or _delivers_notice(run, about))
        ]
        if to_tell:
            _tell(connection, sorted(to_tell, key=lambda run: run.updated_at), about)
    return len(to_tell)


def _without_told(connection: sa.Connection, run_ids: Sequence[str]) -> list[str]:
    told: set[str] = set()
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        told |= audit.told(connection, run_ids[start : start + RUNS_AT_ONCE])
    return [run_id for run_id in run_ids if run_id not in told]


def _failed_by_known_incident(connection: sa.Connection) -> set[str]:
    """Return the runs that failed because the model's provider refuses us, which operators know."""
    refused = incidents.find_open(connection, IncidentKind.OPENAI)
    if refused is None:
        return set()
    return incidents.runs_refused_by_model(connection, refused.since - SAME_INCIDENT)


def _delivers_notice(run: Run, about: Mapping[str, Subject]) -> bool:
    # A notice about a failed notice would fail, too.
    known = about.get(run.subject)
    return run.workflow == engine.DELIVERY and known is not None and known.what == Purpose.NOTICE


def _tell(connection: sa.Connection, runs: Sequence[Run], known: Mapping[str, Subject]) -> None:
    first, base = runs[0], f"{services.current().shop.public_url}/ops"
    shown = [(run, known.get(run.subject)) for run in runs[:RUNS_IN_ONE_MAIL]]
    if len(runs) == 1:
        about, path = known.get(first.subject), f"{base}/runs/{first.run_id}"
        order = about.tell_order() if about else ""
        title = f"Run {f'for {order}' if order else first.run_id} has failed"
        lines = [*_lines(first, about), *_what_to_do(first)]
        button = ("See what a replay does, then run it again", f"{path}/replay")
        if first.workflow in engine.SCHEDULED:
            button = ("Look at the run", path)
    else:
        title = f"{len(runs)} runs have failed"
        lines = [
            line
            for run, about in shown
            for line in (*_lines(run, about), f"{base}/runs/{run.run_id}")
        ]
        scheduled = [run for run in runs if run.workflow in engine.SCHEDULED]
        lines += dict.fromkeys(line for run in scheduled for line in _what_to_do(run))
        button = ("See the runs that have failed", f"{base}/runs?status=failed")
        if len(scheduled) < len(runs):
            lines.append(_TOGETHER)
            button = ("See what failed for one reason, and replay it together", f"{base}/replays")
    if len(runs) > RUNS_IN_ONE_MAIL:
        lines.append(f"{len(runs) - RUNS_IN_ONE_MAIL} more: {base}/runs?status=failed")
    tell_operators(connection, title, lines, f"failed:{first.run_id}", button)


def _lines(run: Run, known: Subject | None) -> list[str]:
    about = f", {known.tell_masked()}" if known else ""
    what = f"{run.run_id}, of {run.subject or 'the schedule'}{about}"
    since = f"Since {tell_moment(run.updated_at)}"
    taken_over = f" ({run.attempts} workers have begun it)" if run.was_taken_over else ""
    return [what, f"{since}: {explain_failure(run)}{taken_over}"]


def _what_to_do(run: Run) -> list[str]:
    if run.workflow in _WITHOUT:
        return [f"{_WITHOUT[run.workflow]} until this is put right: see the log."]
    if run.status == engine.GIVEN_UP:
        do = "Find out in the log why its worker died, then run it again."
    elif run.outlasted:
        do = "When the database works again, run it again."
    elif run.is_bug:
        do = (
            "This is a mistake in the program or in its data: have it corrected, then run it again."
        )
    else:
        do = "Put right what the reason names, then run it again."
    return [
        do,
        *_without_a_repair(run),
        "No mail and no payment is made twice.",
        f"By a shell: flask runs replay {run.run_id}",
    ]


def _without_a_repair(run: Run) -> list[str]:
    if run.workflow != engine.CONVERSATION:
        return []
    live = services.current()
    hours = live.waits.unanswered_seconds / 3600
    return [
        f"If it fails again, take the conversation over: {live.shop.public_url}/ops/conversations/"
        f"{run.subject}. Mail that is not answered goes to the team after {hours:g} hours."
    ]
