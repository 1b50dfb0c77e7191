"""Mail of ours, as rows: written before it is sent, and "sending" before the vendor is called. Once a mail
may not be sent (again), its row holds no link by which its reader decides or logs in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import OutboundMail, OutboundStatus, Purpose
from mailagent.domain.mail.redaction import without_keys
from mailagent.store import schema
from mailagent.store.database import Row, insert_once

_mails, _events = schema.outbound_mails, schema.delivery_events

# Statements that each mail needs are built once: building one costs about what sending it does.
_BY_ID = sa.select(_mails).where(_mails.c.outbound_id == sa.bindparam("outbound_id"))
_LOCKED = _BY_ID.with_for_update()
_RECORDED = sa.select(_mails.c.dedup_key).where(
    _mails.c.dedup_key.in_(sa.bindparam("dedup_keys", expanding=True))
)
_ID_BY_KEY = sa.select(_mails.c.outbound_id).where(_mails.c.dedup_key == sa.bindparam("dedup_key"))
_QUEUED_OF_REFUND = (
    sa.select(_mails.c.outbound_id)
    .where(
        _mails.c.refund_id == sa.bindparam("refund_id"),
        _mails.c.purpose == sa.bindparam("purpose"),
        _mails.c.status == OutboundStatus.QUEUED.value,
    )
    .order_by(_mails.c.outbound_id)
)
_STATUS = sa.select(_mails.c.status).where(_mails.c.outbound_id == sa.bindparam("outbound_id"))
_CLAIM = (
    _mails.update()
    .where(
        _mails.c.outbound_id == sa.bindparam("here"),
        _mails.c.status == OutboundStatus.QUEUED.value,
    )
    .values(
        status=OutboundStatus.SENDING.value,
        sending_at=sa.bindparam("now"),
        attempts=_mails.c.attempts + 1,
        error=None,
        put_off_at=None,
    )
    .returning(_mails)
)
_FROM_SENDING = (
    _mails.update()
    .where(
        _mails.c.outbound_id == sa.bindparam("here"),
        _mails.c.status == OutboundStatus.SENDING.value,
    )
    .returning(_mails.c.status)
)

_OPEN = (OutboundStatus.QUEUED, OutboundStatus.SENDING)
LOST = frozenset(status.value for status in OutboundStatus if status.lost)


def record(connection: sa.Connection, mail: OutboundMail, dedup_key: str, now: datetime) -> str:
    """Record a mail to be sent and return its id; a second one under the same key is the first."""
    values = {
        "outbound_id": mail.outbound_id,
        "dedup_key": dedup_key,
        "conversation_id": mail.conversation_id,
        "refund_id": mail.refund_id,
        "purpose": mail.purpose.value,
        "to_address": mail.to_address,
        "from_address": mail.from_address,
        "reply_to": mail.reply_to,
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "message_id": mail.message_id,
        "in_reply_to": mail.in_reply_to,
        "mail_references": list(mail.references),
        "auto_submitted": mail.auto_submitted,
        "sources": list(mail.sources) or None,
        "status": OutboundStatus.QUEUED.value,
        "created_at": now,
    }
    if insert_once(connection, _mails, values, "dedup_key"):
        return mail.outbound_id
    stored: str | None = connection.scalar(_ID_BY_KEY, {"dedup_key": dedup_key})
    if stored is None:
        raise LookupError(f"the mail {dedup_key} was not recorded")
    return stored


def list_by_subject(connection: sa.Connection, conversation_id: str, subject: str) -> list[str]:
    """Return the mails of a conversation that were written to people about one subject: those whose
    key is `subject`, a colon, and more."""
    return list(
        connection.scalars(
            sa.select(_mails.c.outbound_id)
            .where(
                _mails.c.conversation_id == conversation_id,
                _mails.c.dedup_key.startswith(f"{subject}:", autoescape=True),
            )
            .order_by(_mails.c.outbound_id)
        )
    )


def load(connection: sa.Connection, outbound_id: str) -> OutboundMail:
    """Return a mail that must exist. Raises LookupError."""
    row = row_of(connection, outbound_id)
    return from_row(row)


def row_of(connection: sa.Connection, outbound_id: str, lock: bool = False) -> Row:
    """Return the whole row of a mail. Raises LookupError."""
    query = _LOCKED if lock else _BY_ID
    row = connection.execute(query, {"outbound_id": outbound_id}).one_or_none()
    if row is None:
        raise LookupError(f"outbound mail {outbound_id} does not exist")
    return row


def status_of(connection: sa.Connection, outbound_id: str) -> OutboundStatus:
    """Return the state of a mail, without its text. Raises LookupError."""
    status = connection.scalar(_STATUS, {"outbound_id": outbound_id})
    if status is None:
        raise LookupError(f"outbound mail {outbound_id} does not exist")
    return OutboundStatus(status)


def claim_for_sending(
    connection: sa.Connection, outbound_id: str, now: datetime
) -> OutboundMail | None:
    """Take a queued mail to "sending" and return it; None when it is not queued (any more).

    Only one claimer gets it, whatever runs beside: the update is the lock.
    """
    row = connection.execute(_CLAIM, {"here": outbound_id, "now": now}).one_or_none()
    return from_row(row) if row else None


def record_outcome(
    connection: sa.Connection, mail: OutboundMail, status: OutboundStatus, **values: Any
) -> OutboundStatus:
    """Record what became of a mail that was "sending"; one that is not any more stays as it is. Returns its
    state."""
    values |= {"here": mail.outbound_id, "status": status.value}
    cut = {} if status in _OPEN else _without_links(mail)
    known = connection.scalar(_FROM_SENDING.values(cut) if cut else _FROM_SENDING, values)
    return status_of(connection, mail.outbound_id) if known is None else OutboundStatus(known)


def _without_links(mail: OutboundMail | Row) -> dict[str, sa.Case[str]]:
    """Return the columns of a mail that hold a link by which its reader decides or logs in, each without it.

    A row whose words were erased since `mail` was read stays as it is.
    """
    stored = {"text": mail.text, "html": mail.html or ""}
    return {
        name: sa.case((_mails.c[name] == words, cut), else_=_mails.c[name])
        for name, words in stored.items()
        if (cut := without_keys(words)) != words
    }


def put_off(
    connection: sa.Connection, outbound_id: str, next_attempt_at: datetime, now: datetime
) -> None:
    """Record when a queued mail is to be looked at again whose vendor is not asked for now."""
    connection.execute(
        _mails.update()
        .where(_mails.c.outbound_id == outbound_id, _mails.c.status == OutboundStatus.QUEUED.value)
        .values(next_attempt_at=next_attempt_at, put_off_at=now)
    )


def take_up(connection: sa.Connection, limit: int, now: datetime) -> list[str]:
    """Make mails that were put off due at once, those first that have waited longest since they were last
    looked at; return which."""
    waiting = (
        sa.select(_mails.c.outbound_id)
        .where(_mails.c.status == OutboundStatus.QUEUED.value, _mails.c.put_off_at.is_not(None))
        .order_by(_mails.c.put_off_at, _mails.c.created_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    found = list(connection.scalars(waiting))
    due = _mails.update().where(_mails.c.outbound_id.in_(found))
    connection.execute(due.values(next_attempt_at=now, put_off_at=None))
    return found


def find_taken_since(connection: sa.Connection, since: datetime) -> str | None:
    """Return the first mail written after a time that SendGrid is known to have taken."""
    query = (
        sa.select(_mails.c.outbound_id)
        .where(_mails.c.created_at > since, _mails.c.sent_at.is_not(None))
        .order_by(_mails.c.created_at)
    )
    found: str | None = connection.scalar(query.limit(1))
    return found


# Mail is tried for three days.
_TRIED_FOR = timedelta(days=4)


def note_refusal(
    connection: sa.Connection, outbound_id: str, now: datetime
) -> tuple[datetime, int]:
    """Record that SendGrid has refused a mail that is "sending". Return since when it refuses it without
    having accepted another in between, and how often it has refused it again after it had."""
    row = row_of(connection, outbound_id, lock=True)
    since, beside = row.refused_at or now, row.refused_beside
    if _was_another_accepted(connection, row, since, now):
        since, beside = now, beside + 1
    refused = _mails.update().where(_mails.c.outbound_id == outbound_id)
    connection.execute(refused.values(refused_at=since, refused_beside=beside))
    return since, beside


def _was_another_accepted(
    connection: sa.Connection, refused: Row, since: datetime, now: datetime
) -> bool:
    """Return whether SendGrid took another mail, handed over after a time and before a refused one."""
    query = sa.select(sa.literal(1)).where(
        _mails.c.created_at > now - _TRIED_FOR,
        _mails.c.sending_at > since,
        _mails.c.sending_at < refused.sending_at,
        _mails.c.sent_at.is_not(None),
        _mails.c.outbound_id != refused.outbound_id,
    )
    return connection.scalar(query.limit(1)) is not None


def count_others_refused(connection: sa.Connection, outbound_id: str, now: datetime) -> int:
    """Return to how many other addresses mail was refused since SendGrid last took one before it refused this
    mail. Ask before `note_refusal`: once another was accepted, that begins anew."""
    row = row_of(connection, outbound_id)
    lately = _mails.c.created_at > now - _TRIED_FOR
    taken = sa.select(sa.func.max(_mails.c.sending_at)).where(
        lately, _mails.c.sent_at.is_not(None), _mails.c.sending_at < (row.refused_at or now)
    )
    last = connection.scalar(taken)
    after = [] if last is None else [_mails.c.refused_at > last]
    query = sa.select(sa.func.count(_mails.c.to_address.distinct())).where(
        lately,
        _mails.c.refused_at.is_not(None),
        _mails.c.to_address != row.to_address,
        *after,
    )
    return connection.scalar(query) or 0


def settle(
    connection: sa.Connection,
    outbound_id: str,
    status: OutboundStatus,
    now: datetime,
    sent_again_why: str = "",
) -> None:
    """Record what a mail's state turned out to be, whatever it was before; or why it is sent again."""
    values: dict[str, Any] = {"status": status.value, "next_attempt_at": None}
    if status not in _OPEN:
        values |= _without_links(row_of(connection, outbound_id))
    if status is OutboundStatus.SENT:
        values["sent_at"] = now
    if sent_again_why:
        values["sent_again_why"] = sent_again_why
    connection.execute(_mails.update().where(_mails.c.outbound_id == outbound_id).values(**values))


