"""What is done right before a mail is sent: it is taken to "sending", if its provider is well, and its address
is looked up among those that nothing is sent to. On PostgreSQL that is one journey to the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.breaker import Provider
from mailagent.domain.mail import OutboundMail
from mailagent.store import outbox, schema, suppression

_breakers, _mails, _suppressed = (
    schema.breakers,
    schema.outbound_mails,
    schema.suppressed_addresses,
)

_CLAIM_WHILE_WELL = outbox.CLAIM.where(
    ~sa.select(sa.literal(1)).where(_breakers.c.provider == sa.bindparam("sender")).exists()
)
# As `suppression.digest` makes it; SQLite has no such function.
_DIGEST = sa.literal(suppression.DIGEST) + sa.func.encode(
    sa.func.sha256(sa.func.convert_to(_mails.c.to_address, "UTF8")), "hex"
)
_CLAIM_AND_LOOK = _CLAIM_WHILE_WELL.returning(
    sa.select(_suppressed.c.reason)
    .where(_suppressed.c.address.in_([_mails.c.to_address, _DIGEST]))
    .limit(1)
    .correlate(_mails)
    .scalar_subquery()
    .label("suppressed")
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A mail that is "sending" now; `why_not`: why nothing is sent to its address, or None."""

    mail: OutboundMail
    why_not: str | None


def claim_while_well(
    connection: sa.Connection, outbound_id: str, sender: Provider, now: datetime
) -> Claimed | None:
    """Take a queued mail to "sending" as `claim` does, but only while nothing is on record of its sender, which
    has not failed lately then; else None."""
    values = {"here": outbound_id, "now": now, "sender": sender.value}
    if connection.dialect.name != "postgresql":
        row = connection.execute(_CLAIM_WHILE_WELL, values).one_or_none()
        return _look(connection, outbox.from_row(row)) if row else None
    row = connection.execute(_CLAIM_AND_LOOK, values).one_or_none()
    if row is None:
        return None
    return Claimed(outbox.from_row(row), suppression.why_erased(row.to_address) or row.suppressed)


def claim(connection: sa.Connection, outbound_id: str, now: datetime) -> Claimed | None:
    """Take a queued mail to "sending"; None if it is not queued."""
    mail = outbox.claim_for_sending(connection, outbound_id, now)
    return _look(connection, mail) if mail else None


def _look(connection: sa.Connection, mail: OutboundMail) -> Claimed:
    return Claimed(mail, suppression.why_suppressed(connection, mail.to_address))
