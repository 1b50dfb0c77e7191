"""What a replay will do: which recorded steps it keeps, which run again, and what they do to mail, money and
model calls, given the rows as they are now. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.money import Money
from mailagent.domain.refunds.labels import REFUND_STATES
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.text import Fill, fill


class Reach(StrEnum):
    """What a step may reach outside our database."""

    MAIL = "mail"
    MONEY = "money"
    MODEL = "model"


# What each step does when it runs again: the end of a sentence that begins with the step's name.
EFFECTS: Mapping[str, str] = {
    # a conversation
    "take_batch": "finds the thread's unanswered mails",
    "look_up_orders": "asks the order source for the customer's orders, and saves what came",
    "ask_model": "asks the model again, which costs tokens, and looks up what it wants to know",
    "propose_refund": (
        "asks the policy; the same request is the same refund, and only a refund's own run pays it"
    ),
    "withdraw_refund": "withdraws a refund that still waits, unless that was done",
    "request_change": "makes a task for people of the shop; the same request is the same task",
    "cancel_order": (
        "records a cancellation with its refund; the same request is the same refund, paid after it is done"
    ),
    "accept_offer": "makes a refund of an offer, unless it has become one",
    "offer_goodwill": "gives a discount code, unless the order has had one",
    "write_reply": (
        "writes the answer to the customer, unless one was written; with OPENAI_CHECK_MODEL, that model"
        " is asked again"
    ),
    "put_off": "records that the mail waits until the model, or the order source, may be asked again",
    "hand_over": "gives the conversation to the team, unless nothing waits any more",
    "forward_team_replies": "writes the team's words to the customer, unless that was done",
    "pass_on_to_people": "writes the mail to the team, unless that was done",
    "stop_loop": "leaves the mail to people, unless that was done",
    "send_mail": "hands the mail to the mail provider, unless that has happened",
    # a refund
    "claim_refund": (
        "makes this run the refund's own; if the refund awaits a manager, asks the shop's system for a"
        " cancellation that it waits for, and writes to the manager, unless that was done; older links still"
        " work"
    ),
    "look_at_decision": (
        "asks the shop's system for a cancellation that the refund waits for, unless that was done; checks"
        " whether a manager has decided; if not, asks or reminds the managers who are due, or expires the"
        " refund after its date"
    ),
    "pay_refund": (
        "sees to what the refund waits for, and looks the order up in the shop's system if there is one; then"
        " asks the payment gateway under the refund's own key, after looking up what was paid"
    ),
    "tell_customer": "writes the refund's outcome to the customer, unless that was done",
    # mail of ours
    "look_at_delivery": "checks the mail's state",
    # the sweep
    "report_failed_runs": "tells operators what failed, once for each incident",
    "take_over_runs": "enqueues runs again whose worker is gone",
    "enqueue_mail": "enqueues mail that waits",
    "enqueue_refunds": "enqueues refunds that wait",
    "enqueue_deliveries": "enqueues mail of ours that waits",
    "release_throttled_mail": "releases throttled mail that is due",
    "purge_raw_mail": "deletes raw mail that is old enough",
    # housekeeping
    "purge_histories": "deletes histories of runs that are old enough",
    "purge_content": "deletes texts that are old enough",
    "report_to_owners": "counts the days and mails owners the last week's report, once",
    "tell_overdue_settlements": "tells operators of refunds that the shop has not paid in time",
    "purge_short_lived": "deletes old logins and other short-lived rows",
    # previews
    "make_previews": "makes pictures of photos that have none",
    # a look-up for a page
    "look_up_order": "looks the order up in the shop's system",
    # the shadow
    "report_on_yesterday": "mails operators what yesterday's comparisons come to, once",
    "choose_mails": "looks for answered mails that the shadow has not been asked about",
    "compare_mail": "asks the shadow's model about a mail, unless that was done",
    # what DBOS itself records
    "DBOS.recv": "waits for a wake-up, or until its time is up",
    "DBOS.sleep": "waits",
    "DBOS.patch": "records which version of the program it began with",
}
_REACHES = {
    "ask_model": Reach.MODEL,
    "write_reply": Reach.MODEL,
    "compare_mail": Reach.MODEL,
    "send_mail": Reach.MAIL,
    "pay_refund": Reach.MONEY,
}
UNKNOWN = "is a step of another version of the program; look at its code before you replay"


def effect_of(step: str) -> str:
    """Return what a step does when it runs again, by its recorded name."""
    return EFFECTS.get("DBOS.patch" if step.startswith("DBOS.patch") else step, UNKNOWN)


# --- rows now -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MailNow:
    """A mail of ours."""

    purpose: Purpose
    to_address: str
    status: OutboundStatus
    sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class DecisionNow:
    """A manager's decision that approves `amount`, or rejects the refund. From `counts_from` on, they
    cannot take it back, and the refund's run applies it."""

    approves: bool
    decided_by: str
    amount: Money
    counts_from: datetime


