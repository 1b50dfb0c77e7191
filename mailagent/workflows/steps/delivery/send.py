"""The steps that send our mail. The mail's row says "sending" before the provider is called; the outcome is
recorded after it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypedDict

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.delivery import (
    Accepted,
    NotSent,
    OutcomeUnknown,
    Refused,
    SendOutcome,
    Trace,
)
from mailagent.domain.mail.message import OutboundMail, OutboundStatus, Purpose
from mailagent.domain.operations.circuit_breaker import (
    BreakerState,
    Failure,
    breaker_state,
    look_again_seconds,
)
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.retry import (
    MAY_GO_TWICE,
    Events,
    MailState,
    SendNow,
    SetStatus,
    Verdict,
    WaitFor,
    are_events_wanted,
    backoff_seconds,
    decide_delivery,
    is_trace_wanted,
    judge_refusal,
)
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.mail import delivery_events, outbound, suppressions
from mailagent.store.operations import circuit_breakers
from mailagent.telemetry import spans
from mailagent.workflows.steps.circuit_breaker import (
    Permit,
    claim_permit,
    free_permit,
    note_outcome,
)
from mailagent.workflows.steps.delivery.undeliverable import act_on_lost
from mailagent.workflows.steps.maintenance.incidents import open_incident
from mailagent.workflows.steps.recording import async_step, declare_marks, mark, step

# How many mails are woken when the mail provider is back; the sweep wakes the rest.
TAKEN_UP_AT_ONCE = 100

_OPEN = (OutboundStatus.QUEUED, OutboundStatus.SENDING)


def _send_mail(outbound_id: str) -> str:
    """Send a queued mail, and return its state. If it cannot be sent at once, enqueue a `delivery` run."""
    live = services.current()
    claimed = _claim(outbound_id)
    if isinstance(claimed, str):
        return claimed
    mail, permit = claimed
    mark("send_mail", "claimed")
    with spans.call(live.providers.mail.name, "send"):
        outcome = live.sender.send(mail)
    mark("send_mail", "submitted")
    with live.database.transaction() as connection:
        status = _record(connection, mail, permit, outcome)
        state = _leave_to_delivery(connection, outbound_id, status)
    if isinstance(outcome, Accepted) and permit.failed_lately:
        take_up(TAKEN_UP_AT_ONCE)
    return state


def _claim(outbound_id: str) -> tuple[OutboundMail, Permit] | str:
    """Set a queued mail to "sending" and return it with a permit to call the provider. Return the mail's
    state instead if it is not queued, if the circuit breaker is open, or if its address is suppressed."""
    live = services.current()
    with live.database.transaction() as connection:
        permit = claim_permit(connection, live.providers.mail)
        if permit is None:
            _put_off(connection, outbound_id)
            return _leave_as_it_is(connection, outbound_id)
        mail = outbound.claim_for_sending(connection, outbound_id, live.now())
        # After the claim: it may have waited for a transaction that suppressed the address.
        why_not = None
        if mail is not None and mail.to_address not in live.shop.people:
            why_not = suppressions.why_suppressed(connection, mail.to_address)
        if mail is not None and why_not is None:
            return mailers.renew_if_late(connection, mail), permit
        free_permit(connection, permit)
        if mail is None:
            return _leave_as_it_is(connection, outbound_id)
        why = f"nothing is sent to {mail.to_address} any more ({why_not})"
        _fail(connection, mail, why, audit.CLOCK, "mail suppressed")
        return OutboundStatus.FAILED.value


def _leave_as_it_is(connection: sa.Connection, outbound_id: str) -> str:
    status = outbound.status_of(connection, outbound_id)
    return _leave_to_delivery(connection, outbound_id, status)


def take_up(most: int) -> int:
    """Wake the delivery runs of mails that were put off while the provider was away: `most` if it is back, one
    to probe it, none while the breaker is open. Returns how many."""
    live = services.current()
    with live.database.transaction() as connection:
        how = breaker_state(circuit_breakers.find(connection, live.providers.mail), live.now())
        limit = {BreakerState.CLOSED: most, BreakerState.PROBE: 1, BreakerState.OPEN: 0}[how]
        due = outbound.take_up(connection, limit, live.now()) if limit else []
        live.workflow_client.queue.wake_deliveries(connection, due)
    return len(due)


def _put_off(connection: sa.Connection, outbound_id: str) -> float:
    """Let a queued mail wait while the breaker is open; return for how many seconds."""
    now = services.current().now()
    seconds = _seconds_to_look_again(connection, outbound_id)
    outbound.put_off(connection, outbound_id, now + timedelta(seconds=seconds), now)
    return seconds


def _seconds_to_look_again(connection: sa.Connection, outbound_id: str) -> float:
    age = services.current().now() - outbound.row_of(connection, outbound_id).created_at
    return look_again_seconds(outbound_id, age.total_seconds())


def _leave_to_delivery(connection: sa.Connection, outbound_id: str, status: OutboundStatus) -> str:
    """Enqueue a `delivery` run unless the mail is settled. Returns the mail's state.

    If the mail is "sending", another process sends it or has died while it did: this one must not send it too.
    """
    if status in _OPEN:
        services.current().workflow_client.queue.enqueue_delivery(connection, outbound_id)
    return status.value


def _record(
    connection: sa.Connection, mail: OutboundMail, permit: Permit, outcome: SendOutcome
) -> OutboundStatus:
    """Record the outcome for the circuit breaker and for the mail; return the mail's state."""
    # Lock the breaker's row before the mail's, as `_claim` does. Only `_record_refusal` locks the mail first.
    match outcome:
        case Accepted(provider_id):
            note_outcome(connection, permit, None)
            sent = {"sent_at": services.current().now(), "provider_id": provider_id}
            return outbound.record_outcome(connection, mail, OutboundStatus.SENT, **sent)
        case NotSent(why, seconds):
            note_outcome(connection, permit, Failure(why, wish_seconds=seconds))
            return _retry(connection, mail, why, max(seconds, backoff_seconds(mail.attempts)))
        case OutcomeUnknown(why):
            note_outcome(connection, permit, Failure(why))
            # Stays "sending": a `delivery` run finds out what became of it.
            return outbound.record_outcome(connection, mail, OutboundStatus.SENDING, error=why)
        case Refused() as refused:
            return _record_refusal(connection, mail, permit, refused)


