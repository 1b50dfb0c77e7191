"""Inbound mail as rows: each is stored once, with the request that brought it, and answered once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import (
    Attachment,
    Identity,
    InboundMail,
    MailKind,
    MailStatus,
    ParsedMail,
)
from mailagent.store import audit, schema
from mailagent.store.database import (
    END_OF_TIME,
    Row,
    columns_of,
    exists,
    from_row,
    in_literals,
    insert_once,
    required,
    update_rows,
)
from mailagent.store.ids import new_id
from mailagent.store.mail import drafts
from mailagent.store.mail.raw_mail import RawMail

_mails = schema.inbound_mails

_OLDEST_FIRST = sa.select(_mails).order_by(_mails.c.received_at, _mails.c.mail_id)
# With constants in the SQL, because PostgreSQL uses a partial index only then.
_WAITS = sa.and_(
    _mails.c.status == sa.literal_column(f"'{MailStatus.UNANSWERED.value}'"),
    _mails.c.draft_id.is_(None),
)


@dataclass(frozen=True, slots=True)
class Filing:
    """What to store with a mail. `throttled`: do not answer it for now. `run_id`: the run that is enqueued for
    it in this transaction. `raw`: the webhook request that brought it."""

    mail_id: str = field(default_factory=lambda: new_id("mail"))
    throttled: bool = False
    same_message_id: int = 0
    run_id: str | None = None
    raw: RawMail | None = None
    rate_limit_key: str | None = None


def record(
    connection: sa.Connection,
    mail: ParsedMail,
    conversation_id: str | None,
    no_answer_reason: str | None,
    now: datetime,
    filing: Filing | None = None,
) -> str | None:
    """Record an inbound mail and return its id; None if another request has just recorded the same mail.

    `no_answer_reason`: why it gets no answer; None: it waits for one.
    """
    filing = filing or Filing()
    status = MailStatus.NO_ANSWER if no_answer_reason else MailStatus.UNANSWERED
    values = columns_of(
        _mails,
        mail,
        mail_id=filing.mail_id,
        conversation_id=conversation_id,
        same_message_id=filing.same_message_id,
        mail_references=mail.references,
        received_at=now,
        attachments=[asdict(attachment) for attachment in mail.attachments],
        status=(MailStatus.THROTTLED if filing.throttled else status).value,
        no_answer_reason=no_answer_reason,
        run_id=filing.run_id,
        rate_limit_key=filing.rate_limit_key,
    )
    if not insert_once(connection, _mails, values, "dedup_key"):
        return None
    if filing.raw is not None:
        request = {**asdict(filing.raw), "mail_id": filing.mail_id, "received_at": now}
        connection.execute(schema.raw_mails.insert(), request)
    return filing.mail_id


def find(connection: sa.Connection, mail_id: str) -> InboundMail | None:
    found = list_by_id(connection, [mail_id])
    return found[0] if found else None


def list_by_id(connection: sa.Connection, mail_ids: Sequence[str]) -> tuple[InboundMail, ...]:
    return _list(connection, _mails.c.mail_id.in_(mail_ids))


def list_unanswered(connection: sa.Connection, conversation_id: str) -> tuple[InboundMail, ...]:
    unanswered = _mails.c.status == MailStatus.UNANSWERED.value
    return _list(connection, _mails.c.conversation_id == conversation_id, unanswered)


def is_any_waiting(connection: sa.Connection) -> bool:
    """Return whether any mail waits for the agent."""
    unanswered = in_literals(_mails.c.status, MailStatus.UNANSWERED.value)
    return exists(connection, unanswered, _mails.c.draft_id.is_(None))


def list_of_conversation(
    connection: sa.Connection, conversation_id: str
) -> tuple[InboundMail, ...]:
    return _list(connection, _mails.c.conversation_id == conversation_id)


def list_latest(
    connection: sa.Connection,
    conversation_id: str,
    limit: int,
    until: datetime = END_OF_TIME,
    also: Sequence[str] = (),
) -> tuple[InboundMail, ...]:
    """Return, oldest first, the newest `limit` customer mails of a thread that came by the time `until`, and
    the mails with the ids `also`."""
    latest = (
        sa.select(_mails.c.mail_id)
        .where(
            _mails.c.conversation_id == conversation_id,
            _mails.c.kind == MailKind.CUSTOMER.value,
            _mails.c.received_at <= until,
        )
        .order_by(_mails.c.received_at.desc())
        .limit(limit)
    )
    return _list(connection, sa.or_(_mails.c.mail_id.in_(latest), _mails.c.mail_id.in_(also)))


def _list(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> tuple[InboundMail, ...]:
    return tuple(
        from_row(
            InboundMail,
            row,
            references=tuple(row.mail_references) or tuple(row.in_reply_to),
            identity=Identity(row.identity),
            kind=MailKind(row.kind),
            status=MailStatus(row.status),
            attachments=tuple(Attachment(**each) for each in row.attachments),
        )
        for row in connection.execute(_OLDEST_FIRST.where(*where))
    )


def list_recent(
    connection: sa.Connection, status: MailStatus | None, kind: MailKind | None, limit: int
) -> Sequence[Row]:
    """Return the newest inbound mails with this status and kind; None: with any."""
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


def find_kind(
    connection: sa.Connection, sender: str, to_address: str, since: datetime
) -> MailKind | None:
    """Return the kind of a mail that came from a sender to one address since a time; None if none came."""
    query = sa.select(_mails.c.envelope_to, _mails.c.kind).where(
        _mails.c.from_address == sender, _mails.c.received_at >= since
    )
    for row in connection.execute(query.order_by(_mails.c.received_at.desc()).limit(100)):
        if to_address in row.envelope_to:
            return MailKind(row.kind)
    return None


def list_copies(
    connection: sa.Connection, conversation_id: str, mail: ParsedMail
) -> list[InboundMail]:
    """Return the copies of the customer's mail that a conversation has. Mail without a Message-ID has none."""
    if mail.message_id is None:
        return []
    copies = _list(
        connection,
        _mails.c.message_id == mail.message_id,
        _mails.c.conversation_id == conversation_id,
        _mails.c.from_address == mail.from_address,
        _mails.c.kind == MailKind.CUSTOMER.value,
        _mails.c.body == mail.body,
    )
    return [each for each in copies if each.attachments == mail.attachments]


