"""What the page of drafts says of earlier ones: figures from rows, and what could be turned off."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.draft import DraftReplies, Topic
from mailagent.domain.draft_figures import Tally, advise, tally
from mailagent.store import drafted_refunds, drafts

REFUNDS_COUNTED = 1000
WINDOWS = (("in_7_days", "7 days"), ("in_30_days", "30 days"), ("in_90_days", "90 days"))


@dataclass(frozen=True, slots=True)
class Figures:
    """`windows` and `topics` are names with tallies; `refunds` counts outcomes in 30 days."""

    windows: tuple[tuple[str, Tally], ...]
    topics: tuple[tuple[str, Tally], ...]
    refunds: dict[str, int]
    advice: tuple[str, ...]
    drafts_replies: DraftReplies
    drafts_refunds: bool


def gather(connection: sa.Connection) -> Figures:
    """Return the figures of the last drafts, and of the refunds that waited because of draft mode."""
    live = services.current()
    week, month, quarter = (live.now() - timedelta(days=each) for each in (7, 30, 90))
    counts = drafts.count_by_topics(connection, week, month, quarter)
    refunds = drafted_refunds.list_since(connection, month, REFUNDS_COUNTED)
    topics = [(topic.value, tally(counts, "in_30_days", topic)) for topic in Topic]
    return Figures(
        windows=tuple((words, tally(counts, window)) for window, words in WINDOWS),
        topics=tuple((name, found) for name, found in topics if found.decided),
        refunds=dict(Counter(each.outcome for each in refunds)),
        advice=tuple(advise(live.draft_replies, counts, live.policy, refunds)),
        drafts_replies=live.draft_replies,
        drafts_refunds=live.policy.drafts_refunds,
    )
