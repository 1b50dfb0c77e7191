"""Customers' votes on our answers: one for each answer; the first one stays.
It stands apart from the page that takes votes, because only `store` has SQL."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import exists, insert_once

_votes, _mails, _conversations = schema.votes, schema.inbound_mails, schema.conversations


def record(connection: sa.Connection, mail_id: str, helped: bool, now: datetime) -> None:
    """Record whether the answer to a mail helped, unless it has a vote."""
    insert_once(connection, _votes, {"mail_id": mail_id, "helped": helped, "at": now}, "mail_id")


def is_recorded(connection: sa.Connection, mail_id: str) -> bool:
    return exists(connection, _votes.c.mail_id == mail_id)


def find_language(connection: sa.Connection, mail_id: str) -> str | None:
    """Return the language of the conversation that a mail belongs to."""
    query = sa.select(_conversations.c.language).join(
        _mails, _mails.c.conversation_id == _conversations.c.conversation_id
    )
    return connection.scalar(query.where(_mails.c.mail_id == mail_id))
