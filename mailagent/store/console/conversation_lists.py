"""The console's lists of conversations, such as open or snoozed ones, newest mail first. Each uses an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa

from mailagent.domain.mail.conversation import Progress
from mailagent.store import schema
from mailagent.store.database import Row, in_literals
from mailagent.store.pagination import Cursor, Part, Source, Window, read_part

_threads, _tags = schema.conversations, schema.conversation_tags

TAGS_LISTED = 200


class View(StrEnum):
    OPEN = "open"
    PENDING = "pending"
    SNOOZED = "snoozed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which conversations to list. `owner`: a mail address, or empty for conversations without an owner."""

    view: View
    owner: str | None = None
    tag: str | None = None


def read(connection: sa.Connection, wanted: Wanted, window: Window, now: datetime) -> Part[Row]:
    """Return one page of a list: rows of conversations, each with `at`, the time by which the list is ordered.
    It is the time of the last mail; in the list of snoozed ones, the time until which they are snoozed."""
    return read_part(
        connection,
        [source_of(wanted, now)],
        window,
        lambda row: Cursor(row.at, row.conversation_id),
    )


def source_of(wanted: Wanted, now: datetime) -> Source[Row]:
    """Return where the rows of a list come from."""
    thread, query = _threads.c, sa.select(_threads)
    at: sa.ColumnElement[datetime] = thread.last_mail_at
    if wanted.tag is not None:
        query = query.join(_tags, _tags.c.conversation_id == thread.conversation_id)
        query, at = query.where(_tags.c.tag == wanted.tag), _tags.c.last_mail_at
    if wanted.view is View.SNOOZED:
        at = thread.snoozed_until
        query = query.where(at.is_not(None), at > now)
    else:
        awake = sa.or_(thread.snoozed_until.is_(None), thread.snoozed_until <= now)
        query = query.where(in_literals(thread.progress, Progress(wanted.view)), awake)
    if wanted.owner is not None:
        mine = thread.owner_email == wanted.owner
        query = query.where(mine if wanted.owner else thread.owner_email.is_(None))
    return Source(query.add_columns(at.label("at")), at, thread.conversation_id, lambda row: row)


def list_owed(connection: sa.Connection, conversation_ids: Sequence[str]) -> dict[str, str]:
    """Return what is still to be done by our people in these conversations, even if it is the customer's turn:
    `awaiting_approval` while a refund waits for a manager, else `handed_over` while a task is open."""
    owed: dict[str, str] = {}
    for table, status, words in (
        (schema.remedies.c, "task", "handed_over"),
        (schema.refunds.c, "awaiting_approval", "awaiting_approval"),
    ):
        ids = connection.scalars(
            sa.select(table.conversation_id).where(
                table.conversation_id.in_(conversation_ids), in_literals(table.status, status)
            )
        )
        owed.update(dict.fromkeys(ids, words))
    return owed


def list_tags(connection: sa.Connection) -> list[str]:
    """Return the tags in use, in alphabetical order. The query reads the index once for each tag, not for each
    conversation."""
    first = sa.select(sa.func.min(_tags.c.tag).label("tag")).cte("used", recursive=True)
    following = sa.select(sa.func.min(_tags.c.tag)).where(_tags.c.tag > first.c.tag)
    used = first.union_all(sa.select(following.scalar_subquery()).where(first.c.tag.is_not(None)))
    query = sa.select(used.c.tag).where(used.c.tag.is_not(None)).limit(TAGS_LISTED)
    return list(connection.scalars(query))
