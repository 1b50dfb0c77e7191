"""How the shop's knowledge is used: passages that replies quoted, and questions that no passage answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.store import audit, schema
from mailagent.store.database import Row

_conversations, _mails = schema.conversations, schema.outbound_mails
HANDED_OVER: Final[audit.Action] = "conversation handed over"

# A bound, so that the page is fast in a shop with many mails.
MAILS_COUNTED = 10_000


def count_quoted(
    connection: sa.Connection, since: datetime, most: int = MAILS_COUNTED
) -> Counter[str]:
    """Return how many of our mails quoted each passage, by passage id. It reads mails since a time, and at most
    the latest `most`."""
    quoting = sa.select(_mails.c.sources).where(
        _mails.c.created_at >= since, _mails.c.sources.is_not(None)
    )
    latest = quoting.order_by(_mails.c.created_at.desc()).limit(most).subquery()
    alike = sa.select(latest.c.sources, sa.func.count()).group_by(latest.c.sources)
    found: Counter[str] = Counter()
    for sources, mails in connection.execute(alike):
        for passage_id in {source.partition("@")[0] for source in sources}:
            found[passage_id] += mails
    return found


def select_unanswered(since: datetime, until: datetime) -> sa.Subquery:
    """Return a query of the conversations that were handed over in a time because no passage has an answer, and
    when each was last. Those that were given back since are among them."""
    act, thread, reason = schema.audit.c, _conversations.c, HandOverReason.NOT_IN_KNOWLEDGE.value
    acts = sa.select(act.subject.label("conversation_id"), act.at).where(
        act.action == HANDED_OVER,
        act.at >= since,
        act.at < until,
        act.details["why"].as_string() == reason,
    )
    # An erasure takes the reason out of the audit log, not out of the conversation.
    rows = sa.select(thread.conversation_id, thread.handed_over_at).where(
        thread.handed_over_reason == reason,
        thread.handed_over_at >= since,
        thread.handed_over_at < until,
    )
    found = acts.union_all(rows).subquery().c
    last_at = sa.func.max(found.at).label("handed_over_at")
    return sa.select(found.conversation_id, last_at).group_by(found.conversation_id).subquery()


def list_unanswered(
    connection: sa.Connection, since: datetime, limit: int, until: datetime | None = None
) -> Sequence[Row]:
    """Return the conversations, newest first, that were handed over because no passage has an answer; `in_all`
    of each row is how many there are."""
    found = select_unanswered(since, until or datetime.max.replace(tzinfo=UTC))
    thread, in_all = _conversations.c, sa.func.count().over().label("in_all")
    query = sa.select(thread.conversation_id, thread.subject, found.c.handed_over_at, in_all)
    joined = query.join_from(
        found, _conversations, found.c.conversation_id == thread.conversation_id
    )
    return connection.execute(joined.order_by(found.c.handed_over_at.desc()).limit(limit)).all()
