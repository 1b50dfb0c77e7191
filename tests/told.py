"""Mails that told a customer something, without the run that writes and sends them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.message import OutboundMail, OutboundStatus, Purpose
from mailagent.store import audit, schema
from mailagent.store.ids import new_id
from mailagent.store.mail import outbound

_mails = schema.outbound_mails


def record_told(
    connection: sa.Connection,
    action: audit.Action,
    subject: str,
    at: datetime | None = None,
    status: OutboundStatus = OutboundStatus.SENT,
    **details: Any,
) -> str:
    """Record a mail that told of a row, by default an hour ago; return its Message-ID. `details`: more that the
    audit log says of it."""
    at = at or services.current().now() - timedelta(hours=1)
    outbound_id = new_id("outbound")
    mail = OutboundMail(
        outbound_id=outbound_id,
        purpose=Purpose.REPLY,
        to_address="ada@example.com",
        from_address="support@shop.example",
        subject="Re: Yours",
        text="",
        html=None,
        message_id=f"{outbound_id}@shop.example",
    )
    outbound.record(connection, mail, f"told:{outbound_id}", at)
    sent_at = at if status is OutboundStatus.SENT else None
    values = {"status": status.value, "sending_at": at, "sent_at": sent_at}
    connection.execute(_mails.update().where(_mails.c.outbound_id == outbound_id).values(**values))
    told = {"outbound_id": outbound_id, **details}
    audit.record(connection, at, audit.AGENT, action, subject, told)
    return mail.message_id
