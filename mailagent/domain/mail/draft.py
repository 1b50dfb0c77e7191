"""Drafts: answers of the agent that wait until a person sends, edits or discards them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

LONGEST_ANSWER = 10_000  # characters


class DraftReplies(StrEnum):
    """Which answers of the agent become drafts (the setting `DRAFT_REPLIES`)."""

    NONE = "none"
    ALL = "all"
    REFUNDS = "refunds"  # answers with a topic of `MONEY`


class DraftRefunds(StrEnum):
    """Which refunds wait for a manager although the policy would pay them at once (`DRAFT_REFUNDS`)."""

    NONE = "none"
    ALL = "all"  # except those that the policy's table `draft` lets through


class DraftState(StrEnum):
    WAITING = "waiting"
    SENT = "sent"  # as the agent wrote it
    EDITED = "edited"  # sent after a person changed it
    DISCARDED = "discarded"
    SUPERSEDED = "superseded"  # the customer wrote again, or people took over the conversation


class Topic(StrEnum):
    """What an answer is about. We read it from the rows that the run wrote or named, not from the text."""

    REFUND = "refund"  # the agent proposed one, changed one, or offered part of one
    WITHDRAWAL = "withdrawal"  # the agent withdrew a refund
    GOODWILL = "goodwill"  # the agent gave a discount
    REMEDY = "remedy"  # the customer asked for an exchange or another remedy, or withdrew it
    ORDERS = "orders"  # the answer names one
    OTHER = "other"


DRAFT_TOPICS: Mapping[str, str] = {
    Topic.REFUND: "a refund",
    Topic.WITHDRAWAL: "a refund that is withdrawn",
    Topic.GOODWILL: "a discount",
    Topic.REMEDY: "a request beside a refund",
    Topic.ORDERS: "an order",
    Topic.OTHER: "another matter",
}

MONEY = frozenset({Topic.REFUND, Topic.WITHDRAWAL, Topic.GOODWILL, Topic.REMEDY})


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer of the agent that waits, or waited, for a person. `text` is the agent's, before any edit.
    `mail_ids`: the inbound mails that it answers. `outbound_id`: the mail that it became, once sent."""

    draft_id: str
    conversation_id: str
    mail_ids: tuple[str, ...]
    topics: tuple[str, ...]
    text: str
    state: DraftState
    created_at: datetime
    decided_by: str | None = None
    decided_at: datetime | None = None
    outbound_id: str | None = None
    composition: str | None = None

    @property
    def waits(self) -> bool:
        return self.state is DraftState.WAITING


def waits_for_click(setting: DraftReplies, topics: Collection[Topic]) -> bool:
    """Decide whether an answer on these topics becomes a draft."""
    match setting:
        case DraftReplies.ALL:
            return True
        case DraftReplies.REFUNDS:
            return not MONEY.isdisjoint(topics)
        case DraftReplies.NONE:
            return False
