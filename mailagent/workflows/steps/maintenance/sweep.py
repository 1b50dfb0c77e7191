"""Effects of the sweep: take over runs, let throttled mail in, enqueue mail that waits, purge raw mail.

A conversation's run that failed or was cancelled is left alone: it is an operator's, until the mail's
time is up; but not one that failed because the database was away for too long. Refunds and mail of ours
are in `neglected`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta

from mailagent import services
from mailagent.domain.mail.message import Identity
from mailagent.domain.operations.retry import MOST_WAKE_UPS
from mailagent.engine import Run
from mailagent.store.database import Row
from mailagent.store.mail import inbound
from mailagent.store.operations import workers
from mailagent.workflows.recovery import take_over
from mailagent.workflows.steps.conversation import absence, loop_guard
from mailagent.workflows.steps.maintenance import flood, overdue
from mailagent.workflows.steps.maintenance.housekeeping import PAUSE_SECONDS, Clock
from mailagent.workflows.steps.maintenance.rows import see_to_each, see_to_waiting
from mailagent.workflows.steps.recording import step


@step
def take_over_runs() -> int:
    """Queue the runs again whose worker has not been seen for a while: it was killed, or cut off.

    Every worker does so at each of its beats; this is for the case that none of them comes to it.
    """
    taken = take_over()
    with services.current().database.transaction() as connection:
        workers.forget(connection)
    return taken


@step
def release_throttled_mail() -> int:
    """See to throttled mail: what the loop guard stopped and what waited too long goes to people, of the rest
    the oldest is let in. Returns how many mails were let in."""
    loop_guard.tell_people_of_stopped_mail()
    flood.give_overdue_to_people()
    return flood.let_in()


@step
def enqueue_mail() -> int:
    """Enqueue unanswered mail without a run; what waits too long goes to people, who are also reminded
    of drafts that wait for them. Mail that was put off is brought back bit by bit."""
    overdue.remind()
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.sweep_after_seconds)
    deadlines = overdue.find_deadlines()
    late: list[Row] = []
    seen_to = see_to_waiting(
        lambda connection, limit, after: inbound.list_waiting(connection, before, limit, after),
        lambda row: str(row.mail_id),
        _runs_to_look_at,
        lambda row, runs: _see_to_mail(row, runs, deadlines, late),
    )
    return seen_to + overdue.give_to_people(late) + _bring_back()


def _runs_to_look_at(row: Row) -> list[str]:
    """Return the run of a mail; none of one that was put off, which is brought back apart."""
    return [row.run_id] if row.run_id and (not row.put_off or _is_given_up(row)) else []


def _is_given_up(row: Row) -> bool:
    # An absent provider is no reason to give mail up before its time.
    return bool(row.wake_ups - row.put_off >= MOST_WAKE_UPS)


def _see_to_mail(
    row: Row, runs: Mapping[str, Run], deadlines: overdue.Deadlines, late: list[Row]
) -> int:
    """Enqueue a mail if nobody is at it; note among `late` what is for people."""
    run = runs.get(row.run_id)
    at_work = run is not None and run.is_active
    if deadlines.are_over(row) or (_is_given_up(row) and not at_work):
        late.append(row)
        return 0
    return 0 if row.put_off or not _is_over(run) else _enqueue(row)


def _is_over(run: Run | None) -> bool:
    return run is None or run.status == "SUCCESS" or run.outlasted


def _enqueue(row: Row) -> int:
    live = services.current()
    with live.database.transaction() as connection:
        run_id = live.workflow_client.queue.enqueue_conversation(
            connection,
            row.conversation_id,
            row.mail_id,
            row.wake_ups + 1,
            proven=Identity(row.identity).proven,
        )
        inbound.count_wake_up(connection, row.mail_id, run_id)
    return 1


def _bring_back() -> int:
    """Enqueue mail that was put off because the model's provider was away, as far as it is due."""
    due = absence.list_to_bring_back(_is_over)
    return see_to_each(due, lambda row: str(row.mail_id), _enqueue)


# A sweep must be over well within its minute. What is left is the next minute's.
RAW_SECONDS = 10.0
# In a transaction; on SQLite a delete holds up every other writer, and one mail may have 40 MB. So a few at
# first, and more as long as they go quickly.
RAW_MAILS_AT_FIRST, RAW_MAILS_AT_MOST = 20, 320
RAW_BATCH_SECONDS = 0.1


@step
def purge_raw_mail() -> int:
    """Delete raw bytes of mail that are older than they may be kept; what was read of it stays."""
    live = services.current()
    before, clock = live.now() - live.waits.raw_mail_kept, Clock(RAW_SECONDS)
    purged, limit = 0, RAW_MAILS_AT_FIRST
    while not clock.is_over():
        began = time.monotonic()
        with live.database.transaction() as connection:
            batch = inbound.purge_raw(connection, before, limit)
        purged += batch
        if batch < limit:
            break
        limit = size_after(limit, time.monotonic() - began)
        time.sleep(PAUSE_SECONDS)
    return purged


def size_after(limit: int, seconds: float) -> int:
    """Return how many raw mails the next transaction may delete, after so many took so long."""
    if seconds > RAW_BATCH_SECONDS:
        return max(limit // 2, 1)
    return min(limit * 2, RAW_MAILS_AT_MOST) if seconds < RAW_BATCH_SECONDS / 2 else limit
