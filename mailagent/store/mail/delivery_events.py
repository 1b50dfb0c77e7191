"""Delivery events of outbound mail: what SendGrid reported, and what follows for the mail."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.delivery import DeliveryKind
from mailagent.store import schema
from mailagent.store.database import insert_once

_mails, _events = schema.outbound_mails, schema.delivery_events


# Bounces that come as mail are recorded beside the events; they say nothing about the webhook.
BOUNCE_MAIL = "bounce-mail:"


def record_event(
    connection: sa.Connection,
    event_key: str,
    outbound_id: str,
    event: str,
    reason: str | None,
    occurred_at: datetime,
    now: datetime,
) -> bool:
    """Record a delivery event of one of our mails; False when it is known or the mail is not ours."""
    known = connection.scalar(
        sa.select(_mails.c.outbound_id).where(_mails.c.outbound_id == outbound_id)
    )
    if known is None:
        return False
    values = {
        "event_key": event_key,
        "outbound_id": outbound_id,
        "event": event,
        "reason": reason,
        "occurred_at": occurred_at,
        "received_at": now,
    }
    return insert_once(connection, _events, values, "event_key")


def why_undelivered(connection: sa.Connection, outbound_id: str) -> str | None:
    """Return what an event says about why the mail did not reach its recipient, or None."""
    row = connection.execute(
        sa.select(_events.c.event, _events.c.reason)
        .where(
            _events.c.outbound_id == outbound_id,
            _events.c.event.in_([kind.value for kind in DeliveryKind if kind.not_reached]),
        )
        .order_by(_events.c.occurred_at)
        .limit(1)
    ).one_or_none()
    return None if row is None else f"{row.event}: {row.reason or 'no reason given'}"


def why_unwelcome(connection: sa.Connection, outbound_id: str) -> str | None:
    """Return the permanent bounce or complaint that a signed event told of, or None.

    A bounce that came as mail is none: anybody can write one.
    """
    unwelcome = (DeliveryKind.BOUNCE.value, DeliveryKind.SPAMREPORT.value)
    row = connection.execute(
        sa.select(_events.c.event, _events.c.reason)
        .where(
            _events.c.outbound_id == outbound_id,
            _events.c.event.in_(unwelcome),
            ~_events.c.event_key.startswith(BOUNCE_MAIL, autoescape=True),
        )
        .order_by(_events.c.occurred_at)
        .limit(1)
    ).one_or_none()
    return None if row is None else f"{row.event}: {row.reason or 'no reason given'}"


def was_accepted(connection: sa.Connection, outbound_id: str) -> bool:
    """Return whether any event shows that SendGrid took the mail."""
    return (
        connection.scalar(
            sa.select(_events.c.event_key).where(_events.c.outbound_id == outbound_id).limit(1)
        )
        is not None
    )


def has_any_event(connection: sa.Connection) -> bool:
    """Return whether the event webhook ever told of a mail of ours."""
    return connection.scalar(_from_webhook(sa.select(sa.literal(1))).limit(1)) is not None


def was_later_mail_reported(connection: sa.Connection, sending_at: datetime) -> bool:
    """Return whether the event webhook told of a mail that was handed over after a time.

    Only events count that every mail which goes out has: had this one gone out, it would have one.
    """
    query = (
        _from_webhook(sa.select(sa.literal(1)))
        .join(_mails, _mails.c.outbound_id == _events.c.outbound_id)
        .where(
            _events.c.received_at >= sending_at,
            _mails.c.sending_at > sending_at,
            _events.c.event.in_([DeliveryKind.PROCESSED.value, DeliveryKind.DELIVERED.value]),
        )
    )
    return connection.scalar(query.limit(1)) is not None


def _from_webhook(query: sa.Select[tuple[int]]) -> sa.Select[tuple[int]]:
    return query.select_from(_events).where(
        ~_events.c.event_key.startswith(BOUNCE_MAIL, autoescape=True)
    )
