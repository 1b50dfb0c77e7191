"""Deletes old content: texts, subjects and names of mail, in conversations without new mail in
which nothing is open; and rows that expire, such as sessions.

Addresses, times, states, money, decisions and the audit log stay. `erasure` erases one customer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus, OutboundStatus
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.remedies.remedy import OPEN, RemedyStatus
from mailagent.domain.shop import LOGIN_DAYS, MODEL_CALL_DAYS, PRESENCE_DAYS
from mailagent.store import schema
from mailagent.store.database import batches, overwrite_deleted
from mailagent.store.operations import comparisons, step_texts

_threads, _drafts, _notes = schema.conversations, schema.drafts, schema.approval_notes
_inbound, _outbound, _events = schema.inbound_mails, schema.outbound_mails, schema.delivery_events
_own_notes = schema.conversation_notes
_sent_files = schema.outgoing_files
_raw, _refunds, _step_texts = schema.raw_mails, schema.refunds, schema.step_texts
_remedies = schema.remedies

_UNDECIDED = (RefundStatus.AWAITING_APPROVAL.value, RefundStatus.APPROVED.value)
_UNANSWERED = (MailStatus.UNANSWERED.value, MailStatus.THROTTLED.value)
_UNSENT = (OutboundStatus.QUEUED.value, OutboundStatus.SENDING.value)

_BLANK_IN = {"from_name": "", "subject": "", "body": "", "new_text": "", "attachments": []}
_BLANK_OUT = {"subject": "", "text": "", "html": None, "written_from": None, "error": None}


# --- what is still open ---------------------------------------------------------------------------


def find_open(connection: sa.Connection, subjects: Collection[str]) -> set[str]:
    """Return the ids of those of these refunds, conversations and outbound mails that are not finished."""
    refund, mail, ours = _refunds.c, _inbound.c, _outbound.c
    told = sa.or_(
        refund.receipt_id.is_not(None),
        sa.exists().where(ours.dedup_key == sa.literal("outcome:").concat(refund.refund_id)),
    )
    ended_untold = sa.and_(refund.status != RefundStatus.WITHDRAWN.value, ~told)
    queries = (
        sa.select(refund.refund_id).where(
            refund.refund_id.in_(subjects), sa.or_(refund.status.in_(_UNDECIDED), ended_untold)
        ),
        sa.select(mail.conversation_id).where(
            mail.conversation_id.in_(subjects), mail.status.in_(_UNANSWERED)
        ),
        sa.select(ours.outbound_id).where(ours.outbound_id.in_(subjects), ours.status.in_(_UNSENT)),
    )
    return {each for query in queries for each in connection.scalars(query)}


def _nothing_is_open(conversation_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that nothing in a conversation waits or is under way."""
    is_open = (
        (_inbound, _inbound.c.status.in_(_UNANSWERED)),
        (_outbound, _outbound.c.status.in_(_UNSENT)),
        (_refunds, _refunds.c.status.in_(_UNDECIDED)),
        (_drafts, _drafts.c.state == "waiting"),
        (_remedies, _remedies.c.status.in_([RemedyStatus.ASKED, RemedyStatus.TASK])),
    )
    return sa.not_(
        sa.or_(
            *(
                sa.exists().where(table.c.conversation_id == conversation_id, where)
                for table, where in is_open
            )
        )
    )


# --- blank ----------------------------------------------------------------------------------------


def update(
    connection: sa.Connection, key: sa.Column[str], ids: Sequence[str], values: Mapping[str, Any]
) -> None:
    """Set columns of the rows whose `key` is among `ids`."""
    for some in batches(ids):
        connection.execute(sa.update(key.table).where(key.in_(some)).values(**values))


def blank_mail_in(connection: sa.Connection, mail_ids: Sequence[str]) -> None:
    """Delete the texts, subjects, names and files of inbound mails, and the managers' notes that came by
    them."""
    update(connection, _inbound.c.mail_id, mail_ids, _BLANK_IN)
    update(connection, _notes.c.mail_id, mail_ids, {"text": ""})
    for some in batches(mail_ids):
        connection.execute(_raw.delete().where(_raw.c.mail_id.in_(some)))


def blank_mail_out(connection: sa.Connection, outbound_ids: Sequence[str]) -> None:
    """Delete the texts, subjects and files of outbound mails, and the answers of mail servers, which name
    recipients."""
    update(connection, _outbound.c.outbound_id, outbound_ids, _BLANK_OUT)
    update(connection, _events.c.outbound_id, outbound_ids, {"reason": None})
    for some in batches(outbound_ids):
        connection.execute(_sent_files.delete().where(_sent_files.c.outbound_id.in_(some)))


