"""Incidents: their titles, and what operators do about them. Operators are told once for each incident.
Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class IncidentKind(StrEnum):
    """A problem that concerns all mail or all refunds, until it is over."""

    OPENAI = "provider:openai"
    SENDGRID = "provider:sendgrid"
    STRIPE = "provider:stripe"
    LOOP_DETECTED = "loop_detected"
    THROTTLED = "throttled"
    BUDGET_NEAR = "budget:near"
    BUDGET_SPENT = "budget:spent"


@dataclass(frozen=True, slots=True)
class IncidentText:
    """`title` for a subject or a banner; `to_do` in one or two sentences; `means`: what stops, for people who
    cannot fix it."""

    title: str
    to_do: str
    means: str = ""


WORDS = {
    IncidentKind.OPENAI: IncidentText(
        "The model's provider refuses us: no mail is answered",
        "Check OPENAI_API_KEY, OPENAI_MODEL and the account, put them right and restart. Mail that waits is "
        "then answered by itself; replay runs that have failed.",
        "Mail is not being answered at the moment.",
    ),
    IncidentKind.SENDGRID: IncidentText(
        "SendGrid refuses us: no mail goes out",
        "Check SENDGRID_API_KEY and the account, put them right and restart. Mail waits for three days "
        "and then goes out by itself.",
        "Mail of ours does not go out at the moment.",
    ),
    IncidentKind.STRIPE: IncidentText(
        "Stripe refuses our key: no refund is paid",
        "Check STRIPE_API_KEY, put it right and restart. Refunds that wait are then paid by themselves; "
        "replay the runs that have failed meanwhile.",
        "Refunds are not being paid at the moment.",
    ),
    IncidentKind.LOOP_DETECTED: IncidentText(
        "The loop guard has tripped: the agent has stopped answering a conversation",
        "So many answers went out within an hour that a machine may be writing. The team has the case; "
        '"Back to the agent" sets the loop guard back.',
    ),
    IncidentKind.THROTTLED: IncidentText(
        "Mail is throttled: more comes in than the limits allow",
        "It is kept and released by itself, bit by bit. Check who writes so much.",
    ),
    IncidentKind.BUDGET_NEAR: IncidentText(
        "Today's budget for the model is nearly spent",
        "When it is spent, mail waits for the next day (UTC). Look at /ops/model, and raise "
        "OPENAI_DAILY_BUDGET if the mail is worth it.",
    ),
    IncidentKind.BUDGET_SPENT: IncidentText(
        "Today's budget for the model is spent: no further mail is answered",
        "It waits for the next day (UTC) and then goes on by itself; what is not answered in time then goes "
        "to the team. To go on at once raise OPENAI_DAILY_BUDGET and restart the workers.",
        "Mail is not being answered now: today's budget for the model is spent.",
    ),
}

# The text of the mail, if the mail can arrive only after the incident is over.
MAILED = WORDS | {
    IncidentKind.SENDGRID: IncidentText(
        "SendGrid has refused mail of ours",
        "It takes mail again, as this one shows: what waited goes out by itself, and nothing is lost. If it "
        "comes again check SENDGRID_API_KEY, the sender and the account. If a single mail is refused, its "
        "people are told.",
    )
}


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """An open incident, and its first cause."""

    incident: IncidentKind
    since: datetime
    why: str

    @property
    def text(self) -> IncidentText:
        return WORDS[self.incident]

    @property
    def is_outage(self) -> bool:
        """Whether it stops all mail or all refunds."""
        return bool(self.text.means)
