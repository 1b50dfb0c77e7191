"""Refunds and mail of ours that wait without an active run: the sweep enqueues them again with growing pauses,
and in the end gives them to people. `domain.operations.retry.decide_care` decides what is due."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.operations.retry import MOST_WAKE_UPS, Care, LastRun, decide_care
from mailagent.engine import DELIVERY, FAILED, REFUND, run_id_of
from mailagent.engine.run import Run
from mailagent.store import audit
from mailagent.store.console import run_subjects
from mailagent.store.database import Row
from mailagent.store.mail import conversations, outbound
from mailagent.store.refunds import refunds, remedies
from mailagent.workflows.steps.delivery.send import take_up
from mailagent.workflows.steps.delivery.undeliverable import record_as_lost
from mailagent.workflows.steps.maintenance.rows import process_waiting
from mailagent.workflows.steps.notices import explain_failure, tell_operators
from mailagent.workflows.steps.recording import step

TAKEN_UP_BY_SWEEP = 1_000  # mails that were put off; a sweep must end within its minute

# So long after a refund ended we look for one whose customer was not told.
UNTOLD_SINCE = timedelta(days=30)


def _last_run(run: Run | None) -> LastRun:
    if run is None or run.status == "SUCCESS":
        return LastRun.OVER
    if run.is_active:
        return LastRun.AT_WORK
    return LastRun.FAILED if run.status in FAILED else LastRun.CANCELLED


def _quiet_for(run: Run | None) -> timedelta:
    return services.current().now() - run.updated_at if run else timedelta(0)


# --- refunds ----------------------------------------------------------------------------------


@step
def enqueue_refunds() -> int:
    """Enqueue refunds without an active run that are not decided, not paid, or whose customer was not told the
    outcome. Wake runs that missed a message. Returns how many."""
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.sweep_after_seconds)
    since = live.now() - UNTOLD_SINCE
    with live.database.transaction() as connection:
        woken = live.workflow_client.queue.wake_again(connection, remedies.where_moved_on, before)
    enqueued = process_waiting(
        lambda connection, limit, after: refunds.list_under_way(connection, before, limit, after),
        _refund_id,
        _runs_of_refund,
        _process_refund,
    )
    untold = process_waiting(
        lambda connection, limit, after: refunds.list_untold(connection, since, limit, after),
        _refund_id,
        _runs_of_refund,
        _process_untold,
    )
    return woken + enqueued + untold


def _refund_id(row: Row) -> str:
    return str(row.refund_id)


def _runs_of_refund(row: Row) -> list[str]:
    return [row.run_id or run_id_of(REFUND, row.refund_id)]


def _find_run(row: Row, runs: Mapping[str, Run]) -> Run | None:
    """Return the run that counts for a refund: its own; but if that is a fork that has ended, the
    active run of the same origin, or without one the run that ended last."""
    live = services.current()
    run = runs.get(_runs_of_refund(row)[0])
    if run is None or run.is_active or run.forked_from is None:
        return run
    with live.database.snapshot() as connection:
        origin = live.workflow_client.tables.find_origin(connection, run.run_id)
    return live.workflow_client.runs.find_latest([origin]).get(origin, run)


def _process_refund(row: Row, runs: Mapping[str, Run]) -> int:
    run = _find_run(row, runs)
    overdue = None if row.expires_at is None else services.current().now() >= row.expires_at
    if overdue and run is not None and run.is_active:
        return _wake(row, run)
    return _take_care(row, decide_care(_last_run(run), _quiet_for(run), row.wake_ups, overdue), run)


def _wake(row: Row, run: Run) -> int:
    """Wake a run that should have expired its refund: its worker's clock may be slow."""
    live = services.current()
    late = timedelta(seconds=live.waits.sweep_after_seconds)
    if live.now() < row.expires_at + late:
        return 0
    key = f"overdue-{row.expires_at.isoformat()}"
    with live.database.transaction() as connection:
        live.workflow_client.queue.wake_overdue(connection, run.run_id, key)
    return 1


def _process_untold(row: Row, runs: Mapping[str, Run]) -> int:
    run = _find_run(row, runs)
    care = decide_care(_last_run(run), _quiet_for(run), row.wake_ups, cancel_counts=False)
    return _take_care(row, care, run)


def _take_care(row: Row, care: Care, run: Run | None) -> int:
    if care is Care.LEAVE:
        return 0
    live, known = services.current(), row.wake_ups
    number = known + 1 if care is Care.ENQUEUE else MOST_WAKE_UPS + 1
    with live.database.transaction() as connection:
        if run is not None and live.workflow_client.tables.find_active(connection, run.run_id):
            return 0  # an operator replayed it meanwhile
        if not refunds.count_wake_ups(connection, row.refund_id, known, number):
            return 0  # another sweep was faster, or an operator is about to replay its run
        if care is Care.ENQUEUE:
            # With the time: after a replay the numbers begin again.
            again = f"{number}-{live.now():%Y%m%dT%H%M%S}"
            queue = live.workflow_client.queue
            run_id = queue.enqueue_refund(connection, row.refund_id, None, again)
            refunds.claim(connection, row.refund_id, run_id)
        else:
            _give_refund_to_people(connection, row.refund_id, run)
    return 1