@dataclass(frozen=True, slots=True)
class RowsNow:
    """The rows that a run is about, as they are now. `unanswered`: how many mails of the customer wait, without
    those that a waiting draft answers; None if the run is about no conversation. `from_team`: how many mails of
    the team wait. `expires_at`: when the approval request of the refund expires. `decision`: what was decided
    on the refund, by both managers if it needs two. `asked`: the gateway may have been asked, so it is looked
    up before it is asked. `held_up`: goods must come back, or items be cancelled, before the payment. `stop`:
    why an approved refund must not be paid any more. `asks_again`: `stop` is only what the shop's system said
    of the order when last asked, and it is asked again before the payment. `cancels`: the shop's system is
    asked for the cancellation that the refund waits for."""

    unanswered: int | None = None
    from_team: int = 0
    draft_ids: tuple[str, ...] = ()
    handed_over: bool = False
    refund: Refund | None = None
    expires_at: datetime | None = None
    decision: DecisionNow | None = None
    asked: bool = False
    held_up: bool = False
    stop: str | None = None
    asks_again: bool = False
    cancels: bool = False
    mails: tuple[MailNow, ...] = ()


def tell_rows(rows: RowsNow, _: Fill = fill) -> tuple[str, ...]:
    """Return sentences about what a replay will do, given these rows. `_` translates them."""
    told = [
        _("An answer waits as a draft: nothing new is written until somebody sends or discards it")
        + f": /ops/drafts/{draft_id}"
        for draft_id in rows.draft_ids
    ]
    if rows.from_team:
        words = _(
            "Mails from the team that wait: %(number)s. Answers among them go to the customer.",
            number=rows.from_team,
        )
        told.append(words)
    if rows.unanswered or (rows.unanswered == 0 and not rows.draft_ids and not rows.from_team):
        told.append(_tell_unanswered(rows.unanswered, rows.handed_over, _))
    if rows.refund is not None:
        told.append(_tell_refund(rows.refund, rows, _))
        if rows.cancels:
            told.append(_(TO_CANCEL, order_id=rows.refund.order_id))
    return (*told, *(_tell_mail(mail, _) for mail in rows.mails))


def _tell_unanswered(count: int, handed_over: bool, _: Fill) -> str:
    if not count:
        return _("No mail of this conversation waits for an answer: nothing new is written.")
    if handed_over:
        return _(
            "Mails that wait: %(number)s. People look after this conversation: it goes to the team.",
            number=count,
        )
    return _("Mails that wait for an answer: %(number)s. The agent answers.", number=count)


def _tell_refund(refund: Refund, rows: RowsNow, _: Fill) -> str:
    decision = rows.decision if refund.status is RefundStatus.AWAITING_APPROVAL else None
    if decision is not None and rows.stop is None:
        return _(
            TO_APPROVE if decision.approves else TO_REJECT,
            amount=decision.amount,
            decided_by=decision.decided_by,
            counts_from=decision.counts_from,
        )
    facts = {
        "amount": decision.amount if decision else refund.amount,
        "reference": refund.gateway_reference,
        "paid_at": refund.paid_at or "–",
        "expires_at": rows.expires_at or "–",
        "state": _(REFUND_STATES[refund.status]),
        "decided_by": decision.decided_by if decision else refund.decided_by or _("the policy"),
    }
    if rows.stop is not None:
        words = HELD_UP_STOPPED if rows.held_up else ASKED_STOPPED if rows.asked else STOPPED
        return _(ASKS_AGAIN if rows.asks_again else words, **facts, why=_(rows.stop))
    if refund.status is RefundStatus.APPROVED and rows.held_up:
        return _(HELD_UP, **facts)
    if refund.status is RefundStatus.APPROVED:
        return _(ASKED if rows.asked else TO_PAY, **facts)
    return _(REFUNDS.get(refund.status, UNCHANGED), **facts)


REFUNDS = {
    RefundStatus.PAID: (
        "The refund of %(amount)s was paid on %(paid_at)s (reference %(reference)s): it is not paid again."
    ),
    RefundStatus.AWAITING_APPROVAL: (
        "The refund of %(amount)s waits for a manager until %(expires_at)s, then it expires: until then links"
        " in earlier mails work, and nothing is paid without a decision."
    ),
}
TO_APPROVE = (
    "The refund of %(amount)s is approved by %(decided_by)s, and that counts from %(counts_from)s on: then it"
    " will be paid, once, after goods or a cancellation that it may wait for."
)
TO_REJECT = (
    "The refund of %(amount)s is rejected by %(decided_by)s, and that counts from %(counts_from)s on: then the"
    " customer is told, and nothing is paid."
)
UNCHANGED = "The refund of %(amount)s is %(state)s: a replay does not change that."
ASKED = (
    "The refund of %(amount)s is to be paid: the gateway may have been asked already, so it is looked up first,"
    " and paid only if it was not."
)
HELD_UP = (
    "The refund of %(amount)s is approved by %(decided_by)s and waits for goods or a cancellation: it will be"
    " paid after that, once."
)
TO_PAY = (
    "The refund of %(amount)s is approved by %(decided_by)s and not paid: it will be paid, once."
)
TO_CANCEL = (
    "Order %(order_id)s, or items of it, are to be cancelled for this refund: unless it has expired, a replay"
    " asks the shop's system for that, even if no manager has decided yet."
)
STOPPED = (
    "The refund of %(amount)s is approved by %(decided_by)s, but as its order is now, a replay does not pay it:"
    " %(why)s. It ends as failed, and the customer is told."
)
ASKED_STOPPED = (
    "The refund of %(amount)s is approved by %(decided_by)s, but as its order is now, no more of it is paid:"
    " %(why)s. The gateway may have been asked already, so it is looked up first: unless it has made the"
    " payment, or is making it, the refund ends as failed, and the customer is told."
)
HELD_UP_STOPPED = (
    "The refund of %(amount)s is approved by %(decided_by)s and waits for goods or a cancellation, but as its"
    " order is now, it is not paid after that: %(why)s. It ends as failed, and the customer is told."
)
ASKS_AGAIN = (
    "The refund of %(amount)s is approved by %(decided_by)s, but the last look-up of its order found: %(why)s."
    " After goods or a cancellation that it may wait for, a replay looks the order up again. If that stays so,"
    " the refund ends as failed, and the customer is told, unless the gateway was asked already and has made"
    " the payment, or is making it. If not, it may be paid."
)


