"""The requests that brought mails, kept for a while, with the pictures that workers make of their photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import Identity, MailKind
from mailagent.store import schema
from mailagent.store.database import Row, exists, is_constant, overwrite_deleted

_previews, _mails, _raw = schema.photo_previews, schema.inbound_mails, schema.raw_mails


@dataclass(frozen=True, slots=True)
class RawMail:
    """The request that brought a mail, exactly as it came."""

    content_type: str
    body: bytes


def find(connection: sa.Connection, mail_id: str) -> RawMail | None:
    """Return the request that brought a mail, or None when it was purged."""
    query = sa.select(_raw.c.content_type, _raw.c.body).where(_raw.c.mail_id == mail_id)
    row = connection.execute(query).one_or_none()
    return RawMail(row.content_type, bytes(row.body)) if row else None


def list_with_files(connection: sa.Connection, conversation_id: str, limit: int) -> Sequence[Row]:
    """Return the newest customer mails of a thread that brought files, oldest of them first, each with
    whether its raw bytes are still there (`kept`)."""
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
            _mails.c.conversation_id == conversation_id,
            _mails.c.kind == MailKind.CUSTOMER.value,
        )
        .order_by(_mails.c.received_at.desc(), _mails.c.mail_id.desc())
        .limit(limit)
    )
    rows = connection.execute(query).all()
    return [row for row in reversed(rows) if row.attachments]


def count(connection: sa.Connection, before: datetime) -> int:
    """Return of how many mails that came before a time the raw bytes are kept."""
    query = sa.select(sa.func.count()).select_from(_raw).where(_raw.c.received_at < before)
    return connection.scalar(query) or 0


def purge(connection: sa.Connection, before: datetime, limit: int) -> int:
    """Delete the raw bytes of the oldest mails that came before a time; return of how many.

    Rows that another purge has locked are skipped.
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

# The problem of a photo until its preview is made, and for ever if the worker died of it.
INTERRUPTED = "making the preview was interrupted"


def list_without_previews(connection: sa.Connection, limit: int) -> Sequence[str]:
    """Return the newest customer mails with files that no worker has searched for photos.

    Those of proven senders come first, so that photos of strangers do not hold them up.
    """
    none = "'[]'" if connection.dialect.name == "sqlite" else "'[]'::jsonb"
    query = (
        sa.select(_mails.c.mail_id)
        .where(  # the condition of the partial index
            _mails.c.previews_made_at.is_(None),
            is_constant(_mails.c.kind, MailKind.CUSTOMER.value),
            sa.literal_column("attachments") != sa.literal_column(none),
        )
        .order_by(_mails.c.identity == Identity.NONE.value, _mails.c.received_at.desc())
        .limit(limit)
    )
    return connection.scalars(query).all()


def begin_preview(connection: sa.Connection, mail_id: str, number: int, now: datetime) -> bool:
    """Record that the photo `number` of a mail is tried; return whether it may be: not a second time, and
    not when the raw mail is gone."""
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
    """Record what came of a try. Nothing happens when the raw mail went meanwhile."""
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
    """Return `picture` and `problem` of a photo, or None if it was not tried yet."""
    return connection.execute(
        sa.select(_previews.c.picture, _previews.c.problem).where(_of(mail_id, number))
    ).one_or_none()


def _of(mail_id: str, number: int) -> sa.ColumnElement[bool]:
    return sa.and_(_previews.c.mail_id == mail_id, _previews.c.number == number)
