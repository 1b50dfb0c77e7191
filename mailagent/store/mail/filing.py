"""How a mail that comes in becomes rows: stored whole, with the request that brought it, before anyone is
thanked for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus, ParsedMail
from mailagent.store import schema
from mailagent.store.database import insert_once
from mailagent.store.ids import new_id

_mails, _raw = schema.inbound_mails, schema.raw_mails


@dataclass(frozen=True, slots=True)
class RawMail:
    """The request that brought a mail, exactly as it came."""

    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Filing:
    """What goes into a mail's row beside the mail. `throttled`: it is not answered only for now; `run_id`: the
    run that is enqueued for it in this transaction; `raw`: the request that brought it, kept beside it."""

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
    """Record an inbound mail and return its id, or None when another request was faster.

    Without a `no_answer_reason` the mail waits to be answered.
    """
    filing = filing or Filing()
    values = _values_of(mail, conversation_id, no_answer_reason, now, filing)
    if not insert_once(connection, _mails, values, "dedup_key"):
        return None
    if filing.raw is not None:
        request = {**asdict(filing.raw), "mail_id": filing.mail_id, "received_at": now}
        connection.execute(_raw.insert(), request)
    return filing.mail_id


def _values_of(
    mail: ParsedMail,
    conversation_id: str | None,
    no_answer_reason: str | None,
    now: datetime,
    filing: Filing,
) -> dict[str, Any]:
    status = MailStatus.NO_ANSWER if no_answer_reason else MailStatus.UNANSWERED
    if filing.throttled:
        status = MailStatus.THROTTLED
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
