"""Effects of the sweep: find rows that wait although no run looks after them, and ring for them.

A run that failed or was cancelled is left alone: it is an operator's, until the row's time is up.
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from mailagent import doorbell, services
from mailagent.domain.conversation import HandOverReason
from mailagent.store import audit, conversations, mailbox, outbox, refunds, workers
from mailagent.store.database import Row
from mailagent.workflows.heartbeat import VANISHED_AFTER_SECONDS
from mailagent.workflows.steps import letters
from mailagent.workflows.steps.recording import step

ROWS_PER_SWEEP = 500
MOST_RINGS = 5


@step
def take_over_runs() -> int:
    """Queue the runs again whose worker has not been seen for a while: it was killed, or cut off."""
    live = services.current()
    since = live.now() - timedelta(seconds=VANISHED_AFTER_SECONDS)
    with live.database.snapshot() as connection:
        alive = workers.list_alive(connection, since)
    orphans = [run for run in live.doorbell.list_pending() if run.worker_id not in alive]
    for run in orphans:
        live.doorbell.take_over(run)
    return len(orphans)


# An hour's budget, a minute at a time; of each sender one mail a minute.
PARKED_SECONDS = 3600


@step
def release_parked_mail() -> int:
    """Let parked mail in, slowly and fairly: after an hour, the oldest mail of each sender a minute."""
    live = services.current()
    before = live.now() - timedelta(seconds=PARKED_SECONDS)
    most = max(1, live.limits.mails_per_hour // 60)
    with live.database.snapshot() as connection:
        parked = mailbox.list_parked(connection, before, most)
    for row in parked:
        with live.database.transaction() as connection:
            conversation_id = row.conversation_id
            run_id = live.doorbell.ring_conversation(connection, conversation_id, row.mail_id)
            mailbox.release(connection, row.mail_id, run_id)
    return len(parked)


@step
def ring_for_mail() -> int:
    """Ring for unanswered mail without a run; what waits too long goes to people."""
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.sweep_after_seconds)
    with live.database.snapshot() as connection:
        waiting = mailbox.list_waiting(connection, before, ROWS_PER_SWEEP)
    statuses = live.doorbell.statuses([row.run_id for row in waiting if row.run_id])
    return sum(_see_to_mail(row, statuses.get(row.run_id)) for row in waiting)


def _see_to_mail(row: Row, status: str | None) -> int:
    live = services.current()
    if status in doorbell.ACTIVE:
        return 0
    overdue = live.now() - row.received_at >= timedelta(seconds=live.waits.unanswered_seconds)
    with live.database.transaction() as connection:
        if overdue or row.rings >= MOST_RINGS:
            _give_to_people(connection, row)
        elif status in (None, "SUCCESS"):
            run_id = live.doorbell.ring_conversation(
                connection, row.conversation_id, row.mail_id, row.rings + 1
            )
            mailbox.count_ring(connection, row.mail_id, run_id)
        else:
            return 0
    return 1


def _give_to_people(connection: sa.Connection, row: Row) -> None:
    live = services.current()
    conversation = conversations.lock(connection, row.conversation_id)
    reason = HandOverReason.LEFT_UNANSWERED.value
    mailbox.leave_unanswered(connection, [row.mail_id], reason)
    conversations.hand_over(connection, conversation.conversation_id, reason, live.now())
    audit.record(
        connection,
        live.now(),
        audit.CLOCK,
        "conversation handed over",
        conversation.conversation_id,
    )
    for outbound_id in letters.write_to_team(
        connection, conversation, reason, None, f"unanswered:{row.mail_id}"
    ):
        live.doorbell.ring_delivery(connection, outbound_id)


@step
def ring_for_refunds() -> int:
    """Ring for refunds that have to be decided or paid and that no run looks after."""
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.sweep_after_seconds)
    with live.database.snapshot() as connection:
        waiting = refunds.list_under_way(connection, before, ROWS_PER_SWEEP)
    runs = {
        row.refund_id: row.run_id or doorbell.run_id_of(doorbell.REFUND, row.refund_id)
        for row in waiting
    }
    statuses = live.doorbell.statuses(list(runs.values()))
    rung = 0
    for row in waiting:
        status = statuses.get(runs[row.refund_id])
        overdue = row.expires_at is not None and live.now() >= row.expires_at
        # A failed run is an operator's, but a date that has passed must be acted on all the same.
        if status in (None, "SUCCESS") or (overdue and status not in doorbell.ACTIVE):
            with live.database.transaction() as connection:
                run_id = live.doorbell.ring_refund(connection, row.refund_id, None, row.rings + 1)
                refunds.count_ring(connection, row.refund_id, run_id)
            rung += 1
    return rung


@step
def ring_for_outbox() -> int:
    """Ring for mail of ours that should have gone out; a run that is at it already is not doubled."""
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.sweep_after_seconds)
    with live.database.snapshot() as connection:
        waiting = outbox.list_under_way(connection, before, ROWS_PER_SWEEP)
    runs = {
        outbound_id: doorbell.run_id_of(doorbell.DELIVERY, outbound_id) for outbound_id in waiting
    }
    statuses = live.doorbell.statuses(list(runs.values()))
    rung = 0
    for outbound_id in waiting:
        if statuses.get(runs[outbound_id]) is None:
            with live.database.transaction() as connection:
                live.doorbell.ring_delivery(connection, outbound_id)
            rung += 1
    return rung


# Faster than an unhindered 5,000 mails an hour come in (`Limits.mails_per_hour`).
RAW_MAILS_PER_SWEEP = 200
# A few at a time: on SQLite a delete holds up every other writer, and one mail may have 40 MB.
RAW_MAILS_AT_ONCE = 20


@step
def purge_raw_mail() -> int:
    """Delete raw bytes of mail that are older than they may be kept; what was read of it stays."""
    live = services.current()
    before = live.now() - live.waits.raw_mail_kept
    purged = 0
    while purged < RAW_MAILS_PER_SWEEP:
        with live.database.transaction() as connection:
            batch = mailbox.purge_raw(connection, before, RAW_MAILS_AT_ONCE)
        purged += batch
        if batch < RAW_MAILS_AT_ONCE:
            break
    return purged
