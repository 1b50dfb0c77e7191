"""Who was asked to decide on a refund, what they have heard since, and which managers are away."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from mailagent.domain.escalation import Ask, Question
from mailagent.domain.mail import OutboundStatus
from mailagent.store import schema
from mailagent.store.database import Row, UtcDateTime, insert_once
from mailagent.store.ids import new_token

_asks, _approvals = schema.approval_asks, schema.approvals
_notes, _absences = schema.approval_notes, schema.manager_absences
_mails = schema.outbound_mails

# Statements that each refund needs are built once: building one costs about what sending it does.
# Whom the same moment asked in which order does not matter, but it must be one order.
_FIRST_FIRST = sa.select(_asks).order_by(_asks.c.asked_at, _asks.c.manager_email)
_OF_QUESTION = _FIRST_FIRST.where(
    _asks.c.approval_id == sa.bindparam("approval_id"), _asks.c.question == sa.bindparam("question")
)
_OF_REFUND = _FIRST_FIRST.where(
    _asks.c.approval_id.in_(
        sa.select(_approvals.c.approval_id).where(
            _approvals.c.refund_id == sa.bindparam("refund_id")
        )
    )
)
_BY_TOKEN = _FIRST_FIRST.where(_asks.c.reply_token == sa.bindparam("reply_token"))
_NOTES_OF = (
    sa.select(_notes.c.manager_email, _notes.c.text, _notes.c.written_at)
    .where(
        _notes.c.approval_id == sa.bindparam("approval_id"),
        _notes.c.text != "",  # erased ones say nothing
    )
    .order_by(_notes.c.written_at, _notes.c.mail_id)
)
END_ABSENCE = _absences.delete().where(_absences.c.manager_email == sa.bindparam("manager"))

_ASK, _NOTE, _AWAY, _REQUEST = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Note:
    """What a manager wrote back without deciding."""

    manager_email: str
    text: str
    written_at: datetime


@dataclass(frozen=True, slots=True)
class Request:
    """A mail that put the question to a manager, and what became of it."""

    created_at: datetime
    status: OutboundStatus


@dataclass(frozen=True, slots=True)
class Found:
    """What is on record of one question: who was asked, the first first; what managers noted on the approval,
    the oldest first; who is away; and the mails that asked, by their keys."""

    asks: tuple[Ask, ...]
    notes: tuple[Note, ...]
    away: frozenset[str]
    requests: Mapping[str, Request]


def _all_of_question(
    is_request: sa.ColumnElement[bool],
) -> sa.CompoundSelect[*tuple[Any, ...]]:
    """Return one query for all that `Found` has: four journeys to the database cost four times as much.
    `is_request`: whether a mail has one of the keys `request_keys`."""

    def part(kind: int, **columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
        nothing: dict[str, sa.ColumnElement[Any]] = {
            "at": sa.cast(sa.null(), UtcDateTime()),
            "manager_email": sa.cast(sa.null(), sa.Text),
            "reminded_at": sa.cast(sa.null(), UtcDateTime()),
            "reminders": sa.cast(sa.null(), sa.Integer),
            "reply_token": sa.cast(sa.null(), sa.Text),
            "skipped_at": sa.cast(sa.null(), UtcDateTime()),
            "words": sa.cast(sa.null(), sa.Text),
        }
        named = nothing | columns
        what = sa.literal_column(str(kind), sa.Integer).label("kind")
        return sa.select(what, *(named[name].label(name) for name in sorted(named)))

    asks, notes, absences, mails = _asks.c, _notes.c, _absences.c, _mails.c
    mine: sa.BindParameter[str] = sa.bindparam("approval_id")
    return sa.union_all(
        part(
            _ASK,
            key=asks.manager_email,
            at=asks.asked_at,
            manager_email=asks.manager_email,
            reminded_at=asks.reminded_at,
            reminders=asks.reminders,
            reply_token=asks.reply_token,
            skipped_at=asks.skipped_at,
            words=asks.skipped_why,
        ).where(asks.approval_id == mine, asks.question == sa.bindparam("question")),
        part(
            _NOTE,
            key=notes.mail_id,
            at=notes.written_at,
            manager_email=notes.manager_email,
            words=notes.text,
        ).where(notes.approval_id == mine, notes.text != ""),  # erased ones say nothing
        part(_AWAY, key=absences.manager_email).where(absences.until > sa.bindparam("now")),
        part(_REQUEST, key=mails.dedup_key, at=mails.created_at, words=mails.status).where(
            is_request
        ),
    ).order_by("at", "key")


_ALL_OF_QUESTION = _all_of_question(
    _mails.c.dedup_key.in_(sa.bindparam("request_keys", expanding=True))
)
# A list is written into the statement each time; an array is a value like any other, but SQLite has none.
_ALL_BY_ARRAY = _all_of_question(
    _mails.c.dedup_key == sa.any_(sa.bindparam("request_keys", type_=postgresql.ARRAY(sa.Text)))
)


def look(
    connection: sa.Connection,
    approval_id: str,
    question: Question,
    request_keys: Collection[str],
    now: datetime,
) -> Found:
    """Return what is on record of one question. `request_keys`: those of the mails that may have put it."""
    values = {
        "approval_id": approval_id,
        "question": question.value,
        "request_keys": list(request_keys),
        "now": now,
    }
    parts: dict[int, list[Row]] = {_ASK: [], _NOTE: [], _AWAY: [], _REQUEST: []}
    query = _ALL_BY_ARRAY if connection.dialect.name == "postgresql" else _ALL_OF_QUESTION
    for row in connection.execute(query, values):
        parts[row.kind].append(row)
    return Found(
        asks=tuple(
            Ask(
                approval_id,
                question,
                row.manager_email,
                row.reply_token,
                row.at,
                row.reminders,
                row.reminded_at,
                row.skipped_at,
                row.words,
            )
            for row in parts[_ASK]
        ),
        notes=tuple(Note(row.manager_email, row.words, row.at) for row in parts[_NOTE]),
        away=frozenset(row.key for row in parts[_AWAY]),
        requests={row.key: Request(row.at, OutboundStatus(row.words)) for row in parts[_REQUEST]},
    )


def record(
    connection: sa.Connection, approval_id: str, question: Question, manager: str, now: datetime
) -> Ask:
    """Record that a manager is asked; a second time it is the same ask, with the same reply token."""
    values = {
        "approval_id": approval_id,
        "question": question.value,
        "manager_email": manager,
        "reply_token": new_token(),
        "asked_at": now,
    }
    if insert_once(connection, _asks, values, "approval_id", "question", "manager_email"):
        return Ask(approval_id, question, manager, str(values["reply_token"]), now)
    (ask,) = (
        each for each in list_of(connection, approval_id, question) if each.manager_email == manager
    )
    return ask


def list_of(connection: sa.Connection, approval_id: str, question: Question) -> tuple[Ask, ...]:
    """Return who was asked one question, the first first."""
    return _list(connection, _OF_QUESTION, approval_id=approval_id, question=question.value)


def list_asks(connection: sa.Connection, refund_id: str) -> tuple[Ask, ...]:
    """Return everybody who was asked about a refund, to approve or to countersign, the first first."""
    return _list(connection, _OF_REFUND, refund_id=refund_id)


def _list(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], **values: str
) -> tuple[Ask, ...]:
    return tuple(_ask(row) for row in connection.execute(query, values))


def find_by_token(connection: sa.Connection, reply_token: str) -> Ask | None:
    """Return the ask that a reply address belongs to, or None."""
    found = _list(connection, _BY_TOKEN, reply_token=reply_token)
    return found[0] if found else None


def find_by_message_ids(
    connection: sa.Connection, message_ids: Sequence[str], manager: str | None = None
) -> Ask | None:
    """Return the latest ask that one of these mails of ours put to a manager, to this one if given; or
    None."""
    if not message_ids:
        return None
    mails = schema.outbound_mails
    theirs = [_asks.c.manager_email == manager] if manager else []
    query = (
        sa.select(_asks)
        .join(_approvals, _approvals.c.approval_id == _asks.c.approval_id)
        .join(
            mails,
            sa.and_(
                mails.c.refund_id == _approvals.c.refund_id,
                mails.c.to_address == _asks.c.manager_email,
            ),
        )
        .where(mails.c.message_id.in_(message_ids), *theirs)
        .order_by(_asks.c.asked_at.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return _ask(row) if row else None


def _ask(row: Row) -> Ask:
    values = dict(row._mapping)
    return Ask(**values | {"question": Question(row.question)})


def record_reminder(connection: sa.Connection, ask: Ask, now: datetime) -> Ask:
    """Record that a manager was reminded; return the ask as it is then."""
    return _update(connection, ask, reminders=ask.reminders + 1, reminded_at=now)


def record_skip(connection: sa.Connection, ask: Ask, why: str, now: datetime) -> Ask:
    """Record why a manager is not waited for any more; return the ask as it is then."""
    return _update(connection, ask, skipped_at=now, skipped_why=why)


def _update(connection: sa.Connection, ask: Ask, **values: Any) -> Ask:
    connection.execute(
        _asks.update()
        .where(
            _asks.c.approval_id == ask.approval_id,
            _asks.c.question == ask.question.value,
            _asks.c.manager_email == ask.manager_email,
        )
        .values(**values)
    )
    return replace(ask, **values)


# --- what managers wrote back ---------------------------------------------------------------------


def record_note(
    connection: sa.Connection, mail_id: str, ask: Ask, text: str, now: datetime
) -> None:
    """Record what a manager wrote in reply without deciding; it is for the shop's own people."""
    values = {
        "mail_id": mail_id,
        "approval_id": ask.approval_id,
        "manager_email": ask.manager_email,
        "text": text,
        "written_at": now,
    }
    insert_once(connection, _notes, values, "mail_id")


def list_notes(connection: sa.Connection, approval_id: str) -> tuple[Note, ...]:
    """Return the notes of managers on one approval, oldest first."""
    return tuple(Note(*row) for row in connection.execute(_NOTES_OF, {"approval_id": approval_id}))


# --- who is away ----------------------------------------------------------------------------------


def record_absence(
    connection: sa.Connection, manager: str, why: str, now: datetime, until: datetime
) -> None:
    """Record that a manager is away until a time; what was known before gives way."""
    end_absence(connection, manager)
    values = {"manager_email": manager, "why": why, "since": now, "until": until}
    insert_once(connection, _absences, values, "manager_email")


def end_absence(connection: sa.Connection, manager: str) -> None:
    """Record that a manager is back: they decided, or wrote."""
    connection.execute(END_ABSENCE, {"manager": manager})