def from_row(row: Row) -> OutboundMail:
    """Return the mail of a row that has all columns of the table."""
    return OutboundMail(
        outbound_id=row.outbound_id,
        purpose=Purpose(row.purpose),
        to_address=row.to_address,
        from_address=row.from_address,
        subject=row.subject,
        text=row.text,
        html=row.html,
        message_id=row.message_id,
        reply_to=row.reply_to,
        in_reply_to=row.in_reply_to,
        references=tuple(row.mail_references),
        conversation_id=row.conversation_id,
        refund_id=row.refund_id,
        auto_submitted=row.auto_submitted,
        sources=tuple(row.sources or ()),
        status=OutboundStatus(row.status),
        attempts=row.attempts,
    )


def list_requests(connection: sa.Connection, refund_id: str, address: str) -> list[str]:
    """Return the texts in which an address was asked to decide on a refund."""
    query = sa.select(_mails.c.text).where(
        _mails.c.refund_id == refund_id,
        _mails.c.to_address == address,
        _mails.c.purpose == Purpose.APPROVAL_REQUEST.value,
    )
    return list(connection.scalars(query))


def list_under_way(
    connection: sa.Connection, before: datetime, limit: int, after: str = ""
) -> list[str]:
    """Return mails that should have been sent before a time and were not, in the order of their ids
    from the one behind `after`."""
    return list(
        connection.scalars(
            sa.select(_mails.c.outbound_id)
            .where(
                _mails.c.status.in_([OutboundStatus.QUEUED.value, OutboundStatus.SENDING.value]),
                _mails.c.created_at < before,
                _mails.c.outbound_id > after,
            )
            .order_by(_mails.c.outbound_id)
            .limit(limit)
        )
    )


