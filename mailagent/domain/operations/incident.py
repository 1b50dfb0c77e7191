"""Incidents: their titles, and what operators should do. Operators get one mail for each incident. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mailagent.domain.operations.provider import NO_SOURCE, Provider, ProviderKind, Providers
from mailagent.domain.text import Fill, fill


class IncidentKind(StrEnum):
    """A problem that concerns all mail or all refunds, until it is over."""

    OPENAI = "provider:openai"
    MAIL_PROVIDER = "provider:mail"
    GATEWAY = "provider:gateway"
    ORDER_SOURCE = "provider:orders"
    ORDER_RECORDS = "order_records"
    LOOP_DETECTED = "loop_detected"
    THROTTLED = "throttled"
    BUDGET_NEAR = "budget:near"
    BUDGET_SPENT = "budget:spent"


@dataclass(frozen=True, slots=True)
class IncidentText:
    """The words for an incident. `title`: for a mail's subject or a banner. `to_do`: what operators should do.
    `means`: what stops, for people who cannot fix it; empty if nothing stops. In `title` and `to_do`,
    `%(title)s` is the provider and `%(key)s` the setting with its key."""

    title: str
    to_do: str
    means: str = ""

    def about(self, provider: Provider | None, _: Fill) -> IncidentText:
        """Return the text, translated by `_`, with the names of a provider."""
        named = {"title": provider.title, "key": provider.key_setting} if provider else {}
        return IncidentText(_(self.title, **named), _(self.to_do, **named), _(self.means))


INCIDENTS: Mapping[IncidentKind, IncidentText] = {
    IncidentKind.OPENAI: IncidentText(
        "The model's provider refuses us: no mail is answered",
        "Check %(key)s, OPENAI_MODEL and the account, put them right and restart. Mail that waits is "
        "then answered by itself; replay runs that have failed.",
        "Mail is not being answered at the moment.",
    ),
    IncidentKind.MAIL_PROVIDER: IncidentText(
        "%(title)s refuses us: no mail goes out",
        "Check %(key)s and the account, put them right and restart. Mail that waits then goes out by itself; "
        "after three days it is given up.",
        "Mail of ours does not go out at the moment.",
    ),
    IncidentKind.GATEWAY: IncidentText(
        "%(title)s refuses our key: no refund is paid",
        "Check %(key)s, put it right and restart. Refunds that wait are then paid by themselves; "
        "replay the runs that have failed meanwhile.",
        "Refunds are not being paid at the moment.",
    ),
    IncidentKind.ORDER_SOURCE: IncidentText(
        "%(title)s refuses us, or breaks its contract: no refund is decided or paid",
        "Check %(key)s and ORDER_SOURCE_URL with `flask orders check-source`, put them right and restart. Mail "
        "and refunds that wait then go on by themselves.",
        "Refunds are not being decided or paid at the moment.",
    ),
    IncidentKind.ORDER_RECORDS: IncidentText(
        "%(title)s sends orders that cannot be taken",
        "Their customers get no refund until the record is right, and mail about them goes to the team in "
        "time. Check it with `flask orders check-source --order ID`. If that finds nothing wrong, the record "
        "contradicts refunds of the order: `flask orders show ID` shows what they rest on.",
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
# The incident that is open while a provider of this kind refuses us.
OUTAGES: Mapping[ProviderKind, IncidentKind] = {
    ProviderKind.MODEL: IncidentKind.OPENAI,
    ProviderKind.MAIL: IncidentKind.MAIL_PROVIDER,
    ProviderKind.GATEWAY: IncidentKind.GATEWAY,
    ProviderKind.ORDERS: IncidentKind.ORDER_SOURCE,
}

# The words of the mail to the operators. About the mail provider, the mail arrives only after the incident.
_MAILED: Mapping[IncidentKind, IncidentText] = {
    **INCIDENTS,
    IncidentKind.MAIL_PROVIDER: IncidentText(
        "%(title)s has refused mail of ours",
        "It takes mail again, as this one shows: what waited goes out by itself, and nothing is lost. If it "
        "comes again check %(key)s, the sender and the account. If a single mail is refused, its "
        "people are told.",
    ),
}


def tell_incident(
    incident: IncidentKind, providers: Providers, _: Fill = fill, *, mailed: bool = False
) -> IncidentText:
    """Return the words for an incident, translated by `_`. `mailed`: the words of the mail to the operators,
    else those of pages."""
    provider = {
        IncidentKind.OPENAI: providers.model,
        IncidentKind.MAIL_PROVIDER: providers.mail,
        IncidentKind.GATEWAY: providers.gateway,
        IncidentKind.ORDER_SOURCE: providers.orders or NO_SOURCE,
        IncidentKind.ORDER_RECORDS: providers.orders or NO_SOURCE,
    }.get(incident)
    return (_MAILED if mailed else INCIDENTS)[incident].about(provider, _)


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """An open incident. `why`: the error that opened it; later ones are not recorded."""

    incident: IncidentKind
    since: datetime
    why: str

    @property
    def is_outage(self) -> bool:
        """Whether it stops all mail or all refunds."""
        return bool(INCIDENTS[self.incident].means)