def _record_refusal(
    connection: sa.Connection, mail: OutboundMail, permit: Permit, refused: Refused
) -> OutboundStatus:
    now, why = services.current().now(), refused.why
    others = outbound.count_others_refused(connection, mail.outbound_id, now)
    since, beside = outbound.note_refusal(connection, mail.outbound_id, now)
    verdict = judge_refusal(refused.blame, now - since, beside, others + 1)
    if verdict is Verdict.OUTAGE:
        note_outcome(connection, permit, Failure(why, needs_operator=True))
        open_incident(connection, IncidentKind.MAIL_PROVIDER, why)
        seconds = _seconds_to_look_again(connection, mail.outbound_id)
        return _retry(connection, mail, why, seconds, put_off_at=now)
    free_permit(connection, permit)  # a refusal of one mail says nothing about the provider
    if verdict is Verdict.FAILED:
        return _fail(connection, mail, why, services.current().providers.mail.name, "mail refused")
    return _retry(connection, mail, why, backoff_seconds(mail.attempts))


def _retry(
    connection: sa.Connection, mail: OutboundMail, why: str, seconds: float, **values: datetime
) -> OutboundStatus:
    return outbound.record_outcome(
        connection,
        mail,
        OutboundStatus.QUEUED,
        error=why,
        next_attempt_at=services.current().now() + timedelta(seconds=seconds),
        **values,
    )


def _fail(
    connection: sa.Connection, mail: OutboundMail, why: str, actor: str, action: audit.Action
) -> OutboundStatus:
    status = outbound.record_outcome(connection, mail, OutboundStatus.FAILED, error=why)
    audit.record(
        connection,
        services.current().now(),
        actor,
        action,
        mail.outbound_id,
        {"why": why, "purpose": mail.purpose.value},
    )
    act_on_lost(connection, mail, OutboundStatus.FAILED, why)
    return status


class Outlook(TypedDict):
    """What a `delivery` run does next. `kind`: `send`; `wait`, for a message or `wait_seconds`; or
    `settled`."""

    kind: str
    status: str
    wait_seconds: float


def _look_at_delivery(outbound_id: str) -> Outlook:
    """Find out what became of a mail that was not sent at once, set its status if it is known, and return what
    to do next."""
    live = services.current()
    trace = _find_trace(outbound_id)
    with live.database.transaction() as connection:
        row = outbound.row_of(connection, outbound_id, lock=True)
        state = _state_of(connection, row, trace)
        # Even if the mail is settled: a signed event may follow a bounce that came by mail.
        _suppress(connection, outbound_id, row.to_address)
        now, silence = live.now(), live.waits.mail_outcome_seconds
        wanted = are_events_wanted(state, now, silence)
        events = _events_so_far(connection, row) if wanted else Events.NOT_ASKED
        decision = decide_delivery(state, now, silence, events)
        match decision:
            case SendNow() if _is_away(connection):
                wait_seconds = _put_off(connection, outbound_id)
                return _wait(row.status, wait_seconds)
            case SendNow():
                return Outlook(kind="send", status=row.status, wait_seconds=0)
            case WaitFor(seconds):
                return _wait(row.status, seconds)
            case SetStatus(status, why):
                return _set_status(connection, row, status, why)
        return Outlook(kind="settled", status=row.status, wait_seconds=0)