def _give_refund_to_people(connection: sa.Connection, refund_id: str, run: Run | None) -> None:
    """Hand the conversation of a locked refund over to the team, and tell the operators. Each call
    writes new mails. The refund stays as it is: a replay of its run pays it."""
    live = services.current()
    refund = refunds.load(connection, refund_id)
    conversation = conversations.lock(connection, refund.conversation_id)
    why = HandOverReason.REFUND_STUCK
    conversations.hand_over(connection, conversation.conversation_id, why.value, live.now())
    audit.record(connection, live.now(), audit.CLOCK, "refund given to people", refund_id)
    summary = f"Refund {refund_id} of {refund.amount.tell()} for order {refund.order_id}"
    key = f"{refund_id}:{live.now().isoformat()}"  # after a replay it may stop again
    written = mailers.write_to_team(connection, conversation, why.value, summary, f"stuck:{key}")
    live.workflow_client.queue.enqueue_deliveries(connection, written)
    _tell_operators(connection, f"Refund {refund_id} ({refund.status.value})", refund_id, run, key)


def _tell_operators(
    connection: sa.Connection, what: str, row_id: str, run: Run | None, key: str, final: str = ""
) -> None:
    """Tell the operators, once for each `key`, that people have a row. `final`: why a replay of its run would
    do nothing."""
    known = run_subjects.list_subjects(connection, [row_id]).get(row_id)
    lines = [known.tell_masked()] if known else []
    lines.append(final or "It is not enqueued any more. The team has the case.")
    url = f"{services.current().shop.public_url}/ops"
    button = ("See the mail that did not arrive", f"{url}?waiting=undelivered") if final else None
    if run is not None:
        why = f": {explain_failure(run)}" if run.has_failed else ""
        lines.append(f"Its last run {run.run_id} is {run.status}{why}")
        if not final:
            lines.append(f"By a shell: flask runs replay {run.run_id}")
            path = f"{url}/runs/{run.run_id}/replay"
            button = ("See what a replay does, then run it again", path)
    tell_operators(connection, f"{what} cannot be brought to its end", lines, key, button)


# --- mail of ours -----------------------------------------------------------------------------


@step
def enqueue_deliveries() -> int:
    """Enqueue mail of ours that should have gone out and has no active run. Returns how many.

    Mail that was put off goes out, bit by bit, when the mail provider is back.
    """
    live = services.current()
    take_up(TAKEN_UP_BY_SWEEP)
    before = live.now() - timedelta(seconds=live.waits.sweep_after_seconds)
    return process_waiting(
        lambda connection, limit, after: outbound.list_under_way(connection, before, limit, after),
        str,
        _runs_of_mail,
        _process_mail,
    )


def _runs_of_mail(outbound_id: str) -> list[str]:
    """Return the ids of the runs that may have been enqueued for a mail, the first one first."""
    return [run_id_of(DELIVERY, outbound_id, number) for number in range(MOST_WAKE_UPS + 1)]


def _process_mail(outbound_id: str, runs: Mapping[str, Run]) -> int:
    live = services.current()
    run_ids = _runs_of_mail(outbound_id)
    # By the numbers, not by how many there are: an operator may have deleted an earlier run.
    highest = max((n for n, run_id in enumerate(run_ids) if run_id in runs), default=None)
    run = None if highest is None else runs[run_ids[highest]]
    # The step that could not send the mail enqueued the run without a number; the sweep enqueued the others.
    care = decide_care(_last_run(run), _quiet_for(run), highest or 0)
    if care is Care.LEAVE:
        return 0
    with live.database.transaction() as connection:
        if care is Care.ENQUEUE:
            number = 0 if highest is None else highest + 1
            live.workflow_client.queue.enqueue_delivery(connection, outbound_id, number)
        else:
            _give_up(connection, outbound_id, run)
    return 1


def _give_up(connection: sa.Connection, outbound_id: str, run: Run | None) -> None:
    """Record as lost a mail that no run could send: the next manager is asked, or people are told."""
    row = outbound.row_of(connection, outbound_id, lock=True)
    if row.status not in (OutboundStatus.QUEUED, OutboundStatus.SENDING):
        return
    queued = row.status == OutboundStatus.QUEUED
    status = OutboundStatus.FAILED if queued else OutboundStatus.UNKNOWN
    mail = record_as_lost(connection, row, status, "mail given up", row.error or "")
    if mail.purpose is not Purpose.NOTICE:
        final = "No replay sends it. If the person still needs it, write to them yourself."
        _tell_operators(connection, f"Mail {outbound_id}", outbound_id, run, outbound_id, final)
