"""Drafts: answers of the agent that wait for somebody's click, in a shop's first weeks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

LONGEST_ANSWER = 10_000  # characters


class DraftReplies(StrEnum):
    """Which answers of the agent wait for a click (`DRAFT_REPLIES`)."""

    NONE = "none"
    ALL = "all"
    REFUNDS = "refunds"  # given while money was spoken of


class DraftRefunds(StrEnum):
    """Which refunds wait that the policy would pay without asking (`DRAFT_REFUNDS`)."""

    NONE = "none"
    ALL = "all"  # but for what the policy's table `draft` lets through


class DraftState(StrEnum):
    WAITING = "waiting"
    SENT = "sent"  # as the agent wrote it
    EDITED = "edited"  # sent with somebody's changes
    DISCARDED = "discarded"
    SUPERSEDED = "superseded"  # the customer wrote again, or people took the conversation


class Topic(StrEnum):
    """What an answer is about, by the rows that it was given on."""

    REFUND = "refund"  # one was proposed
    WITHDRAWAL = "withdrawal"  # one was withdrawn
    GOODWILL = "goodwill"  # a discount was given
    REMEDY = "remedy"  # an exchange or the like was asked for
    ORDERS = "orders"  # one is named
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
    """An answer of the agent that waits, or waited, for somebody. `text` is as the agent wrote it."""

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
    """Decide whether an answer on these topics waits for somebody's click."""
    match setting:
        case DraftReplies.ALL:
            return True
        case DraftReplies.REFUNDS:
            return not MONEY.isdisjoint(topics)
        case DraftReplies.NONE:
            return False
