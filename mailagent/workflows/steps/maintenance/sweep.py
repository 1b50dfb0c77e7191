"""Steps of the sweep: recover runs, enqueue unanswered mail, delete raw mail.

If a conversation's run failed or was cancelled, its mail is left to operators until its time is up, unless the
run failed because the database was unavailable for too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from mailagent import services
from mailagent.domain.mail.message import Identity
from mailagent.domain.operations.circuit_breaker import BreakerState, breaker_state
from mailagent.domain.operations.provider import OPENAI
from mailagent.domain.operations.retry import MOST_WAKE_UPS
from mailagent.engine.run import Run
from mailagent.store.database import Row
from mailagent.store.mail import inbound, raw_mail
from mailagent.store.operations import circuit_breakers, workers
from mailagent.workflows.recovery import take_over
from mailagent.workflows.steps.conversation.rate_limit import why_stopped
from mailagent.workflows.steps.maintenance import address_changes, overdue, tasks
from mailagent.workflows.steps.maintenance.housekeeping import Deadline, repeat
from mailagent.workflows.steps.maintenance.rows import process_each, process_waiting
from mailagent.workflows.steps.recording import step

# The page size, and the most mails that a sweep enqueues after the model was unavailable.
BROUGHT_BACK_AT_ONCE = 500


@step
def take_over_runs() -> int:
    """Enqueue again the runs of workers whose lease ended, in case no heartbeat does it. Returns how many."""
    taken = take_over()
    with services.current().database.transaction() as connection:
        workers.forget(connection)
    return taken


# --- unanswered mail --------------------------------------------------------------------------------


@step
def enqueue_mail() -> int:
    """Enqueue unanswered mail without a run. Give people what waits too long, and remind them of drafts and
    tasks. Ask the shop's system to change addresses. Returns how many mails were enqueued or given to
    people."""
    overdue.remind()
    tasks.see_to()
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.sweep_after_seconds)
    deadlines = overdue.find_deadlines()
    late: list[Row] = []
    enqueued = process_waiting(
        lambda connection, limit, after: inbound.list_waiting(connection, before, limit, after),
        lambda row: str(row.mail_id),
        # Mail that was put off is enqueued below.
        lambda row: [row.run_id] if row.run_id and (not row.put_off or _is_given_up(row)) else [],
        lambda row, runs: _process_mail(row, runs, deadlines, late),
    )
    back = process_each(list_to_bring_back(), lambda row: str(row.mail_id), _enqueue)
    given = overdue.give_to_people(late)
    address_changes.see_to()  # last: the shop's system may be slow
    return enqueued + given + back


def _is_given_up(row: Row) -> bool:
    # Wake-ups whose run put the mail off do not count: the mail only waited for a provider.
    return bool(row.wake_ups - row.put_off >= MOST_WAKE_UPS)


def _process_mail(
    row: Row, runs: Mapping[str, Run], deadlines: overdue.Deadlines, late: list[Row]
) -> int:
    """Enqueue a mail that has no run, or add it to `late` if it is for people."""
    run = runs.get(row.run_id)
    is_active = run is not None and run.is_active
    if deadlines.are_over(row) or (_is_given_up(row) and not is_active):
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


def list_to_bring_back() -> list[Row]:
    """Return mails to enqueue again that were put off because the model or order source was unavailable.

    If both breakers are closed: as many as the rate limit allows, customers in turn. If a probe is due: one
    mail, of those put off least often. Leave out mail whose run is active or has failed.
    """
    most, by_turns = _most_to_bring_back()
    due: list[Row] = []
    seen = 0
    while len(due) < most:
        with services.current().database.snapshot() as connection:
            page = inbound.list_put_off(connection, BROUGHT_BACK_AT_ONCE, seen, by_turns)
        run_ids = [row.run_id for row in page if row.run_id]
        runs = services.current().workflow_client.runs.find_latest(run_ids)
        due += [row for row in page if _is_over(runs.get(row.run_id))]
        seen += len(page)
        if len(page) < BROUGHT_BACK_AT_ONCE:
            break
    return due[:most]


def _most_to_bring_back() -> tuple[int, bool]:
    """Return how many mails may be enqueued, and whether customers take turns."""
    live = services.current()
    if why_stopped() is not None:
        return 0, True
    asked = [OPENAI, *filter(None, [live.providers.orders])]
    with live.database.snapshot() as connection:
        found = [circuit_breakers.find(connection, provider) for provider in asked]
    states = {breaker_state(each, live.now()) for each in found}
    if states == {BreakerState.CLOSED}:
        return min(
            BROUGHT_BACK_AT_ONCE, live.rate_limit.mails_a_minute or BROUGHT_BACK_AT_ONCE
        ), True
    return (0, True) if BreakerState.OPEN in states else (1, False)


# --- raw mail ---------------------------------------------------------------------------------------

# A sweep must end within its minute; the next one continues.
RAW_SECONDS = 10.0
# In one transaction. On SQLite a delete holds up every other writer, and one mail may have 40 MB.
RAW_MAILS_AT_ONCE = 50


@step
def purge_raw_mail() -> int:
    """Delete the raw bytes of mail that is old enough; what was parsed of it stays. Returns how many mails."""
    live = services.current()
    before = live.now() - live.waits.raw_mail_kept
    deadline = Deadline(RAW_SECONDS)
    return repeat(
        lambda connection: raw_mail.purge(connection, before, RAW_MAILS_AT_ONCE), deadline
    )
