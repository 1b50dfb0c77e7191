"""What a replay will do: which recorded steps are kept, which run again, and what each does to mail, money
and the model, by the rows as they are now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mailagent.domain.mail.message import OutboundStatus, Purpose
from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import RefundStatus


class Reach(StrEnum):
    """What a step may reach outside our database."""

    MAIL = "mail"
    MONEY = "money"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class StepEffect:
    """What a step does, as the end of a sentence that begins with its name."""

    does: str
    reaches: frozenset[Reach] = frozenset()


def _does(words: str, *reaches: Reach) -> StepEffect:
    return StepEffect(words, frozenset(reaches))


_UNKNOWN = StepEffect(
    "is a step of another version of the program; look at its code before you replay"
)

EFFECTS: Mapping[str, StepEffect] = {
    # a conversation
    "take_batch": _does("looks which mails of the thread are unanswered"),
    "ask_model": _does(
        "asks the model again, which costs tokens, and looks up what it wants to know", Reach.MODEL
    ),
    "propose_refund": _does(
        "asks the policy; the same wish is the same refund, and a refund is paid by its own run only"
    ),
    "withdraw_refund": _does("takes back a refund that still waits; once is for ever"),
    "offer_goodwill": _does("gives a discount code, unless the order has had one"),
    "write_reply": _does("writes the answer to the customer, unless one was written"),
    "put_off": _does("notes that the mail waits until the model may be asked again"),
    "hand_over": _does("gives the conversation to the team, unless nothing waits any more"),
    "forward_team_replies": _does("writes the team's words to the customer, unless that was done"),
    "pass_on_to_people": _does("writes the mail to the team, unless that was done"),
    "stop_loop": _does("leaves the mail to people, unless that was done"),
    "send_mail": _does("hands the mail to SendGrid, unless that has happened", Reach.MAIL),
    # a refund
    "claim_refund": _does(
        "makes this run the one that looks after the refund, and writes to the manager, unless that was"
        " done; older links still work"
    ),
    "look_at_decision": _does("looks whether somebody has decided"),
    "pay_refund": _does(
        "asks the payment gateway under the refund's own key, after looking up what was paid",
        Reach.MONEY,
    ),
    "tell_customer": _does("writes to the customer how the refund ended, unless that was done"),
    # mail of ours
    "look_at_delivery": _does("looks how far the mail is"),
    # the sweep
    "report_failed_runs": _does("tells operators what failed, once for each incident"),
    "take_over_runs": _does("queues the runs again whose worker is gone"),
    "enqueue_mail": _does("enqueues mail that waits"),
    "enqueue_refunds": _does("enqueues refunds that wait"),
    "enqueue_deliveries": _does("enqueues mail of ours that waits"),
    "release_throttled_mail": _does("lets throttled mail in, as far as it is due"),
    "purge_raw_mail": _does("deletes raw mail that is old enough"),
    # housekeeping
    "purge_histories": _does("deletes histories of runs that are old enough"),
    "purge_content": _does("takes out what was said long enough ago"),
    "purge_short_lived": _does("deletes old logins and the like"),
    # previews
    "make_previews": _does("makes pictures of photos that have none"),
    # what DBOS itself records
    "DBOS.recv": _does("waits for a wake-up, or until its time is up"),
    "DBOS.sleep": _does("waits"),
    "DBOS.patch": _does("notes which version of the program it began with"),
}


def effect_of(step: str) -> StepEffect:
    """Return what a step does when it runs again, by its recorded name."""
    return EFFECTS.get(step) or (
        EFFECTS["DBOS.patch"] if step.startswith("DBOS.patch") else _UNKNOWN
    )


# --- rows now -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MailNow:
    """A mail of ours."""

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
    # Whether the gateway was called and its answer is not known.
    asked: bool = False


@dataclass(frozen=True, slots=True)
class RowsNow:
    """What a run is about, as it is now. `unanswered` leaves out mail that a waiting draft answers."""

    unanswered: int | None = None
    draft_ids: tuple[str, ...] = ()
    handed_over: bool = False
    refund: RefundNow | None = None
    mails: tuple[MailNow, ...] = ()


def tell_rows(rows: RowsNow) -> tuple[str, ...]:
    """Return what a replay does as the rows are now, in one sentence for each fact."""
    told = [
        "An answer waits as a draft: nothing new is written until somebody sends or discards it: "
        f"/ops/drafts/{draft_id}"
        for draft_id in rows.draft_ids
    ]
    if rows.unanswered or (rows.unanswered == 0 and not rows.draft_ids):
        told.append(_tell_unanswered(rows.unanswered, rows.handed_over))
    if rows.refund is not None:
        told.append(_tell_refund(rows.refund))
    return (*told, *map(_tell_mail, rows.mails))


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


# --- replay plan ----------------------------------------------------------------------------------


class Recorded(Protocol):
    """A step of a run's history."""

    @property
    def number(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def error(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A recorded step, and what it would do if it ran again."""

    number: int
    name: str
    failed: bool
    effect: StepEffect


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A replay from step `start`. `may_reach`: what the run may reach after the recorded steps; `facts`:
    sentences about what the replay does as the rows are now."""

    start: int
    kept: tuple[PlannedStep, ...]
    again: tuple[PlannedStep, ...]
    may_reach: frozenset[Reach]
    facts: tuple[str, ...]

    @property
    def reaches(self) -> frozenset[Reach]:
        """Return what the steps that run again reach."""
        return frozenset[Reach]().union(*(step.effect.reaches for step in self.again))


# What a workflow may reach when it goes on.
_MAY_REACH: Mapping[str, frozenset[Reach]] = {
    "conversation": frozenset({Reach.MODEL, Reach.MAIL}),
    "refund": frozenset({Reach.MONEY, Reach.MAIL}),
    "delivery": frozenset({Reach.MAIL}),
}


def plan_replay(
    workflow: str, steps: Sequence[Recorded], start: int, rows: RowsNow | None = None
) -> ReplayPlan:
    planned = [
        PlannedStep(step.number, step.name, step.error is not None, effect_of(step.name))
        for step in steps
    ]
    return ReplayPlan(
        start=start,
        kept=tuple(step for step in planned if step.number < start),
        again=tuple(step for step in planned if step.number >= start),
        may_reach=_MAY_REACH.get(workflow, frozenset()),
        facts=() if rows is None else tell_rows(rows),
    )


_AMONG = {
    Reach.MODEL: "the model is asked again, which costs tokens",
    Reach.MAIL: "mail is handed to SendGrid, unless it has been sent",
    Reach.MONEY: "the payment gateway is asked, after looking up what was paid",
}


def tell_reach(plan: ReplayPlan) -> tuple[str, ...]:
    """Return a sentence for each thing outside that the replay reaches, or may reach."""
    told = []
    for reach, words in _AMONG.items():
        if reach in plan.reaches:
            told.append(f"Among the steps that run again: {words}.")
        elif reach in plan.may_reach:
            told.append(f"It may come to this afterwards: {words}.")
    return tuple(told)
