"""What is done right before a mail is sent: it is taken to "sending", and its address is looked up among those
that nothing is sent to. Where nothing stands in its way that is one statement."""

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
_ADDRESS = sa.select(_mails.c.to_address).where(_mails.c.outbound_id == sa.bindparam("outbound_id"))
# As `suppression.digest` makes it; SQLite has no such function.
_DIGEST = sa.literal(suppression.DIGEST) + sa.func.encode(
    sa.func.sha256(sa.func.convert_to(_mails.c.to_address, "UTF8")), "hex"
)
_CLAIM_PLAINLY = _CLAIM_WHILE_WELL.where(
    ~_mails.c.to_address.endswith(suppression.ERASED_ENDING, autoescape=True),
    # Not NOT EXISTS, a join: of one who has waited for the row it would not look up the address as it is then.
    # What was suppressed only during that wait it does not see, either way: the statement is older.
    sa.select(_suppressed.c.address)
    .where(_suppressed.c.address.in_([_mails.c.to_address, _DIGEST]))
    .limit(1)
    .correlate(_mails)
    .scalar_subquery()
    .is_(None),
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A mail that is "sending" now; `why_not`: why nothing is sent to its address, or None."""

    mail: OutboundMail
    why_not: str | None


def claim_plainly(
    connection: sa.Connection, outbound_id: str, sender: Provider, now: datetime
) -> OutboundMail | None:
    """Take a queued mail to "sending" if mail may go to its address and nothing is on record of its sender,
    which has not failed lately then; else None."""
    query = _CLAIM_PLAINLY
    if connection.dialect.name != "postgresql":
        address = connection.scalar(_ADDRESS, {"outbound_id": outbound_id})
        if address is None or suppression.why_suppressed(connection, address):
            return None
        query = _CLAIM_WHILE_WELL
    values = {"here": outbound_id, "now": now, "sender": sender.value}
    row = connection.execute(query, values).one_or_none()
    return outbox.from_row(row) if row else None


def claim(connection: sa.Connection, outbound_id: str, now: datetime) -> Claimed | None:
    """Take a queued mail to "sending"; None if it is not queued."""
    mail = outbox.claim_for_sending(connection, outbound_id, now)
    return Claimed(mail, suppression.why_suppressed(connection, mail.to_address)) if mail else None