def is_recorded(connection: sa.Connection, dedup_key: str) -> bool:
    """Return whether a mail under this key was written."""
    return connection.scalar(_ID_BY_KEY, {"dedup_key": dedup_key}) is not None


def list_recorded(connection: sa.Connection, dedup_keys: Iterable[str]) -> frozenset[str]:
    """Return those of these keys under which a mail was written."""
    return frozenset(connection.scalars(_RECORDED, {"dedup_keys": list(dedup_keys)}))


def list_queued_of_refund(connection: sa.Connection, refund_id: str, purpose: Purpose) -> list[str]:
    """Return the mails of one purpose about a refund that have yet to be sent, the first first."""
    values = {"refund_id": refund_id, "purpose": purpose.value}
    return list(connection.scalars(_QUEUED_OF_REFUND, values))


def list_copies(connection: sa.Connection, dedup_keys: Sequence[str]) -> Sequence[Row]:
    """Return the mails under these keys, and keep others that ask for the same from going on.

    Only the first is locked: so two that look at each other's mail wait instead of blocking.
    """
    copies = (
        sa.select(_mails).where(_mails.c.dedup_key.in_(dedup_keys)).order_by(_mails.c.dedup_key)
    )
    connection.execute(copies.limit(1).with_for_update())
    return connection.execute(copies).all()


def count_lost_lately(connection: sa.Connection, address: str, latest: int = 10) -> int:
    """Return how many of the newest settled mails to an address were lost, counted from the last one."""
    statuses = connection.scalars(
        sa.select(_mails.c.status)
        .where(
            _mails.c.to_address == address,
            _mails.c.status.in_([OutboundStatus.SENT.value, *LOST]),
        )
        .order_by(_mails.c.created_at.desc())
        .limit(latest)
    )
    return sum(1 for _ in takewhile(lambda status: status in LOST, statuses))


def find_by_message_id(connection: sa.Connection, message_id: str) -> str | None:
    """Return the mail of ours that has this Message-ID."""
    found: str | None = connection.scalar(
        sa.select(_mails.c.outbound_id).where(_mails.c.message_id == message_id)
    )
    return found


# --- what SendGrid says became of it ----------------------------------------------------------
