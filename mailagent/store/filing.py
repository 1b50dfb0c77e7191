"""How a mail that comes in becomes rows: stored whole, with the request that brought it, before anyone is
thanked for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from mailagent.domain.mail import MailStatus, ParsedMail
from mailagent.store import schema
from mailagent.store.database import insert_once
from mailagent.store.ids import new_id

_mails, _raw = schema.inbound_mails, schema.raw_mails

_KEEP_RAW = _raw.insert()


@dataclass(frozen=True, slots=True)
class RawMail:
    """The request that brought a mail, exactly as it came."""

    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Filing:
    """What goes into a mail's row beside the mail. `parked`: it is not answered only for now; `run_id`: the
    run that is rung for it in this transaction; `raw`: the request that brought it, kept beside it."""

    mail_id: str = field(default_factory=lambda: new_id("mail"))
    parked: bool = False
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
    """Record an inbound mail and return its id, or None when another request was faster.

    Without a `no_answer_reason` the mail waits to be answered.
    """
    filing = filing or Filing()
    values = values_of(mail, conversation_id, no_answer_reason, now, filing)
    raw = filing.raw
    if raw is None:
        new = insert_once(connection, _mails, values, "dedup_key")
    elif connection.dialect.name == "postgresql":
        both = {**values, "raw_content_type": raw.content_type, "raw_body": raw.body}
        new = connection.scalar(_record_both(tuple(values)), both) is not None
    else:
        new = insert_once(connection, _mails, values, "dedup_key")
        if new:
            connection.execute(
                _KEEP_RAW, {**asdict(raw), "mail_id": filing.mail_id, "received_at": now}
            )
    return filing.mail_id if new else None


@cache
def _record_both(names: tuple[str, ...]) -> sa.Insert:
    """Return the statement that records a mail unless it is there, and its request only with it: one journey
    to the database instead of two. SQLite knows no such statement."""
    mail = (
        postgresql.insert(_mails)
        .values({name: sa.bindparam(name) for name in names})
        .on_conflict_do_nothing(index_elements=["dedup_key"])
        .returning(_mails.c.mail_id, _mails.c.received_at)
        .cte("mail")
    )
    columns = _raw.c
    request = sa.select(
        mail.c.mail_id,
        mail.c.received_at,
        sa.bindparam("raw_content_type", type_=columns.content_type.type),
        sa.bindparam("raw_body", type_=columns.body.type),
    )
    return (
        postgresql.insert(_raw)
        .from_select(["mail_id", "received_at", "content_type", "body"], request)
        .returning(sa.literal(1))
    )


def values_of(
    mail: ParsedMail,
    conversation_id: str | None,
    no_answer_reason: str | None,
    now: datetime,
    filing: Filing,
) -> dict[str, Any]:
    status = MailStatus.NO_ANSWER if no_answer_reason else MailStatus.UNANSWERED
    if filing.parked:
        status = MailStatus.PARKED
    return {
        "mail_id": filing.mail_id,
        "dedup_key": mail.dedup_key,
        "conversation_id": conversation_id,
        "from_address": mail.from_address,
        "from_name": mail.from_name,
        "envelope_from": mail.envelope_from,
        "envelope_to": list(mail.envelope_to),
        "subject": mail.subject,
        "message_id": mail.message_id,
        "same_message_id": filing.same_message_id,
        "in_reply_to": list(mail.in_reply_to),
        "mail_references": list(mail.references),
        "sent_at": mail.sent_at,
        "received_at": now,
        "body": mail.body,
        "new_text": mail.new_text,
        "attachments": [asdict(attachment) for attachment in mail.attachments],
        "flags": list(mail.flags),
        "identity": mail.identity.value,
        "kind": mail.kind.value,
        "status": status.value,
        "no_answer_reason": no_answer_reason,
        "run_id": filing.run_id,
        "rate_limit_key": filing.rate_limit_key,
    }