MAILS = {
    Purpose.REPLY: "The answer to %(address)s",
    Purpose.RECEIPT: "The receipt to %(address)s",
    Purpose.REFUND_OUTCOME: "The mail about the refund's outcome to %(address)s",
    Purpose.REMEDY: "The mail about a request beside a refund to %(address)s",
    Purpose.APPROVAL_REQUEST: "The approval request to %(address)s",
    Purpose.HAND_OVER: "The hand-off to the team to %(address)s",
    Purpose.TEAM_REPLY: "The team's answer to %(address)s",
    Purpose.NOTICE: "The notice to %(address)s",
    Purpose.LOGIN: "The login link to %(address)s",
}
SENT = "%(mail)s: sent on %(sent_at)s, it is not sent again."
MAIL_STATES = {
    OutboundStatus.SENT: SENT,
    OutboundStatus.UNDELIVERED: SENT,
    OutboundStatus.QUEUED: "%(mail)s: it has not gone out and is sent, once.",
    OutboundStatus.SENDING: (
        "%(mail)s: it may have gone out. That is found out before anything is sent."
    ),
}
NOT_SENT = "%(mail)s: it is not sent again."


def _tell_mail(mail: MailNow, _: Fill) -> str:
    named = _(MAILS[mail.purpose], address=mail.to_address)
    return _(MAIL_STATES.get(mail.status, NOT_SENT), mail=named, sent_at=mail.sent_at or "–")


# --- replay plan ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One step of a run's history, as DBOS recorded it."""

    number: int
    name: str
    output: Any = None
    error: str | None = None
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A recorded step. `does`: what it does when it runs again, as in EFFECTS. `reach`: what it may reach
    outside our database; None for nothing."""

    number: int
    name: str
    failed: bool
    does: str
    reach: Reach | None


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A replay from step number `start`. `reach`: sentences about mail, money and model calls that it may
    cause. `facts`: sentences about what it will do, given the rows as they are now."""

    start: int
    kept: tuple[PlannedStep, ...]
    again: tuple[PlannedStep, ...]
    reach: tuple[str, ...]
    facts: tuple[str, ...]


# What a workflow may reach after its recorded steps.
_MAY_REACH: Mapping[str, Sequence[Reach]] = {
    "conversation": (Reach.MODEL, Reach.MAIL),
    "refund": (Reach.MONEY, Reach.MAIL),
    "delivery": (Reach.MAIL,),
    "shadow": (Reach.MODEL, Reach.MAIL),
}


def plan_replay(
    workflow: str,
    steps: Sequence[RecordedStep],
    start: int,
    rows: RowsNow | None = None,
    _: Fill = fill,
) -> ReplayPlan:
    planned = [
        PlannedStep(
            step.number,
            step.name,
            failed=step.error is not None,
            does=_(effect_of(step.name)),
            reach=_REACHES.get(step.name),
        )
        for step in steps
    ]
    again = tuple(step for step in planned if step.number >= start)
    return ReplayPlan(
        start=start,
        kept=tuple(step for step in planned if step.number < start),
        again=again,
        reach=tuple(_tell_reach(again, _MAY_REACH.get(workflow, ()), _)),
        facts=() if rows is None else tell_rows(rows, _),
    )


REACHED = {
    Reach.MODEL: "the model may be asked again, which costs tokens",
    Reach.MAIL: "mail is handed to the mail provider, unless it has been sent",
    Reach.MONEY: "the payment gateway is asked, after looking up what was paid",
}


def _tell_reach(again: Sequence[PlannedStep], may_reach: Sequence[Reach], _: Fill) -> Iterator[str]:
    for reach, words in REACHED.items():
        if any(step.reach is reach for step in again):
            yield _("Among the steps that run again: %(words)s.", words=_(words))
        elif reach in may_reach:
            yield _("It may come to this afterwards: %(words)s.", words=_(words))
