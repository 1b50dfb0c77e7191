"""Mail that came in, as rows: which of it waits, and that each is answered once. `filing` stores it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import Attachment, Identity, InboundMail, MailKind, MailStatus
from mailagent.store import audit, schema
from mailagent.store.database import END_OF_TIME, Row
from mailagent.store.mail import drafts
from mailagent.store.mail.filing import RawMail

_mails, _raw = schema.inbound_mails, schema.raw_mails

# Statements that each mail needs are built once: building one costs about what sending it does.
_OLDEST_FIRST = sa.select(_mails).order_by(_mails.c.received_at, _mails.c.mail_id)
_BY_ID = _OLDEST_FIRST.where(_mails.c.mail_id.in_(sa.bindparam("mail_ids", expanding=True)))
_OF_CONVERSATION = _OLDEST_FIRST.where(_mails.c.conversation_id == sa.bindparam("conversation_id"))
_UNANSWERED = _OF_CONVERSATION.where(_mails.c.status == MailStatus.UNANSWERED.value)
_LATEST = _OLDEST_FIRST.where(
    _mails.c.mail_id.in_(
        sa.select(_mails.c.mail_id)
        .where(
            _mails.c.conversation_id == sa.bindparam("conversation_id"),
            _mails.c.kind == MailKind.CUSTOMER.value,
            _mails.c.received_at <= sa.bindparam("until"),
        )
        .order_by(_mails.c.received_at.desc())
        .limit(sa.bindparam("most", type_=sa.Integer))
    )
)
_SET_RUN = _mails.update().where(_mails.c.mail_id == sa.bindparam("here"))

_WITH_FILES = (
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
        _mails.c.conversation_id == sa.bindparam("conversation_id"),
        _mails.c.kind == MailKind.CUSTOMER.value,
    )
    .order_by(_mails.c.received_at.desc(), _mails.c.mail_id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)

# The status stands in the statement: a partial index is found by constants only.
_WAITS = sa.and_(
    _mails.c.status == sa.literal_column(f"'{MailStatus.UNANSWERED.value}'"),
    _mails.c.draft_id.is_(None),
)


def find(connection: sa.Connection, mail_id: str) -> InboundMail | None:
    found = list_by_id(connection, [mail_id])
    return found[0] if found else None


def list_by_id(connection: sa.Connection, mail_ids: Sequence[str]) -> tuple[InboundMail, ...]:
    """Return mails by id, oldest first."""
    return _list(connection, _BY_ID, mail_ids=list(mail_ids))


def list_unanswered(connection: sa.Connection, conversation_id: str) -> tuple[InboundMail, ...]:
    return _list(connection, _UNANSWERED, conversation_id=conversation_id)


def list_of_conversation(
    connection: sa.Connection, conversation_id: str
) -> tuple[InboundMail, ...]:
    return _list(connection, _OF_CONVERSATION, conversation_id=conversation_id)


def list_latest(
    connection: sa.Connection,
    conversation_id: str,
    limit: int,
    until: datetime = END_OF_TIME,
) -> tuple[InboundMail, ...]:
    """Return the newest customer mails of a thread that had come by a time, oldest of them first."""
    return _list(connection, _LATEST, conversation_id=conversation_id, most=limit, until=until)


def _list(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], **values: Any
) -> tuple[InboundMail, ...]:
    return tuple(_mail(row) for row in connection.execute(query, values))


def _mail(row: Row) -> InboundMail:
    return InboundMail(
        mail_id=row.mail_id,
        conversation_id=row.conversation_id,
        from_address=row.from_address,
        from_name=row.from_name,
        subject=row.subject,
        message_id=row.message_id,
        references=tuple(row.mail_references) or tuple(row.in_reply_to),
        body=row.body,
        new_text=row.new_text,
        identity=Identity(row.identity),
        kind=MailKind(row.kind),
        status=MailStatus(row.status),
        received_at=row.received_at,
        attachments=tuple(Attachment(**each) for each in row.attachments),
        no_answer_reason=row.no_answer_reason,
        answered_by=row.answered_by,
        draft_id=row.draft_id,
    )


def set_run(connection: sa.Connection, mail_id: str, run_id: str) -> None:
    """Record which run was enqueued for a mail."""
    connection.execute(_SET_RUN, {"here": mail_id, "run_id": run_id})


def answer(connection: sa.Connection, mail_ids: Sequence[str], outbound_id: str) -> None:
    """Record that one outbound mail answers these."""
    connection.execute(
        _mails.update()
        .where(_mails.c.mail_id.in_(mail_ids), _mails.c.status == MailStatus.UNANSWERED.value)
        .values(status=MailStatus.ANSWERED.value, answered_by=outbound_id)
    )


def leave_unanswered(connection: sa.Connection, mail_ids: Sequence[str], reason: str) -> None:
    """Record why these mails never get an answer of ours."""
    connection.execute(
        _mails.update()
        .where(_mails.c.mail_id.in_(mail_ids), _mails.c.status == MailStatus.UNANSWERED.value)
        .values(status=MailStatus.NO_ANSWER.value, no_answer_reason=reason)
    )


def set_reason(connection: sa.Connection, mail_id: str, reason: str) -> None:
    """Record what became of a mail that gets no answer in its own right."""
    connection.execute(
        _mails.update().where(_mails.c.mail_id == mail_id).values(no_answer_reason=reason)
    )


def prove_mailbox(connection: sa.Connection, conversation_id: str, address: str) -> None:
    """Record that whoever wrote from `address` in this thread holds that mailbox."""
    connection.execute(
        _mails.update()
        .where(
            _mails.c.conversation_id == conversation_id,
            _mails.c.from_address == address,
            _mails.c.identity == Identity.NONE.value,
        )
        .values(identity=Identity.MAILBOX.value)
    )


def list_recent(
    connection: sa.Connection, status: MailStatus | None, kind: MailKind | None, limit: int
) -> Sequence[Row]:
    """Return the newest mails that came in, of one status and one kind, or of all."""
    columns = (
        _mails.c.mail_id, _mails.c.received_at, _mails.c.from_address, _mails.c.subject,
        _mails.c.kind, _mails.c.identity, _mails.c.status, _mails.c.no_answer_reason,
        _mails.c.conversation_id,
    )  # fmt: skip
    query = sa.select(*columns).order_by(_mails.c.received_at.desc()).limit(limit)
    if status is not None:
        query = query.where(_mails.c.status == status.value)
    if kind is not None:
        query = query.where(_mails.c.kind == kind.value)
    return connection.execute(query).all()


def list_waiting(
    connection: sa.Connection, before: datetime, limit: int, after: str = ""
) -> Sequence[Row]:
    """Return mails that wait for the agent since before a time, with the run enqueued for them, in the
    order of their ids from the one behind `after`. Not those of which a draft waits for somebody.

    `taken_back_at`: when the last draft of their conversation was; `given_back_at`: when people gave
    the conversation to the agent again. Before that the agent could not answer.
    """
    return connection.execute(
        _waiting()
        .where(_mails.c.received_at < before, _mails.c.mail_id > after)
        .order_by(_mails.c.mail_id)
        .limit(limit)
    ).all()


def find_waiting(connection: sa.Connection, mail_id: str) -> Row | None:
    """Return a mail as `list_waiting` does, or None when it waits for the agent no more."""
    return connection.execute(_waiting().where(_mails.c.mail_id == mail_id)).one_or_none()


def list_put_off(
    connection: sa.Connection, limit: int, offset: int = 0, by_turns: bool = True
) -> Sequence[Row]:
    """Return mails of which a run ended because the model's provider was away, as `list_waiting` does,
    from the one behind the first `offset` ones.

    `by_turns`: of each customer the oldest first, then of each the second oldest, and so on; else those that
    were put off least often first, of these the oldest. Mail that is not proven to be its sender's has
    turns of its own, and so has what was enqueued for again and not put off since: its run is at it, or has
    failed.
    """
    query = _PUT_OFF_BY_TURNS if by_turns else _LEAST_PUT_OFF
    return connection.execute(query, {"most": limit, "offset": offset}).all()


def _waiting() -> sa.Select[Any]:
    return sa.select(
        _mails.c.mail_id,
        _mails.c.conversation_id,
        _mails.c.from_address,
        _mails.c.received_at,
        drafts.superseded_at(_mails).label("taken_back_at"),
        _given_back_at().label("given_back_at"),
        _mails.c.run_id,
        _mails.c.wake_ups,
        _mails.c.put_off,
        _mails.c.identity,
    ).where(_WAITS)


def _given_back_at() -> sa.ScalarSelect[datetime]:
    return (
        sa.select(sa.func.max(schema.audit.c.at))
        .where(
            schema.audit.c.subject == _mails.c.conversation_id,
            schema.audit.c.action == audit.GIVEN_BACK,
        )
        .scalar_subquery()
    )


def _put_off(first: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Return the mails that were put off by a number, the smallest first, then by their age."""
    waiting = sa.select(_mails.c.mail_id, _mails.c.received_at, first.label("first"))
    ranked = waiting.where(_WAITS, _mails.c.put_off > 0).subquery()
    most, offset = (sa.bindparam(name, type_=sa.Integer) for name in ("most", "offset"))
    # What is told of a mail is looked up for those alone that are returned.
    picked = sa.select(ranked).order_by(*_by_rank(ranked)).limit(most).offset(offset).subquery()
    told = _waiting().join_from(_mails, picked, picked.c.mail_id == _mails.c.mail_id)
    return told.order_by(*_by_rank(picked))