# --- what became of a mail ------------------------------------------------------------------------


def change_status(
    connection: sa.Connection,
    status: MailStatus,
    *where: sa.ColumnElement[bool],
    reason: str | None = None,
    **values: Any,
) -> Sequence[Row]:
    """Set the status, and its `reason`, of the mails for which all conditions hold. `values`: other columns to
    set. Return `mail_id` and `from_address` of these mails, in the order of their ids."""
    changed = (
        _mails.update()
        .where(*where)
        .values(status=status.value, no_answer_reason=reason, **values)
        .returning(_mails.c.mail_id, _mails.c.from_address)
    )
    return sorted(connection.execute(changed).all())


def where_unanswered(mail_ids: Sequence[str]) -> sa.ColumnElement[bool]:
    """Return the condition for those of these mails that wait for an answer."""
    return _mails.c.mail_id.in_(mail_ids) & (_mails.c.status == MailStatus.UNANSWERED.value)


def answer(connection: sa.Connection, mail_ids: Sequence[str], outbound_id: str) -> None:
    answered = where_unanswered(mail_ids)
    change_status(connection, MailStatus.ANSWERED, answered, answered_by=outbound_id)


def leave_unanswered(connection: sa.Connection, mail_ids: Sequence[str], reason: str) -> None:
    """Record why these mails never get an answer of ours."""
    change_status(connection, MailStatus.NO_ANSWER, where_unanswered(mail_ids), reason=reason)


def set_reason(connection: sa.Connection, mail_id: str, reason: str) -> None:
    """Change the reason why a mail gets no answer of its own."""
    _update(connection, mail_id, no_answer_reason=reason)


def set_run(connection: sa.Connection, mail_id: str, run_id: str) -> None:
    _update(connection, mail_id, run_id=run_id)


def count_wake_up(connection: sa.Connection, mail_id: str, run_id: str) -> None:
    """Record that the sweep enqueued a mail again."""
    _update(connection, mail_id, wake_ups=_mails.c.wake_ups + 1, run_id=run_id)


def _update(connection: sa.Connection, mail_id: str, **values: Any) -> None:
    update_rows(connection, _mails, _mails.c.mail_id == mail_id, **values)


def list_unproven(
    connection: sa.Connection, conversation_id: str, address: str
) -> tuple[InboundMail, ...]:
    """Return the answered mails of this thread that claim to come from `address` without proof, in the order of
    our answers."""
    mails = _list(
        connection,
        _mails.c.conversation_id == conversation_id,
        _mails.c.from_address == address,
        _mails.c.identity == Identity.NONE.value,
        _mails.c.kind == MailKind.CUSTOMER.value,
        _mails.c.answered_by.is_not(None),
    )
    return tuple(sorted(mails, key=lambda mail: mail.answered_by or ""))


def prove_mailbox(connection: sa.Connection, mail_ids: Sequence[str]) -> None:
    """Record that the senders of these mails are proven, by an answer from their mailbox with our code."""
    unproven = (_mails.c.mail_id.in_(mail_ids), _mails.c.identity == Identity.NONE.value)
    update_rows(connection, _mails, *unproven, identity=Identity.MAILBOX.value)


