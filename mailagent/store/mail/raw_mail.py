"""Raw mail: the webhook requests that brought mails, kept for some days, and previews of their photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import Identity, MailKind
from mailagent.store import schema
from mailagent.store.database import Row, count_rows, exists, in_literals, overwrite_deleted

_previews, _mails, _raw = schema.photo_previews, schema.inbound_mails, schema.raw_mails


@dataclass(frozen=True, slots=True)
class RawMail:
    """The webhook request that brought a mail, byte by byte."""

    content_type: str
    body: bytes


def find(connection: sa.Connection, mail_id: str) -> RawMail | None:
    """Return the raw mail of a mail; None if it was purged."""
    query = sa.select(_raw.c.content_type, _raw.c.body).where(_raw.c.mail_id == mail_id)
    row = connection.execute(query).one_or_none()
    return RawMail(row.content_type, bytes(row.body)) if row else None


def list_with_files(connection: sa.Connection, conversation_id: str, limit: int) -> Sequence[Row]:
    """Return, oldest first, those of the newest `limit` customer mails of a thread that have files.
    `kept`: whether the raw mail is still there."""
    query = (
        sa.select(
            _mails.c.mail_id,
            _mails.c.from_address,
            _mails.c.received_at,
            _mails.c.identity,
            _mails.c.attachments,
            _raw.c.mail_id.is_not(None).label("kept"),
        )
        .outerjoin(_raw, _raw.c.mail_id == _mails.c.mail_id)
        .where(
            _mails.c.conversation_id == conversation_id, _mails.c.kind == MailKind.CUSTOMER.value
        )
        .order_by(_mails.c.received_at.desc(), _mails.c.mail_id.desc())
        .limit(limit)
    )
    rows = connection.execute(query).all()
    return [row for row in reversed(rows) if row.attachments]


def count(connection: sa.Connection, before: datetime) -> int:
    """Return how many mails that came before a time still have their raw mail."""
    return count_rows(connection, _raw.c.received_at < before)


def purge(connection: sa.Connection, before: datetime, limit: int) -> int:
    """Delete the raw mail of the oldest `limit` mails that came before a time; return how many were deleted.

    It skips rows that another purge has locked.
    """
    due = connection.scalars(
        sa.select(_raw.c.mail_id)
        .where(_raw.c.received_at < before)
        .order_by(_raw.c.received_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    overwrite_deleted(connection)
    connection.execute(_raw.delete().where(_raw.c.mail_id.in_(due)))
    return len(due)


# --- previews of photos ---------------------------------------------------------------------------

# The `problem` of a photo until its preview is made. If the worker dies, it stays as long as the raw mail.
INTERRUPTED = "making the preview was interrupted"


def list_without_previews(connection: sa.Connection, limit: int) -> Sequence[str]:
    """Return the ids of the newest customer mails with files that no worker has searched for photos.

    Mails of proven senders come first, so that photos of strangers do not delay them.
    """
    none = "'[]'" if connection.dialect.name == "sqlite" else "'[]'::jsonb"
    query = (
        sa.select(_mails.c.mail_id)
        .where(  # the condition of the partial index
            _mails.c.previews_made_at.is_(None),
            in_literals(_mails.c.kind, MailKind.CUSTOMER.value),
            sa.literal_column("attachments") != sa.literal_column(none),
        )
        .order_by(_mails.c.identity == Identity.NONE.value, _mails.c.received_at.desc())
        .limit(limit)
    )
    return connection.scalars(query).all()


def begin_preview(connection: sa.Connection, mail_id: str, number: int, now: datetime) -> bool:
    """Record that a worker begins with photo `number` of a mail. Return False, and record nothing, if one has
    begun before or the raw mail is gone."""
    kept = connection.scalar(
        sa.select(_raw.c.mail_id).where(_raw.c.mail_id == mail_id).with_for_update(read=True)
    )
    if kept is None or exists(connection, _of(mail_id, number)):
        return False
    connection.execute(
        _previews.insert().values(mail_id=mail_id, number=number, problem=INTERRUPTED, made_at=now)
    )
    return True


def record_preview(
    connection: sa.Connection,
    mail_id: str,
    number: int,
    picture: bytes | None,
    problem: str | None,
    now: datetime,
) -> None:
    """Record a photo's preview (`picture`), or why there is none (`problem`). If the raw mail was purged
    meanwhile, change nothing."""
    connection.execute(
        sa.update(_previews)
        .where(_of(mail_id, number))
        .values(picture=picture, problem=problem, made_at=now)
    )


def mark_previews_made(connection: sa.Connection, mail_id: str, now: datetime) -> None:
    connection.execute(
        sa.update(_mails).where(_mails.c.mail_id == mail_id).values(previews_made_at=now)
    )


def find_preview(connection: sa.Connection, mail_id: str, number: int) -> Row | None:
    """Return `picture` and `problem` of a photo; None if no worker has begun with it."""
    return connection.execute(
        sa.select(_previews.c.picture, _previews.c.problem).where(_of(mail_id, number))
    ).one_or_none()


def _of(mail_id: str, number: int) -> sa.ColumnElement[bool]:
    return sa.and_(_previews.c.mail_id == mail_id, _previews.c.number == number)
