"""What was said long ago goes: texts, subjects and names of mail, in place, in conversations that are quiet
and have nothing open. Addresses, times and states stay, and so do money, decisions and the audit trail.

An erasure takes more, and at once: that is in `erasure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus
from mailagent.store import schema
from mailagent.store.operations import step_texts
from mailagent.store.privacy.open_cases import UNDECIDED, UNSENT, nothing_is_open

_threads, _drafts, _notes = schema.conversations, schema.drafts, schema.approval_notes
_inbound, _outbound, _events = schema.inbound_mails, schema.outbound_mails, schema.delivery_events
_raw = schema.raw_mails

_WORDS_IN = {"from_name": "", "subject": "", "body": "", "new_text": "", "attachments": []}
_WORDS_OUT = {"subject": "", "text": "", "html": None, "error": None}


def _quiet(before: datetime, since: datetime | None) -> sa.ColumnElement[bool]:
    """Return the question which conversations are quiet since a time, have words, and nothing open."""
    thread, written = _threads.c, _outbound.c
    said_since = sa.exists().where(
        written.conversation_id == thread.conversation_id,
        written.created_at > thread.words_purged_at,
    )
    has_words = sa.or_(
        thread.words_purged_at.is_(None),
        thread.words_purged_at < thread.last_mail_at,
        said_since,
    )
    written_lately = sa.exists().where(
        written.conversation_id == thread.conversation_id, written.created_at >= before
    )
    quiet = sa.and_(thread.last_mail_at < before, has_words, ~written_lately)
    quiet = sa.and_(quiet, nothing_is_open(thread.conversation_id))
    return quiet if since is None else sa.and_(quiet, thread.last_mail_at >= since)


def _loose_in(before: datetime, since: datetime | None) -> sa.ColumnElement[bool]:
    """Return the question which mails of no conversation are old: of machines, of managers."""
    mail = _inbound.c
    old = sa.and_(
        mail.status == MailStatus.NO_ANSWER.value,
        mail.conversation_id.is_(None),
        mail.received_at < before,
        sa.or_(mail.body != "", mail.subject != "", mail.from_name != ""),
    )
    return old if since is None else sa.and_(old, mail.received_at >= since)


def _loose_out(before: datetime, since: datetime | None) -> sa.ColumnElement[bool]:
    """Return the question which mails of ours outside of conversations are old."""
    mail, refund = _outbound.c, schema.refunds.c
    # What a manager was asked tells their own words from the request's when they answer.
    undecided = sa.exists().where(refund.refund_id == mail.refund_id, refund.status.in_(UNDECIDED))
    old = sa.and_(
        mail.conversation_id.is_(None),
        mail.created_at < before,
        mail.status.not_in(UNSENT),
        mail.text != "",
        ~undecided,
    )
    return old if since is None else sa.and_(old, mail.created_at >= since)


def count(connection: sa.Connection, before: datetime) -> dict[str, int]:
    """Return how many conversations, and mails outside of any, have words that are to go."""
    threads = sa.select(sa.func.count()).select_from(_threads).where(_quiet(before, None))
    came = sa.select(sa.func.count()).select_from(_inbound).where(_loose_in(before, None))
    went = sa.select(sa.func.count()).select_from(_outbound).where(_loose_out(before, None))
    loose = (connection.scalar(came) or 0) + (connection.scalar(went) or 0)
    return {"conversations": connection.scalar(threads) or 0, "mails": loose}


def purge_conversations(
    connection: sa.Connection, before: datetime, since: datetime | None, now: datetime, limit: int
) -> int:
    """Take the words out of conversations that are quiet since `before`, the oldest first; return of how
    many. `since` leaves out those that were quiet before that, which have been seen to."""
    key = _threads.c.conversation_id
    ids = connection.scalars(
        sa.select(key)
        .where(_quiet(before, since))
        .order_by(_threads.c.last_mail_at)
        .limit(limit)
        .with_for_update(skip_locked=True, of=_threads)
    ).all()
    if not ids:
        return 0
    _overwrite_on_sqlite(connection)
    came = _ids(connection, _inbound.c.mail_id, _inbound.c.conversation_id.in_(ids))
    of_refunds = sa.select(schema.refunds.c.refund_id).where(
        schema.refunds.c.conversation_id.in_(ids)
    )
    about = sa.or_(_outbound.c.conversation_id.in_(ids), _outbound.c.refund_id.in_(of_refunds))
    _blank_in(connection, came)
    _blank_out(connection, _ids(connection, _outbound.c.outbound_id, about))
    step_texts.delete_of_conversations(connection, ids)
    connection.execute(_drafts.update().where(_drafts.c.conversation_id.in_(ids)).values(text=""))
    values = {"subject": "", "words_purged_at": now}
    connection.execute(_threads.update().where(key.in_(ids)).values(**values))
    return len(ids)


def purge_loose(
    connection: sa.Connection, before: datetime, since: datetime | None, limit: int
) -> int:
    """Take the words out of the oldest mails outside of conversations; return of how many."""
    came = _locked(connection, _inbound.c.mail_id, _loose_in(before, since), limit)
    went = _locked(connection, _outbound.c.outbound_id, _loose_out(before, since), limit)
    if came or went:
        _overwrite_on_sqlite(connection)
    _blank_in(connection, came)
    _blank_out(connection, went)
    return len(came) + len(went)


def _blank_in(connection: sa.Connection, mail_ids: Sequence[str]) -> None:
    if mail_ids:
        _set(connection, _inbound.c.mail_id, mail_ids, _WORDS_IN)
        _set(connection, _notes.c.mail_id, mail_ids, {"text": ""})
        connection.execute(_raw.delete().where(_raw.c.mail_id.in_(mail_ids)))


def _blank_out(connection: sa.Connection, outbound_ids: Sequence[str]) -> None:
    if outbound_ids:
        _set(connection, _outbound.c.outbound_id, outbound_ids, _WORDS_OUT)
        # Mail servers say to whom they would not deliver.
        _set(connection, _events.c.outbound_id, outbound_ids, {"reason": None})


def _set(
    connection: sa.Connection, key: sa.Column[str], ids: Sequence[str], values: dict[str, Any]
) -> None:
    connection.execute(sa.update(key.table).where(key.in_(ids)).values(**values))


def _ids(
    connection: sa.Connection, key: sa.Column[str], where: sa.ColumnElement[bool]
) -> Sequence[str]:
    return connection.scalars(sa.select(key).where(where)).all()


def _locked(
    connection: sa.Connection, key: sa.Column[str], where: sa.ColumnElement[bool], limit: int
) -> Sequence[str]:
    query = sa.select(key).where(where).limit(limit).with_for_update(skip_locked=True)
    return connection.scalars(query).all()


def _overwrite_on_sqlite(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        # Without it the words stay in the file until something else is written over them.
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