def _by_rank(rows: sa.Subquery) -> tuple[sa.ColumnElement[Any], ...]:
    return rows.c.first, rows.c.received_at, rows.c.mail_id


_LEAST_PUT_OFF = _put_off(_mails.c.put_off)
_PUT_OFF_BY_TURNS = _put_off(
    sa.func.row_number().over(
        partition_by=(
            _mails.c.from_address,
            _mails.c.identity == Identity.NONE.value,
            _mails.c.wake_ups < _mails.c.put_off,
        ),
        order_by=(_mails.c.received_at, _mails.c.mail_id),
    )
)


def count_wake_up(connection: sa.Connection, mail_id: str, run_id: str) -> None:
    """Record that the sweep woke again for a mail."""
    connection.execute(
        _mails.update()
        .where(_mails.c.mail_id == mail_id)
        .values(wake_ups=_mails.c.wake_ups + 1, run_id=run_id)
    )


def put_off(
    connection: sa.Connection, conversation_id: str, mail_ids: Sequence[str], run_id: str | None
) -> int:
    """Record that a run ended because the model's provider was away: for the mail that it was enqueued for,
    and for those it was at. Returns how many.

    Not more often than a mail was enqueued for: a step may be repeated, and a run forked.
    """
    counted = connection.execute(
        _mails.update()
        .where(
            _mails.c.conversation_id == conversation_id,
            _mails.c.status == MailStatus.UNANSWERED.value,
            sa.or_(_mails.c.run_id == run_id, _mails.c.mail_id.in_(mail_ids)),
            _mails.c.put_off <= _mails.c.wake_ups,
        )
        .values(put_off=_mails.c.put_off + 1)
    )
    return counted.rowcount


