"""Saved replies as rows."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.mail.saved_reply import REPLIES_MAX, SavedReply
from mailagent.store import schema
from mailagent.store.database import columns_of, exists, from_row, update_rows

_replies = schema.saved_replies


def list_all(connection: sa.Connection) -> list[SavedReply]:
    query = sa.select(_replies).order_by(_replies.c.name).limit(REPLIES_MAX)
    return [from_row(SavedReply, row) for row in connection.execute(query)]


def find(connection: sa.Connection, saved_reply_id: str) -> SavedReply | None:
    query = sa.select(_replies).where(_replies.c.saved_reply_id == saved_reply_id)
    row = connection.execute(query).one_or_none()
    return from_row(SavedReply, row) if row else None


def is_name_taken(connection: sa.Connection, name: str, but: str) -> bool:
    """Return whether another saved reply has this name."""
    return exists(connection, _replies.c.name == name, _replies.c.saved_reply_id != but)


def save(connection: sa.Connection, reply: SavedReply) -> None:
    """Record a saved reply, or replace the one with its id. Raises IntegrityError if another one has its
    name."""
    here = _replies.c.saved_reply_id == reply.saved_reply_id
    values = columns_of(_replies, reply)
    if not update_rows(connection, _replies, here, **values):
        connection.execute(_replies.insert().values(**values))


def delete(connection: sa.Connection, saved_reply_id: str) -> bool:
    here = _replies.c.saved_reply_id == saved_reply_id
    return connection.execute(_replies.delete().where(here)).rowcount > 0
