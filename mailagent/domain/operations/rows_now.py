"""What a run's row is like now, and what that means for a replay, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import RefundStatus


@dataclass(frozen=True, slots=True)
class MailNow:
    """A mail of ours. `lost`: it did not arrive, or nobody can tell."""

    purpose: Purpose
    to_address: str
    status: OutboundStatus
    sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class RefundNow:
    refund_id: str
    status: RefundStatus
    amount: Money
    reference: str | None = None
    paid_at: datetime | None = None
    decided_by: str | None = None
    expires_at: datetime | None = None
    # Whether the gateway was asked and has not said what came of it.
    asked: bool = False


@dataclass(frozen=True, slots=True)
class RowsNow:
    """What a run looks after, as it is now: a conversation with its unanswered mail, a refund, a mail.

    `unanswered` leaves out mail that a draft answers; `draft_ids` are the drafts that wait.
    """

    unanswered: int | None = None
    draft_ids: tuple[str, ...] = ()
    handed_over: bool = False
    refund: RefundNow | None = None
    mails: tuple[MailNow, ...] = ()


def tell_rows(rows: RowsNow) -> tuple[str, ...]:
    """Return what a replay comes to as the rows are, one sentence for each fact."""
    told: list[str] = []
    told += [_tell_draft(draft_id) for draft_id in rows.draft_ids]
    if rows.unanswered or (rows.unanswered == 0 and not rows.draft_ids):
        told.append(_tell_unanswered(rows.unanswered, rows.handed_over))
    if rows.refund is not None:
        told.append(_tell_refund(rows.refund))
    return (*told, *_tell_mails(rows.mails))


def _tell_draft(draft_id: str) -> str:
    return (
        "An answer waits as a draft: nothing new is written until somebody sends or discards it: "
        f"/ops/drafts/{draft_id}"
    )


def _tell_unanswered(count: int, handed_over: bool) -> str:
    if not count:
        return "No mail of this conversation waits for an answer: nothing new is written."
    what = "1 mail waits" if count == 1 else f"{count} mails wait"
    if handed_over:
        return f"{what}, and people look after this conversation: it goes to the team."
    return f"{what} for an answer: the agent answers."


def _tell_refund(refund: RefundNow) -> str:
    match refund.status:
        case RefundStatus.PAID:
            on = f" on {_moment(refund.paid_at)}" if refund.paid_at else ""
            return (
                f"The refund of {refund.amount} was paid{on} (reference {refund.reference}): "
                "it is not paid again."
            )
        case RefundStatus.AWAITING_APPROVAL:
            until = f" until {_moment(refund.expires_at)}" if refund.expires_at else ""
            return (
                f"The refund of {refund.amount} waits for a manager{until}: "
                "the links mailed before still work, and nothing is paid without a decision."
            )
        case RefundStatus.APPROVED if refund.asked:
            return (
                f"The refund of {refund.amount} was asked for at the gateway, and what came of it is not "
                "known: it is looked up first, and paid only if it was not."
            )
        case RefundStatus.APPROVED:
            by = f" by {refund.decided_by}" if refund.decided_by else ""
            return f"The refund of {refund.amount} is approved{by} and not paid: it will be paid, once."
    return f"The refund of {refund.amount} is {refund.status.value}: a replay does not change that."


def _tell_mails(mails: Iterable[MailNow]) -> list[str]:
    return [_tell_mail(mail) for mail in mails]


_NAMES = {
    Purpose.REPLY: "The answer",
    Purpose.RECEIPT: "The receipt",
    Purpose.REFUND_OUTCOME: "The word on how the refund ended",
    Purpose.APPROVAL_REQUEST: "The question to the manager",
    Purpose.HAND_OVER: "The case for the team",
    Purpose.TEAM_REPLY: "The team's words",
    Purpose.NOTICE: "The notice",
    Purpose.LOGIN: "The login link",
}


def _tell_mail(mail: MailNow) -> str:
    what = f"{_NAMES.get(mail.purpose, 'The mail')} to {mail.to_address}"
    match mail.status:
        case OutboundStatus.SENT | OutboundStatus.UNDELIVERED:
            on = f" on {_moment(mail.sent_at)}" if mail.sent_at else ""
            return f"{what} was sent{on}: it is not sent again."
        case OutboundStatus.QUEUED:
            return f"{what} has not gone out: it is sent, once."
        case OutboundStatus.SENDING:
            return f"{what} may have gone out: that is found out before anything is sent."
    return f"{what} is {mail.status.value}: it is not sent again."


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d at %H:%M} UTC"
