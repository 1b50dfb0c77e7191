"""The pictures that workers make of photos, and why there is none of some. They go with the raw mail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import Identity, MailKind
from mailagent.store import schema
from mailagent.store.database import Row

_previews, _mails, _raw = schema.photo_previews, schema.inbound_mails, schema.raw_mails

# Of a photo under way, and of one that took the worker with it.
INTERRUPTED = "making the preview was interrupted"

# As the partial index says it, which is found by constants only.
_WITHOUT = sa.and_(
    _mails.c.previews_made_at.is_(None),
    _mails.c.kind == sa.literal_column(f"'{MailKind.CUSTOMER.value}'"),
)


def list_mails_without(connection: sa.Connection, limit: int) -> Sequence[str]:
    """Return the newest customer mails with files of which no worker has looked for photos.

    Those of proven senders come first, so that photos of strangers do not hold them up.
    """
    none = "'[]'" if connection.dialect.name == "sqlite" else "'[]'::jsonb"
    query = (
        sa.select(_mails.c.mail_id)
        .where(_WITHOUT, sa.literal_column("attachments") != sa.literal_column(none))
        .order_by(_mails.c.identity == Identity.NONE.value, _mails.c.received_at.desc())
        .limit(limit)
    )
    return connection.scalars(query).all()


def begin(connection: sa.Connection, mail_id: str, number: int, now: datetime) -> bool:
    """Record that the photo `number` of a mail is tried; return whether it may be: not a second time, and
    not when the raw mail is gone."""
    kept = connection.scalar(
        sa.select(_raw.c.mail_id).where(_raw.c.mail_id == mail_id).with_for_update(read=True)
    )
    tried = _of(mail_id, number)
    if kept is None or connection.scalar(sa.select(sa.exists().where(tried))):
        return False
    connection.execute(
        _previews.insert().values(mail_id=mail_id, number=number, problem=INTERRUPTED, made_at=now)
    )
    return True


def record(
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


def mark_made(connection: sa.Connection, mail_id: str, now: datetime) -> None:
    """Record that every photo of a mail was tried."""
    connection.execute(
        sa.update(_mails).where(_mails.c.mail_id == mail_id).values(previews_made_at=now)
    )


def find(connection: sa.Connection, mail_id: str, number: int) -> Row | None:
    """Return `picture` and `problem` of a photo, or None if it was not tried yet."""
    return connection.execute(
        sa.select(_previews.c.picture, _previews.c.problem).where(_of(mail_id, number))
    ).one_or_none()


def _of(mail_id: str, number: int) -> sa.ColumnElement[bool]:
    return sa.and_(_previews.c.mail_id == mail_id, _previews.c.number == number)