# --- raw mail and its files ---------------------------------------------------------------------


def find_raw(connection: sa.Connection, mail_id: str) -> RawMail | None:
    """Return the request that brought a mail, or None when it was purged."""
    row = connection.execute(
        sa.select(_raw.c.content_type, _raw.c.body).where(_raw.c.mail_id == mail_id)
    ).one_or_none()
    return RawMail(row.content_type, bytes(row.body)) if row else None


def list_with_files(connection: sa.Connection, conversation_id: str, limit: int) -> Sequence[Row]:
    """Return the newest customer mails of a thread that brought files, oldest of them first, each with
    whether its raw bytes are still there (`kept`)."""
    values = {"conversation_id": conversation_id, "most": limit}
    rows = connection.execute(_WITH_FILES, values).all()
    return [row for row in reversed(rows) if row.attachments]


def count_raw(connection: sa.Connection, before: datetime) -> int:
    """Return of how many mails that came before a time the raw bytes are kept."""
    query = sa.select(sa.func.count()).select_from(_raw).where(_raw.c.received_at < before)
    return connection.scalar(query) or 0


def purge_raw(connection: sa.Connection, before: datetime, limit: int) -> int:
    """Delete the raw bytes of the oldest mails that came before a time; return of how many.

    Rows that another purge is at are left to it.
    """
    due = connection.scalars(
        sa.select(_raw.c.mail_id)
        .where(_raw.c.received_at < before)
        .order_by(_raw.c.received_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    if not due:
        return 0
    if connection.dialect.name == "sqlite":
        # Without it the bytes stay in the file until something else is written over them.
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    connection.execute(_raw.delete().where(_raw.c.mail_id.in_(due)))
    return len(due)