def put_off(
    connection: sa.Connection, conversation_id: str, mail_ids: Sequence[str], run_id: str | None
) -> int:
    """Record on mails that their run ended because the model's provider, or the order source, was unavailable:
    on the mail that it was enqueued for, and on `mail_ids`, which it was answering. Return how many mails.

    A mail is counted at most once for each run enqueued for it, although the step may run twice.
    """
    return update_rows(
        connection,
        _mails,
        _mails.c.conversation_id == conversation_id,
        _mails.c.status == MailStatus.UNANSWERED.value,
        sa.or_(_mails.c.run_id == run_id, _mails.c.mail_id.in_(mail_ids)),
        _mails.c.put_off <= _mails.c.wake_ups,
        put_off=_mails.c.put_off + 1,
    )


def was_put_off(connection: sa.Connection, mail_ids: Sequence[str]) -> bool:
    """Return whether `put_off` was recorded for one of these mails."""
    return exists(connection, _mails.c.mail_id.in_(mail_ids), _mails.c.put_off > 0)


def list_later(connection: sa.Connection, ids: Collection[str], than: Sequence[str]) -> set[str]:
    """Return those of the mails `ids` that came after all mails of `than`."""
    if not ids:
        return set()
    last = sa.select(sa.func.max(_mails.c.received_at)).where(_mails.c.mail_id.in_(than))
    later = _mails.c.received_at > last.scalar_subquery()
    query = sa.select(_mails.c.mail_id).where(_mails.c.mail_id.in_(ids), later)
    return set(connection.scalars(query))


def last_received_at(connection: sa.Connection, mail_ids: Sequence[str]) -> datetime:
    """Return when the newest of these mails came."""
    query = sa.select(sa.func.max(_mails.c.received_at)).where(_mails.c.mail_id.in_(mail_ids))
    found: datetime | None = connection.scalar(query)
    return required(found, "the newest of the mails")


# --- mail that waits for the agent ----------------------------------------------------------------


def list_waiting(
    connection: sa.Connection, before: datetime, limit: int, after: str = ""
) -> Sequence[Row]:
    """Return mails that came before a time and wait for the agent, each with the run enqueued for it, in
    the order of their ids: those that come after `after`. Mails that a waiting draft answers are left out.

    `taken_back_at`: when a draft of the conversation was last superseded. `given_back_at`: when people gave the
    conversation back. Before these times the agent could not answer.
    """
    return connection.execute(
        _waiting()
        .where(_mails.c.received_at < before, _mails.c.mail_id > after)
        .order_by(_mails.c.mail_id)
        .limit(limit)
    ).all()


def find_waiting(connection: sa.Connection, mail_id: str) -> Row | None:
    """Return one mail with the columns of `list_waiting`; None if it does not wait for the agent any more."""
    return connection.execute(_waiting().where(_mails.c.mail_id == mail_id)).one_or_none()


def list_put_off(
    connection: sa.Connection, limit: int, offset: int = 0, by_turns: bool = True
) -> Sequence[Row]:
    """Return mails that were put off (see `put_off`), with the columns of `list_waiting`, without the first
    `offset` ones.

    `by_turns`: the oldest mail of each customer first, then the second oldest of each, and so on; else the mail
    that was put off least often first. Mail of unproven senders has turns of its own. So has mail that was
    enqueued again and not put off since: its run is active or has failed.
    """
    return connection.execute(_put_off_query(limit, offset, by_turns)).all()


def _put_off_query(limit: int, offset: int, by_turns: bool) -> sa.Select[Any]:
    turn = sa.func.row_number().over(
        partition_by=(
            _mails.c.from_address,
            _mails.c.identity == Identity.NONE.value,
            _mails.c.wake_ups < _mails.c.put_off,
        ),
        order_by=(_mails.c.received_at, _mails.c.mail_id),
    )
    rank = (turn if by_turns else _mails.c.put_off).label("rank")
    ranked = (
        sa.select(_mails.c.mail_id, _mails.c.received_at, rank)
        .where(_WAITS, _mails.c.put_off > 0)
        .order_by(rank, _mails.c.received_at, _mails.c.mail_id)
        .limit(limit)
        .offset(offset)
        .subquery()
    )
    # Join the other tables last, only for the mails that are returned.
    query = _waiting().join_from(_mails, ranked, ranked.c.mail_id == _mails.c.mail_id)
    return query.order_by(ranked.c.rank, ranked.c.received_at, ranked.c.mail_id)


def _waiting() -> sa.Select[Any]:
    given_back_at = sa.select(sa.func.max(schema.audit.c.at)).where(
        schema.audit.c.subject == _mails.c.conversation_id,
        schema.audit.c.action == audit.GIVEN_BACK,
    )
    return sa.select(
        _mails.c.mail_id,
        _mails.c.conversation_id,
        _mails.c.from_address,
        _mails.c.received_at,
        drafts.superseded_at(_mails).label("taken_back_at"),
        given_back_at.scalar_subquery().label("given_back_at"),
        _mails.c.run_id,
        _mails.c.wake_ups,
        _mails.c.put_off,
        _mails.c.identity,
    ).where(_WAITS)
