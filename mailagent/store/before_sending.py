"""What is done right before a mail is sent: it is taken to "sending", if its provider is well, in one journey
to the database."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.breaker import Provider
from mailagent.domain.mail import OutboundMail
from mailagent.store import outbox, schema

_breakers = schema.breakers

_CLAIM_WHILE_WELL = outbox.CLAIM.where(
    ~sa.select(sa.literal(1)).where(_breakers.c.provider == sa.bindparam("sender")).exists()
)


def claim_while_well(
    connection: sa.Connection, outbound_id: str, sender: Provider, now: datetime
) -> OutboundMail | None:
    """Take a queued mail to "sending" as `outbox.claim_for_sending` does, but only while nothing is on record
    of its sender, which has not failed lately then; else None."""
    values = {"here": outbound_id, "now": now, "sender": sender.value}
    row = connection.execute(_CLAIM_WHILE_WELL, values).one_or_none()
    return outbox.from_row(row) if row else None
