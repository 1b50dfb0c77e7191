"""What operators are told by mail: runs that failed, rows that the sweep cannot see to. Once each.

What is wrong for everybody is in `incidents`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from mailagent import engine, services
from mailagent.domain.mail.message import Purpose
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.text import tell_error
from mailagent.engine import Run, subject_of
from mailagent.store import audit
from mailagent.store.mail import outbound
from mailagent.store.operations import incidents
from mailagent.workflows.steps.maintenance.incidents import update_incidents
from mailagent.workflows.steps.notices import tell_operators
from mailagent.workflows.steps.recording import step

# What failed while no sweep ran for longer than this is in `flask runs list` only.
LOOK_BACK = timedelta(days=3)
RUNS_IN_ONE_MAIL = 20
# Of runs that are refused at the same moment one opens the incident; the others were asked before.
SAME_INCIDENT = timedelta(hours=1)
RUNS_AT_ONCE = 500


@step
def report_failed_runs() -> int:
    """Mail the operators about runs that failed and that they have not been told of, in one mail; and about
    matters that hold up many. Runs that fail by such an incident are no news of their own."""
    live = services.current()
    update_incidents()
    with live.database.snapshot() as connection:
        failed = live.workflow_client.runs.list_failed(connection, live.now() - LOOK_BACK)
        untold = _without_told(connection, failed)[:RUNS_AT_ONCE]
    runs = live.workflow_client.runs.find_runs(untold)
    with live.database.transaction() as connection:
        by_subject = {subject_of(run): run for run in reversed(list(runs.values()))}
        told = audit.told(connection, list(by_subject))
        fresh = [run for incident, run in by_subject.items() if incident not in told]
        for subject in {*by_subject, *runs} - told:
            audit.record(connection, live.now(), audit.CLOCK, audit.TOLD, subject)
        known = _failed_by_known_incident(connection)
        to_tell = [
            run
            for run in fresh
            if run.run_id not in known and not _carries_a_notice(connection, run)
        ]
        if to_tell:
            _tell(connection, sorted(to_tell, key=lambda run: run.updated_at))
    return len(to_tell)


def _without_told(connection: sa.Connection, run_ids: Sequence[str]) -> list[str]:
    told: set[str] = set()
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        told |= audit.told(connection, run_ids[start : start + RUNS_AT_ONCE])
    return [run_id for run_id in run_ids if run_id not in told]


def _failed_by_known_incident(connection: sa.Connection) -> set[str]:
    """Return the runs that fail because the model's provider refuses us, as operators know already."""
    refused = incidents.find_open(connection, IncidentKind.OPENAI)
    if refused is None:
        return set()
    return incidents.runs_refused_by_model(connection, refused.since - SAME_INCIDENT)


def _carries_a_notice(connection: sa.Connection, run: Run) -> bool:
    """Whether the run was to deliver a notice: telling of it would be one more to deliver."""
    if run.workflow != engine.DELIVERY:
        return False
    return outbound.load(connection, run.subject).purpose is Purpose.NOTICE


def _tell(connection: sa.Connection, runs: Sequence[Run]) -> None:
    first = runs[0]
    title = f"Run {first.run_id} has failed" if len(runs) == 1 else f"{len(runs)} runs have failed"
    lines = [line for run in runs[:RUNS_IN_ONE_MAIL] for line in _lines(run)]
    if len(runs) > RUNS_IN_ONE_MAIL:
        lines.append(f"{len(runs) - RUNS_IN_ONE_MAIL} more: flask runs list --status ERROR")
    tell_operators(connection, title, lines, f"failed:{first.run_id}")


def _lines(run: Run) -> list[str]:
    told = f"{run.run_id}, {run.status}, of {run.subject}: {tell_error(run.error)}"
    if run.workflow == engine.SWEEP:
        return [told, "Rows that wait may not be enqueued until this is put right: see the log."]
    if run.workflow == engine.HOUSEKEEPING:
        return [told, "Old data is not deleted until this is put right: see the log."]
    if run.workflow == engine.PREVIEWS:
        return [told, "Pages show no new photos until this is put right: see the log."]
    return [told, f"flask runs show {run.run_id}", f"flask runs replay {run.run_id}"]


def tell_of_row(row_id: str, error: str) -> None:
    """Tell the operators, once, that the sweep cannot see to a row."""
    live = services.current()
    with live.database.transaction() as connection:
        if audit.told(connection, [row_id]):
            return
        audit.record(connection, live.now(), audit.CLOCK, audit.TOLD, row_id)
        title = f"The sweep cannot see to {row_id}"
        tell_operators(
            connection, title, [tell_error(error), "The log says more."], f"row:{row_id}"
        )
