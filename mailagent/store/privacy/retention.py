"""Deletes old content: texts, subjects and names of mail, in conversations that are quiet and closed;
and rows that expire, such as sessions.

Addresses, times, states, money, decisions and the audit log stay. Erasure of one person is in `erasure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus
from mailagent.domain.shop import LOGIN_DAYS, MODEL_CALL_DAYS, PRESENCE_DAYS
from mailagent.store import schema
from mailagent.store.operations import step_texts
from mailagent.store.privacy.open_cases import UNDECIDED, UNSENT, nothing_is_open

_threads, _drafts, _notes = schema.conversations, schema.drafts, schema.approval_notes
_inbound, _outbound, _events = schema.inbound_mails, schema.outbound_mails, schema.delivery_events
_raw = schema.raw_mails

_BLANK_IN = {"from_name": "", "subject": "", "body": "", "new_text": "", "attachments": []}
_BLANK_OUT = {"subject": "", "text": "", "html": None, "error": None}


def _quiet(before: datetime, since: datetime | None) -> sa.ColumnElement[bool]:
    """Return the question which conversations are quiet since a time, have words, and nothing open."""
    thread, written = _threads.c, _outbound.c
    said_since = sa.exists().where(
        written.conversation_id == thread.conversation_id,
        written.created_at > thread.content_purged_at,
    )
    has_words = sa.or_(
        thread.content_purged_at.is_(None),
        thread.content_purged_at < thread.last_mail_at,
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
    connection.execute(
        _drafts.update().where(_drafts.c.conversation_id.in_(ids)).values(text="", composition=None)
    )
    values = {"subject": "", "content_purged_at": now}
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
        _set(connection, _inbound.c.mail_id, mail_ids, _BLANK_IN)
        _set(connection, _notes.c.mail_id, mail_ids, {"text": ""})
        connection.execute(_raw.delete().where(_raw.c.mail_id.in_(mail_ids)))


def _blank_out(connection: sa.Connection, outbound_ids: Sequence[str]) -> None:
    if outbound_ids:
        _set(connection, _outbound.c.outbound_id, outbound_ids, _BLANK_OUT)
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


# --- short lived ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows of one sort go so many `days` after `moment`. `what` is what a person calls them."""

    what: str
    key: sa.Column[Any]
    moment: sa.Column[datetime]
    days: int

    def is_due(self, now: datetime) -> sa.ColumnElement[bool]:
        return self.moment < now - timedelta(days=self.days)


RULES = (
    Rule(
        "login links", schema.login_links.c.token_hash, schema.login_links.c.expires_at, LOGIN_DAYS
    ),
    Rule(
        "attempts to log in",
        schema.login_attempts.c.attempt_id,
        schema.login_attempts.c.at,
        LOGIN_DAYS,
    ),
    Rule("sessions", schema.sessions.c.session_hash, schema.sessions.c.expires_at, LOGIN_DAYS),
    Rule(
        "workers that are gone",
        schema.workers.c.worker_id,
        schema.workers.c.seen_at,
        PRESENCE_DAYS,
    ),
    Rule(
        "absences of managers",
        schema.manager_absences.c.manager_email,
        schema.manager_absences.c.until,
        PRESENCE_DAYS,
    ),
    Rule(
        "calls of the model", schema.model_calls.c.call_id, schema.model_calls.c.at, MODEL_CALL_DAYS
    ),
)


def count_short_lived(connection: sa.Connection, rule: Rule, now: datetime) -> int:
    """Return how many rows of a sort are to go."""
    query = sa.select(sa.func.count()).select_from(rule.key.table).where(rule.is_due(now))
    return connection.scalar(query) or 0


def purge(connection: sa.Connection, rule: Rule, now: datetime, limit: int) -> int:
    """Delete the oldest rows of a sort that are to go; return how many. Rows that another purge is at
    are left to it."""
    due = connection.scalars(
        sa.select(rule.key)
        .where(rule.is_due(now))
        .order_by(rule.moment)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    if due:
        connection.execute(sa.delete(rule.key.table).where(rule.key.in_(due), rule.is_due(now)))
    return len(due)


def forget_dismissals(connection: sa.Connection, run_ids: Sequence[str]) -> None:
    """Forget that somebody had seen to runs which are gone."""
    table = schema.dismissals
    connection.execute(table.delete().where(table.c.subject.in_(run_ids)))
