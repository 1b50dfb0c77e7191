"""Delivery events of our mails, as the mail provider reported them, and what they say about a mail."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.delivery import DeliveryKind
from mailagent.domain.operations.retry import MAIL_IS_UNDER_WAY_FOR
from mailagent.store import schema
from mailagent.store.database import exists, insert_once
from mailagent.store.mail import suppressions

_mails, _events = schema.outbound_mails, schema.delivery_events

# The key of a bounce that came as mail begins so. It is recorded as an event, but does not show that the
# webhook works.
BOUNCE_MAIL = "bounce-mail:"
_FROM_WEBHOOK = ~_events.c.event_key.startswith(BOUNCE_MAIL, autoescape=True)


def record_event(
    connection: sa.Connection,
    event_key: str,
    outbound_id: str,
    event: str,
    reason: str | None,
    occurred_at: datetime,
    now: datetime,
) -> bool:
    """Record a delivery event of one of our mails. Return False if it changes nothing:
    the event was known, the mail is not ours, or the customer was erased. For an erased customer
    the reason is not recorded, because it may contain the address."""
    # With a lock, so that no erasure misses the event.
    recipient = sa.select(_mails.c.to_address).where(_mails.c.outbound_id == outbound_id)
    to_address = connection.scalar(recipient.with_for_update())
    if to_address is None:
        return False
    erased = suppressions.is_erased(to_address)
    values = {
        "event_key": event_key,
        "outbound_id": outbound_id,
        "event": event,
        "reason": None if erased else reason,
        "occurred_at": occurred_at,
        "received_at": now,
    }
    return insert_once(connection, _events, values, "event_key") and not erased


def why_undelivered(connection: sa.Connection, outbound_id: str) -> str | None:
    """Return the reason why a mail did not reach its recipient, from the first such event; None if it has
    none."""
    not_reached = [kind.value for kind in DeliveryKind if kind.not_reached]
    return _first_reason(connection, outbound_id, _events.c.event.in_(not_reached))


def why_unwelcome(connection: sa.Connection, outbound_id: str) -> str | None:
    """Return the reason to write no more to a mail's recipient, from a signed event about a permanent bounce or
    a complaint; None without one. A bounce that came as mail does not count, because anyone can forge it.
    """
    unwelcome = [DeliveryKind.BOUNCE.value, DeliveryKind.SPAMREPORT.value]
    return _first_reason(connection, outbound_id, _events.c.event.in_(unwelcome), _FROM_WEBHOOK)


def _first_reason(
    connection: sa.Connection, outbound_id: str, *where: sa.ColumnElement[bool]
) -> str | None:
    query = sa.select(_events.c.event, _events.c.reason).where(
        _events.c.outbound_id == outbound_id, *where
    )
    row = connection.execute(query.order_by(_events.c.occurred_at).limit(1)).one_or_none()
    return None if row is None else f"{row.event}: {row.reason or 'no reason given'}"


def was_accepted(connection: sa.Connection, outbound_id: str) -> bool:
    """Return whether any event shows that the mail provider has the mail."""
    return exists(connection, _events.c.outbound_id == outbound_id)


def has_any_event(connection: sa.Connection) -> bool:
    """Return whether the event webhook ever reported on a mail of ours, so that it works."""
    return exists(connection, _FROM_WEBHOOK)


def was_later_mail_reported(connection: sa.Connection, sending_at: datetime) -> bool:
    """Return whether the event webhook reported on a mail that we sent after `sending_at`.

    Only kinds of events count that every sent mail gets. So if there is one, a mail sent at `sending_at`
    without an event was probably not sent.
    """
    return exists(
        connection,
        _FROM_WEBHOOK,
        # Implied, because no older mail is under way; `created_at` has an index.
        _mails.c.created_at > sending_at - MAIL_IS_UNDER_WAY_FOR,
        _mails.c.outbound_id == _events.c.outbound_id,
        _events.c.received_at >= sending_at,
        _mails.c.sending_at > sending_at,
        _events.c.event.in_([DeliveryKind.PROCESSED.value, DeliveryKind.DELIVERED.value]),
    )