def blank_conversations(connection: sa.Connection, conversation_ids: Sequence[str]) -> None:
    """Delete the subjects, names, drafts and notes of conversations, the texts of their recorded steps, and the
    look-ups of orders."""
    lookups = schema.order_lookups
    for some in batches(conversation_ids):
        step_texts.delete_of_conversations(connection, some)
        comparisons.delete_of_conversations(connection, some)
        connection.execute(lookups.delete().where(lookups.c.conversation_id.in_(some)))
    update(
        connection, _drafts.c.conversation_id, conversation_ids, {"text": "", "composition": None}
    )
    update(connection, _own_notes.c.conversation_id, conversation_ids, {"text": ""})
    said = {"wish": None, "address": None, "note": None}
    update(connection, _remedies.c.conversation_id, conversation_ids, said)
    blank = {"subject": "", "customer_name": ""}
    update(connection, _threads.c.conversation_id, conversation_ids, blank)


# --- text of mail ---------------------------------------------------------------------------------


def _where_old(
    moment: sa.Column[datetime], before: datetime, since: datetime | None
) -> sa.ColumnElement[bool]:
    return moment < before if since is None else sa.and_(moment < before, moment >= since)


def _quiet(before: datetime, since: datetime | None) -> sa.ColumnElement[bool]:
    """Return the condition that a conversation has text, no mail or note since `before`, and nothing open."""
    thread = _threads.c
    ours = _outbound.c.conversation_id == thread.conversation_id
    noted = _own_notes.c.conversation_id == thread.conversation_id
    has_text = sa.or_(
        thread.content_purged_at.is_(None),
        thread.content_purged_at < thread.last_mail_at,
        sa.exists().where(ours, _outbound.c.created_at > thread.content_purged_at),
        sa.exists().where(noted, _own_notes.c.written_at > thread.content_purged_at),
    )
    return sa.and_(
        _where_old(thread.last_mail_at, before, since),
        has_text,
        ~sa.exists().where(ours, _outbound.c.created_at >= before),
        ~sa.exists().where(noted, _own_notes.c.written_at >= before),
        _nothing_is_open(thread.conversation_id),
    )


def _loose_in(before: datetime, since: datetime | None) -> sa.ColumnElement[bool]:
    """Return the condition that an inbound mail of no conversation is old."""
    mail = _inbound.c
    return sa.and_(
        _where_old(mail.received_at, before, since),
        mail.status == MailStatus.NO_ANSWER.value,
        mail.conversation_id.is_(None),
        sa.or_(mail.body != "", mail.subject != "", mail.from_name != ""),
    )


def _loose_out(before: datetime, since: datetime | None) -> sa.ColumnElement[bool]:
    """Return the condition that an outbound mail of no conversation is old."""
    mail, refund = _outbound.c, _refunds.c
    # Keep requests without a decision: when a manager replies, we need the request's text to find quotations.
    undecided = sa.exists().where(refund.refund_id == mail.refund_id, refund.status.in_(_UNDECIDED))
    return sa.and_(
        _where_old(mail.created_at, before, since),
        mail.conversation_id.is_(None),
        mail.status.not_in(_UNSENT),
        mail.text != "",
        ~undecided,
    )


def count(connection: sa.Connection, before: datetime) -> int:
    """Return how many conversations, and mails without one, have texts to delete."""
    return (
        _count(connection, _threads, _quiet(before, None))
        + _count(connection, _inbound, _loose_in(before, None))
        + _count(connection, _outbound, _loose_out(before, None))
    )


def _count(connection: sa.Connection, table: sa.FromClause, where: sa.ColumnElement[bool]) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table).where(where)) or 0


def _lock(
    connection: sa.Connection,
    key: sa.Column[Any],
    where: sa.ColumnElement[bool],
    moment: sa.Column[datetime],
    limit: int,
) -> Sequence[Any]:
    """Lock the oldest rows, except those that another purge has locked; return their keys."""
    query = sa.select(key).where(where).order_by(moment).limit(limit)
    return connection.scalars(query.with_for_update(skip_locked=True, of=key.table)).all()


def purge_conversations(
    connection: sa.Connection, before: datetime, since: datetime | None, now: datetime, limit: int
) -> int:
    """Delete the texts of conversations without mail since `before`, the oldest first; return how many.
    `since`: leave out conversations whose last mail is older, because an earlier purge has seen them."""
    key = _threads.c.conversation_id
    ids = _lock(connection, key, _quiet(before, since), _threads.c.last_mail_at, limit)
    if not ids:
        return 0
    overwrite_deleted(connection)
    came = sa.select(_inbound.c.mail_id).where(_inbound.c.conversation_id.in_(ids))
    refunds = sa.select(_refunds.c.refund_id).where(_refunds.c.conversation_id.in_(ids))
    went = sa.select(_outbound.c.outbound_id).where(
        sa.or_(_outbound.c.conversation_id.in_(ids), _outbound.c.refund_id.in_(refunds))
    )
    blank_mail_in(connection, connection.scalars(came).all())
    blank_mail_out(connection, connection.scalars(went).all())
    blank_conversations(connection, ids)
    update(connection, key, ids, {"content_purged_at": now})
    return len(ids)


