"""Our mails as rows: recorded before they are sent, and "sending" before the mail provider is called. Once a
mail will not be sent (again), we remove from its row the links by which its reader can decide or log in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import OutboundMail, OutboundStatus, Purpose
from mailagent.domain.mail.redaction import without_keys
from mailagent.domain.operations.retry import MAIL_IS_UNDER_WAY_FOR
from mailagent.store import schema
from mailagent.store.database import (
    END_OF_TIME,
    Row,
    columns_of,
    count_rows,
    exists,
    from_row,
    insert_once,
    required,
    update_rows,
)
from mailagent.store.mail import outgoing_files

_mails = schema.outbound_mails

_OPEN = (OutboundStatus.QUEUED, OutboundStatus.SENDING)
LOST = frozenset(status.value for status in OutboundStatus if status.lost)


def record(connection: sa.Connection, mail: OutboundMail, dedup_key: str, now: datetime) -> str:
    """Record a mail to send and return its id; if one with this `dedup_key` is recorded, only return its id."""
    values = columns_of(
        _mails,
        mail,
        dedup_key=dedup_key,
        mail_references=mail.references,
        sources=mail.sources or None,
        status=OutboundStatus.QUEUED.value,
        created_at=now,
    )
    if insert_once(connection, _mails, values, "dedup_key"):
        outgoing_files.record(connection, mail.outbound_id, mail.files)
        return mail.outbound_id
    stored = sa.select(_mails.c.outbound_id).where(_mails.c.dedup_key == dedup_key)
    return str(connection.scalars(stored).one())


def list_by_subject(connection: sa.Connection, conversation_id: str, subject: str) -> list[str]:
    """Return the ids of the mails of a conversation whose `dedup_key` begins with `subject` and a colon: our
    mails to people of the shop about one subject."""
    return _list_ids(
        connection,
        _mails.c.conversation_id == conversation_id,
        _mails.c.dedup_key.startswith(f"{subject}:", autoescape=True),
    )


def _list_ids(
    connection: sa.Connection, *where: sa.ColumnElement[bool], limit: int | None = None
) -> list[str]:
    query = sa.select(_mails.c.outbound_id).where(*where).order_by(_mails.c.outbound_id)
    return list(connection.scalars(query.limit(limit)))


def load(connection: sa.Connection, outbound_id: str) -> OutboundMail:
    return _mail(row_of(connection, outbound_id))


def row_of(connection: sa.Connection, outbound_id: str, lock: bool = False) -> Row:
    query = sa.select(_mails).where(_mails.c.outbound_id == outbound_id)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return required(row, f"outbound mail {outbound_id}")


def status_of(connection: sa.Connection, outbound_id: str) -> OutboundStatus:
    """Return the status of a mail without loading its text. Raises LookupError."""
    query = sa.select(_mails.c.status).where(_mails.c.outbound_id == outbound_id)
    return OutboundStatus(required(connection.scalar(query), f"outbound mail {outbound_id}"))


def claim_for_sending(
    connection: sa.Connection, outbound_id: str, now: datetime
) -> OutboundMail | None:
    """Change a queued mail to "sending" and return it with its files; None if it is not queued any more.

    Only one of several workers gets it, because the UPDATE locks the row.
    """
    claim = (
        _mails.update()
        .where(_mails.c.outbound_id == outbound_id, _mails.c.status == OutboundStatus.QUEUED.value)
        .values(
            status=OutboundStatus.SENDING.value,
            sending_at=now,
            attempts=_mails.c.attempts + 1,
            error=None,
            put_off_at=None,
        )
    )
    row = connection.execute(claim.returning(_mails)).one_or_none()
    if row is None:
        return None
    return replace(_mail(row), files=outgoing_files.load(connection, outbound_id))


def record_outcome(
    connection: sa.Connection, mail: OutboundMail, status: OutboundStatus, **values: Any
) -> OutboundStatus:
    """Record the outcome of a mail that is "sending"; if it is not any more, change nothing. Return its
    status."""
    cut: dict[str, Any] = {} if status in _OPEN else _without_links(mail)
    if status is not OutboundStatus.QUEUED:
        cut["written_from"] = None
    recorded = connection.scalar(
        _mails.update()
        .where(
            _mails.c.outbound_id == mail.outbound_id,
            _mails.c.status == OutboundStatus.SENDING.value,
        )
        .values(status=status.value, **values, **cut)
        .returning(_mails.c.outbound_id)
    )
    return status if recorded else status_of(connection, mail.outbound_id)


def _without_links(mail: OutboundMail | Row) -> dict[str, sa.Case[str]]:
    """Return new values for the columns of a mail that have links by which its reader can decide or log in: the
    same text without the links. A row whose text was deleted since `mail` was read does not change.
    """
    stored = {"text": mail.text, "html": mail.html or ""}
    return {
        name: sa.case((_mails.c[name] == words, cut), else_=_mails.c[name])
        for name, words in stored.items()
        if (cut := without_keys(words)) != words
    }


def rewrite(connection: sa.Connection, mail: OutboundMail) -> None:
    """Replace the text of a mail that was written again, because it is sent late."""
    values = {"text": mail.text, "html": mail.html, "sources": mail.sources or None}
    update_rows(connection, _mails, _mails.c.outbound_id == mail.outbound_id, **values)


def put_off(
    connection: sa.Connection, outbound_id: str, next_attempt_at: datetime, now: datetime
) -> None:
    """Record when to try a queued mail again, because the mail provider is not called for now."""
    here = (_mails.c.outbound_id == outbound_id, _mails.c.status == OutboundStatus.QUEUED.value)
    update_rows(connection, _mails, *here, next_attempt_at=next_attempt_at, put_off_at=now)


def take_up(connection: sa.Connection, limit: int, now: datetime) -> list[str]:
    """Make mails that were put off due now, those that wait longest first; return their ids."""
    waiting = (
        sa.select(_mails.c.outbound_id)
        .where(_mails.c.status == OutboundStatus.QUEUED.value, _mails.c.put_off_at.is_not(None))
        .order_by(_mails.c.put_off_at, _mails.c.created_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    found = list(connection.scalars(waiting))
    due = _mails.c.outbound_id.in_(found)
    update_rows(connection, _mails, due, next_attempt_at=now, put_off_at=None)
    return found


def find_taken_since(connection: sa.Connection, since: datetime) -> str | None:
    """Return the id of the first mail written after `since` that the provider accepted; None without one."""
    return connection.scalars(
        sa.select(_mails.c.outbound_id)
        .where(_mails.c.created_at > since, _mails.c.sent_at.is_not(None))
        .order_by(_mails.c.created_at)
        .limit(1)
    ).one_or_none()


def note_refusal(
    connection: sa.Connection, outbound_id: str, now: datetime
) -> tuple[datetime, int]:
    """Record that the provider has refused a mail that is "sending". A series of a mail's refusals ends when
    another mail is accepted. Return when the current series began, and how many series there were before."""
    row = row_of(connection, outbound_id, lock=True)
    since, beside = row.refused_at or now, row.refused_beside
    if _was_another_accepted(connection, row, since, now):
        since, beside = now, beside + 1
    here = _mails.c.outbound_id == outbound_id
    update_rows(connection, _mails, here, refused_at=since, refused_beside=beside)
    return since, beside


def _was_another_accepted(
    connection: sa.Connection, refused: Row, since: datetime, now: datetime
) -> bool:
    """Return whether the provider accepted another mail that was sent after `since` and before a refused
    one."""
    return exists(
        connection,
        _mails.c.created_at > now - MAIL_IS_UNDER_WAY_FOR,
        _mails.c.sending_at > since,
        _mails.c.sending_at < refused.sending_at,
        _mails.c.sent_at.is_not(None),
        _mails.c.outbound_id != refused.outbound_id,
    )


def count_others_refused(connection: sa.Connection, outbound_id: str, now: datetime) -> int:
    """Return for how many other addresses the provider has refused mail since it last accepted one. Call this
    before `note_refusal`, which may begin a new series."""
    row = row_of(connection, outbound_id)
    lately = _mails.c.created_at > now - MAIL_IS_UNDER_WAY_FOR
    taken = sa.select(sa.func.max(_mails.c.sending_at)).where(
        lately, _mails.c.sent_at.is_not(None), _mails.c.sending_at < (row.refused_at or now)
    )
    last = connection.scalar(taken)
    after = [] if last is None else [_mails.c.refused_at > last]
    query = sa.select(sa.func.count(_mails.c.to_address.distinct())).where(
        lately, _mails.c.refused_at.is_not(None), _mails.c.to_address != row.to_address, *after
    )
    return connection.scalar(query) or 0


def set_status(
    connection: sa.Connection,
    outbound_id: str,
    status: OutboundStatus,
    now: datetime,
    sent_again_why: str = "",
) -> None:
    """Set the status of a mail, whatever it is now. `sent_again_why`: why a mail is queued once more."""
    values: dict[str, Any] = {"status": status.value, "next_attempt_at": None, "written_from": None}
    if status not in _OPEN:
        values |= _without_links(row_of(connection, outbound_id))
    if status is OutboundStatus.SENT:
        values["sent_at"] = now
    if sent_again_why:
        values["sent_again_why"] = sent_again_why
    update_rows(connection, _mails, _mails.c.outbound_id == outbound_id, **values)


def _mail(row: Row) -> OutboundMail:
    return from_row(
        OutboundMail,
        row,
        purpose=Purpose(row.purpose),
        references=tuple(row.mail_references),
        sources=tuple(row.sources or ()),
        status=OutboundStatus(row.status),
    )


def list_requests(connection: sa.Connection, refund_id: str, address: str) -> list[str]:
    query = sa.select(_mails.c.text).where(
        _mails.c.refund_id == refund_id,
        _mails.c.to_address == address,
        _mails.c.purpose == Purpose.APPROVAL_REQUEST.value,
    )
    return list(connection.scalars(query))


def list_under_way(
    connection: sa.Connection, before: datetime, limit: int, after: str = ""
) -> list[str]:
    """Return the ids of queued and sending mails that were written before a time, in order: those
    that come after `after`."""
    return _list_ids(
        connection,
        _mails.c.status.in_([status.value for status in _OPEN]),
        _mails.c.created_at < before,
        _mails.c.outbound_id > after,
        limit=limit,
    )


def is_recorded(connection: sa.Connection, dedup_key: str) -> bool:
    return bool(list_recorded(connection, [dedup_key]))


def list_recorded(connection: sa.Connection, dedup_keys: Iterable[str]) -> frozenset[str]:
    """Return those of these keys that a recorded mail has."""
    query = sa.select(_mails.c.dedup_key).where(_mails.c.dedup_key.in_(list(dedup_keys)))
    return frozenset(connection.scalars(query))


def list_queued_of_refund(connection: sa.Connection, refund_id: str, purpose: Purpose) -> list[str]:
    """Return the ids of the queued mails of one purpose about a refund, oldest first."""
    return _list_ids(
        connection,
        _mails.c.refund_id == refund_id,
        _mails.c.purpose == purpose.value,
        _mails.c.status == OutboundStatus.QUEUED.value,
    )


def list_copies(connection: sa.Connection, dedup_keys: Sequence[str]) -> Sequence[Row]:
    """Return the mails with these keys, and make other callers with the same keys wait until the commit.

    It locks only the first mail, so that two callers cannot deadlock.
    """
    copies = (
        sa.select(_mails).where(_mails.c.dedup_key.in_(dedup_keys)).order_by(_mails.c.dedup_key)
    )
    connection.execute(copies.limit(1).with_for_update())
    return connection.execute(copies).all()


def count_lost_lately(connection: sa.Connection, address: str) -> int:
    """Return how many mails to an address were lost after the last one that was sent, at most 10."""
    statuses = connection.scalars(
        sa.select(_mails.c.status)
        .where(
            _mails.c.to_address == address, _mails.c.status.in_([OutboundStatus.SENT.value, *LOST])
        )
        .order_by(_mails.c.created_at.desc())
        .limit(10)
    )
    return sum(1 for _ in takewhile(lambda status: status in LOST, statuses))


def find_by_message_id(connection: sa.Connection, message_id: str) -> str | None:
    return next(iter(_list_ids(connection, _mails.c.message_id == message_id)), None)


# --- by conversation and address ------------------------------------------------------------------


def list_of_conversation(connection: sa.Connection, conversation_id: str) -> Sequence[Row]:
    return connection.execute(
        sa.select(_mails)
        .where(_mails.c.conversation_id == conversation_id)
        .order_by(_mails.c.created_at, _mails.c.outbound_id)
    ).all()


def list_to_customer(
    connection: sa.Connection,
    conversation_id: str,
    address: str,
    limit: int,
    until: datetime = END_OF_TIME,
) -> Sequence[Row]:
    """Return, oldest first, our newest `limit` mails to `address` in a thread, written by the time `until`."""
    query = sa.select(_mails).where(
        _mails.c.conversation_id == conversation_id,
        _mails.c.to_address == address,
        _mails.c.created_at <= until,
    )
    newest = query.order_by(_mails.c.created_at.desc()).limit(limit)
    return connection.execute(newest).all()[::-1]


def list_texts_to(
    connection: sa.Connection, address: str, message_ids: Sequence[str] | None = None
) -> list[str]:
    """Return the texts of our newest 20 mails to an address, oldest first, without links that decide or log in.
    The next mail from that address may quote them. `message_ids`: only these mails."""
    query = sa.select(_mails.c.text).where(_mails.c.to_address == address)
    if message_ids is not None:
        query = query.where(_mails.c.message_id.in_(message_ids))
    texts = connection.scalars(query.order_by(_mails.c.created_at.desc()).limit(20)).all()
    return [without_keys(text) for text in texts[::-1]]


def latest_at(connection: sa.Connection, conversation_id: str, purpose: Purpose) -> datetime | None:
    """Return when the latest mail with this purpose was written in a thread; None without one."""
    return connection.scalars(
        sa.select(_mails.c.created_at)
        .where(_mails.c.conversation_id == conversation_id, _mails.c.purpose == purpose.value)
        .order_by(_mails.c.created_at.desc())
        .limit(1)
    ).one_or_none()


def count_to(connection: sa.Connection, address: str, purpose: Purpose, since: datetime) -> int:
    here = _mails.c.to_address == address
    return count_rows(
        connection, here, _mails.c.created_at >= since, _mails.c.purpose == purpose.value
    )
