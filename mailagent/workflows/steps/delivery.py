"""Sending our mail: the row says "sending" before the vendor is called, and the outcome after."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.delivery import (
    Accepted,
    DeliveryKind,
    NotSent,
    OutcomeUnknown,
    Refused,
    SendOutcome,
)
from mailagent.domain.mail import OutboundMail, OutboundStatus, Purpose
from mailagent.domain.retry import (
    MailState,
    SendNow,
    Settle,
    WaitFor,
    backoff_seconds,
    decide_delivery,
)
from mailagent.store import audit, outbox
from mailagent.workflows.steps import letters
from mailagent.workflows.steps.recording import async_step, declare_marks, mark, step

# After a refusal that concerns the account, not the mail, an operator needs a while.
OPERATOR_SECONDS = 600.0


def _send_mail(outbound_id: str) -> str:
    """Send a mail that is queued. What does not go out at once is left to a `delivery` run."""
    live = services.current()
    with live.database.transaction() as connection:
        mail = outbox.claim_for_sending(connection, outbound_id, live.now())
        if mail is None:
            return _leave_to_delivery(connection, outbound_id)
        why = outbox.why_suppressed(connection, mail.to_address)
        if why is not None:
            _fail(connection, mail, f"nothing is sent to {mail.to_address} any more ({why})")
            return OutboundStatus.FAILED.value
    mark("send_mail", "claimed")
    outcome = live.sender.send(mail)
    mark("send_mail", "handed over")
    with live.database.transaction() as connection:
        _record(connection, mail, outcome)
        return _leave_to_delivery(connection, outbound_id)


def _leave_to_delivery(connection: sa.Connection, outbound_id: str) -> str:
    """Ring a `delivery` run unless the mail is settled. Returns the mail's state.

    A mail that is found "sending" was being sent by a process that died, or is by one that lives:
    either way this one must not send it too.
    """
    status = OutboundStatus(outbox.row_of(connection, outbound_id).status)
    if status in (OutboundStatus.QUEUED, OutboundStatus.SENDING):
        services.current().doorbell.ring_delivery(connection, outbound_id)
    return status.value


def _record(connection: sa.Connection, mail: OutboundMail, outcome: SendOutcome) -> None:
    now = services.current().now()
    match outcome:
        case Accepted(provider_id):
            outbox.record_outcome(
                connection,
                mail.outbound_id,
                OutboundStatus.SENT,
                sent_at=now,
                provider_id=provider_id,
            )
        case Refused(why, operator=False):
            _fail(connection, mail, why)
        case Refused(why):
            _retry(connection, mail, why, OPERATOR_SECONDS)
        case NotSent(why, seconds):
            _retry(connection, mail, why, max(seconds, backoff_seconds(mail.attempts)))
        case OutcomeUnknown(why):
            # Stays "sending": only an event, or silence for long enough, can tell.
            outbox.record_outcome(connection, mail.outbound_id, OutboundStatus.SENDING, error=why)


def _retry(connection: sa.Connection, mail: OutboundMail, why: str, seconds: float) -> None:
    outbox.record_outcome(
        connection,
        mail.outbound_id,
        OutboundStatus.QUEUED,
        error=why,
        next_attempt_at=services.current().now() + timedelta(seconds=seconds),
    )


def _fail(connection: sa.Connection, mail: OutboundMail, why: str) -> None:
    outbox.record_outcome(connection, mail.outbound_id, OutboundStatus.FAILED, error=why)
    audit.record(
        connection,
        services.current().now(),
        "sendgrid",
        "mail refused",
        mail.outbound_id,
        {"why": why, "purpose": mail.purpose.value},
    )
    letters.tell_team_of_undelivered(connection, mail, OutboundStatus.FAILED, why)


class Outlook(TypedDict):
    """What a `delivery` run does next: `send`, `wait`, or nothing because the mail is settled."""

    kind: str
    status: str
    wait_seconds: float


def _look_at_delivery(outbound_id: str) -> Outlook:
    """Look at a mail that did not go out at once, settle its state if it can be told, say what next."""
    live = services.current()
    with live.database.transaction() as connection:
        row = outbox.row_of(connection, outbound_id, lock=True)
        state = MailState(
            status=OutboundStatus(row.status),
            created_at=row.created_at,
            sending_at=row.sending_at,
            next_attempt_at=row.next_attempt_at,
            accepted=outbox.was_accepted(connection, outbound_id),
            undelivered=outbox.why_undelivered(connection, outbound_id) is not None,
        )
        decision = decide_delivery(
            state, live.now(), live.waits.mail_outcome_seconds, bool(live.events_keys)
        )
        match decision:
            case SendNow():
                return Outlook(kind="send", status=row.status, wait_seconds=0)
            case WaitFor(seconds):
                return Outlook(kind="wait", status=row.status, wait_seconds=seconds)
            case Settle(status):
                return _settle(connection, outbound_id, status)
        return Outlook(kind="settled", status=row.status, wait_seconds=0)


def _settle(connection: sa.Connection, outbound_id: str, status: OutboundStatus) -> Outlook:
    live = services.current()
    mail = outbox.load(connection, outbound_id)
    outbox.settle(connection, outbound_id, status, live.now())
    audit.record(
        connection, live.now(), audit.CLOCK, "mail settled", outbound_id, {"status": status.value}
    )
    if status is OutboundStatus.UNDELIVERED:
        _act_on_undelivered(connection, mail)
    if status in (OutboundStatus.FAILED, OutboundStatus.UNKNOWN):
        row = outbox.row_of(connection, outbound_id)
        letters.tell_team_of_undelivered(connection, mail, status, row.error or "")
    kind = "send" if status is OutboundStatus.QUEUED else "settled"
    return Outlook(kind=kind, status=status.value, wait_seconds=0)


def _act_on_undelivered(connection: sa.Connection, mail: OutboundMail) -> None:
    """Nobody waits for an answer that never arrived: ask the next manager, or tell the team.

    A permanent bounce or a complaint also ends all mail to that address.
    """
    live = services.current()
    why = outbox.why_undelivered(connection, mail.outbound_id) or ""
    if why.startswith((DeliveryKind.BOUNCE, DeliveryKind.SPAMREPORT)):
        outbox.suppress(connection, mail.to_address, why, live.now())
    following = None
    if mail.purpose is Purpose.APPROVAL_REQUEST and mail.refund_id:
        following = letters.ask_next_manager(connection, mail.refund_id, mail.to_address)
    if following is None:
        letters.tell_team_of_undelivered(connection, mail, OutboundStatus.UNDELIVERED, why)
    else:
        live.doorbell.ring_delivery(connection, following)


declare_marks("send_mail", "claimed", "handed over")

send_mail = step(_send_mail)
send_mail_async = async_step(_send_mail)
look_at_delivery = async_step(_look_at_delivery)