def _state_of(connection: sa.Connection, row: Row, trace: Trace = Trace.NOT_ASKED) -> MailState:
    outbound_id = row.outbound_id
    return MailState(
        status=OutboundStatus(row.status),
        created_at=row.created_at,
        sending_at=row.sending_at,
        next_attempt_at=row.next_attempt_at,
        accepted=delivery_events.was_accepted(connection, outbound_id),
        undelivered=delivery_events.why_undelivered(connection, outbound_id) is not None,
        sent_again=audit.latest_at(connection, outbound_id, audit.SENT_AGAIN) is not None,
        away=_is_open(connection),
        back_at=circuit_breakers.last_closed_at(connection, services.current().providers.mail),
        trace=trace,
        may_go_twice=MAY_GO_TWICE[Purpose(row.purpose)],
    )


def _find_trace(outbound_id: str) -> Trace:
    """Search the provider's records for a mail whose outcome is unknown. Return NONE only if the
    records have a mail that was sent later: otherwise they may be late, or the search may not work."""
    live = services.current()
    with live.database.snapshot() as connection:
        row = outbound.row_of(connection, outbound_id)
        state = _state_of(connection, row)
        taken = outbound.find_taken_since(connection, row.sending_at or row.created_at)
    if not is_trace_wanted(state, live.now(), live.waits.mail_outcome_seconds):
        return Trace.NOT_ASKED
    with spans.call(live.providers.mail.name, "look up"):
        trace = live.sender.find_trace(outbound_id)
        if trace is Trace.NONE and not (taken and live.sender.find_trace(taken) is Trace.FOUND):
            return Trace.NOT_ASKED
    return trace


def _wait(status: str, seconds: float) -> Outlook:
    return Outlook(kind="wait", status=status, wait_seconds=seconds)


def _is_open(connection: sa.Connection) -> bool:
    # Unlike `_is_away`, true also when a probe is due.
    found = circuit_breakers.find(connection, services.current().providers.mail)
    return found is not None and found.until_at is not None


def _is_away(connection: sa.Connection) -> bool:
    found = circuit_breakers.find(connection, services.current().providers.mail)
    return breaker_state(found, services.current().now()) is BreakerState.OPEN


def _events_so_far(connection: sa.Connection, row: Row) -> Events:
    if not delivery_events.has_any_event(connection):
        return Events.NEVER
    later = delivery_events.was_later_mail_reported(connection, row.sending_at or row.created_at)
    return Events.LATER if later else Events.NONE_LATER


def _set_status(
    connection: sa.Connection, row: Row, status: OutboundStatus, sent_again_why: str
) -> Outlook:
    live, outbound_id = services.current(), row.outbound_id
    outbound.set_status(connection, outbound_id, status, live.now(), sent_again_why)
    # This record makes `MailState.sent_again` true, so it happens at most once.
    action: audit.Action = audit.SENT_AGAIN if status is OutboundStatus.QUEUED else "mail settled"
    details = {"status": status.value} | ({"why": sent_again_why} if sent_again_why else {})
    audit.record(connection, live.now(), audit.CLOCK, action, outbound_id, details)
    if status.lost:
        undelivered = status is OutboundStatus.UNDELIVERED
        why = delivery_events.why_undelivered(connection, outbound_id) if undelivered else row.error
        act_on_lost(connection, outbound.load(connection, outbound_id), status, why or "")
    kind = "send" if status is OutboundStatus.QUEUED else "settled"
    return Outlook(kind=kind, status=status.value, wait_seconds=0)


def _suppress(connection: sa.Connection, outbound_id: str, to_address: str) -> None:
    """Suppress a customer's address after a permanent bounce or a complaint in a signed event.

    Never suppress the shop's own people: a full mailbox would cut a manager off from every later
    refund. `_claim` ignores a suppression from when they were customers. Never suppress the alias
    of an erased customer either: nothing is sent to it anyway.
    """
    live = services.current()
    why = delivery_events.why_unwelcome(connection, outbound_id)
    spared = to_address in live.shop.people or suppressions.is_erased(to_address)
    if why is not None and not spared:
        suppressions.suppress(connection, to_address, why, live.now())


declare_marks("send_mail", "claimed", "submitted")

send_mail = step(_send_mail)
send_mail_async = async_step(_send_mail)
look_at_delivery = async_step(_look_at_delivery)