def purge_loose(
    connection: sa.Connection, before: datetime, since: datetime | None, limit: int
) -> int:
    """Delete the texts of the oldest mails of no conversation; return how many."""
    mail, ours = _inbound.c, _outbound.c
    came = _lock(connection, mail.mail_id, _loose_in(before, since), mail.received_at, limit)
    went = _lock(connection, ours.outbound_id, _loose_out(before, since), ours.created_at, limit)
    if came or went:
        overwrite_deleted(connection)
    blank_mail_in(connection, came)
    blank_mail_out(connection, went)
    return len(came) + len(went)


def purge_order_versions(
    connection: sa.Connection, before: datetime, since: datetime | None, limit: int
) -> tuple[int, datetime | None]:
    """Delete the versions of orders that a newer one replaced before a time, except those of an order with an
    open refund or remedy. Return how many newer ones were found, the oldest first, up to a limit, and the time
    of the last one: the next batch's `since`. An order's newest version stays."""
    versions, newer = schema.order_versions, schema.order_versions.alias("newer").c
    older, order_id = versions.c, newer.order_id
    found = sa.select(order_id, newer.fetched_at).where(
        newer.fetched_at < before,
        newer.fetched_at >= since if since else sa.true(),
        sa.exists().where(older.order_id == order_id, older.version < newer.version),
        ~sa.exists().where(_refunds.c.order_id == order_id, _refunds.c.status.in_(_UNDECIDED)),
        ~sa.exists().where(_remedies.c.order_id == order_id, _remedies.c.status.in_(OPEN)),
    )
    rows = connection.execute(found.order_by(newer.fetched_at).limit(limit)).all()
    if not rows:
        return 0, since
    overwrite_deleted(connection)
    last = sa.select(sa.func.max(newer.version)).where(
        newer.order_id == older.order_id, newer.fetched_at < before
    )
    due = older.version < last.correlate(versions).scalar_subquery()
    order_ids = {row.order_id for row in rows}
    connection.execute(versions.delete().where(older.order_id.in_(order_ids), due))
    return len(rows), rows[-1].fetched_at


def purge_step_texts(connection: sa.Connection, before: datetime, limit: int) -> int:
    """Delete the oldest texts of steps from before a time, of conversations in which nothing is open; return
    how many."""
    texts = _step_texts.c
    where = sa.and_(texts.at < before, _nothing_is_open(texts.conversation_id))
    due = _lock(connection, texts.text_id, where, texts.at, limit)
    if due:
        overwrite_deleted(connection)
        connection.execute(_step_texts.delete().where(texts.text_id.in_(due)))
    comparisons.delete_before(connection, before)
    return len(due)


# --- rows that expire -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows of one kind are deleted `days` after the time in the column `moment`. `what`: their label."""

    what: str
    key: sa.Column[Any]
    moment: sa.Column[datetime]
    days: int

    def where_due(self, now: datetime) -> sa.ColumnElement[bool]:
        return self.moment < now - timedelta(days=self.days)


_links, _attempts, _sessions = schema.login_links.c, schema.login_attempts.c, schema.sessions.c
_workers, _absences, _calls = schema.workers.c, schema.manager_absences.c, schema.model_calls.c

RULES = (
    Rule("login links", _links.token_hash, _links.expires_at, LOGIN_DAYS),
    Rule("attempts to log in", _attempts.attempt_id, _attempts.at, LOGIN_DAYS),
    Rule("sessions", _sessions.session_hash, _sessions.expires_at, LOGIN_DAYS),
    Rule("workers that are gone", _workers.worker_id, _workers.seen_at, PRESENCE_DAYS),
    Rule("absences of managers", _absences.manager_email, _absences.until, PRESENCE_DAYS),
    Rule("calls of the model", _calls.call_id, _calls.at, MODEL_CALL_DAYS),
)


def count_short_lived(connection: sa.Connection, rule: Rule, now: datetime) -> int:
    """Return how many rows of a kind are due."""
    return _count(connection, rule.key.table, rule.where_due(now))


def purge(connection: sa.Connection, rule: Rule, now: datetime, limit: int) -> int:
    """Delete the oldest rows of a kind that are due; return how many."""
    due = _lock(connection, rule.key, rule.where_due(now), rule.moment, limit)
    if due:
        connection.execute(sa.delete(rule.key.table).where(rule.key.in_(due), rule.where_due(now)))
    return len(due)


def forget_dismissals(connection: sa.Connection, run_ids: Sequence[str]) -> None:
    """Delete the dismissals of runs whose history was deleted."""
    table = schema.dismissals
    connection.execute(table.delete().where(table.c.subject.in_(run_ids)))
