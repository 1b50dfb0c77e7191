"""How the shop's knowledge is used: passages that replies quoted, and questions that no passage answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.store import schema
from mailagent.store.database import Row

_conversations, _mails = schema.conversations, schema.outbound_mails


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


def list_unanswered(
    connection: sa.Connection, since: datetime, limit: int, until: datetime | None = None
) -> Sequence[Row]:
    """Return the conversations, newest first, that were handed over because no passage has an answer."""
    query = sa.select(
        _conversations.c.conversation_id,
        _conversations.c.subject,
        _conversations.c.handed_over_at,
    ).where(
        _conversations.c.handed_over_reason == HandOverReason.NOT_IN_KNOWLEDGE.value,
        _conversations.c.handed_over_at >= since,
    )
    if until is not None:
        query = query.where(_conversations.c.handed_over_at < until)
    return connection.execute(
        query.order_by(_conversations.c.handed_over_at.desc()).limit(limit)
    ).all()
