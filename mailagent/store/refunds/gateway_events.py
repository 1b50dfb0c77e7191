"""The gateway's webhook events, each stored once, with what followed from it; and disputes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.refunds.order import Order, Payment
from mailagent.store import schema
from mailagent.store.database import Row, insert_once

_events, _named = schema.gateway_events, schema.gateway_event_payments

_SPEAKING = sa.select(_named.c.event_id).where(
    _named.c.payment_id.in_(sa.bindparam("names", expanding=True))
)
_NAMES_BESIDE = sa.select(_named.c.payment_id).where(_named.c.event_id.in_(_SPEAKING)).distinct()

# Kinds of events about a customer's bank that takes a payment back.
DISPUTES = "charge.dispute."


def record(
    connection: sa.Connection,
    gateway: str,
    event_id: str,
    kind: str,
    body: Mapping[str, Any],
    occurred_at: datetime,
    now: datetime,
) -> bool:
    """Record an event; return whether it was new. Its outcome is to be set in the same transaction."""
    return insert_once(
        connection,
        _events,
        {
            "event_id": event_id,
            "gateway": gateway,
            "kind": kind,
            "occurred_at": occurred_at,
            "received_at": now,
            "outcome": "",
            "body": dict(body),
        },
        "event_id",
    )


def record_payments(connection: sa.Connection, event_id: str, payment_ids: Iterable[str]) -> None:
    """Record the names of the payment that a new event speaks of: by these it is found again when an
    order comes. One that is not to be followed has none."""
    rows = [{"payment_id": each, "event_id": event_id} for each in sorted(set(payment_ids))]
    if rows:
        connection.execute(_named.insert(), rows)


def set_outcome(connection: sa.Connection, event_id: str, outcome: str) -> None:
    """Record, in words, what came of an event."""
    connection.execute(
        _events.update().where(_events.c.event_id == event_id).values(outcome=outcome)
    )


def list_latest(connection: sa.Connection, limit: int) -> Sequence[Row]:
    """Return the latest events, newest first."""
    query = sa.select(_events).order_by(_events.c.received_at.desc(), _events.c.event_id)
    return connection.execute(query.limit(limit)).all()


def names_of(connection: sa.Connection, payment_ids: Iterable[str]) -> set[str]:
    """Return these names of a payment with all others under which the gateway spoke of it: an order may
    name its intent, where an event names its charge."""
    names, told = set(payment_ids), _names_told(connection, payment_ids)
    while not told <= names:
        names |= told
        told = _names_told(connection, names)
    return names


def _names_told(connection: sa.Connection, payment_ids: Iterable[str]) -> set[str]:
    """Return all names in the events that have one of these; none if there is no such event."""
    names = sorted(set(payment_ids))
    return set(connection.scalars(_NAMES_BESIDE, {"names": names})) if names else set()


def list_about(connection: sa.Connection, payment_ids: Iterable[str]) -> Sequence[Row]:
    """Return the events that speak of a payment, by any of its names, oldest first."""
    told = _names_told(connection, payment_ids)
    if not told:
        return ()
    names = names_of(connection, told)
    speaking = sa.select(_named.c.event_id).where(_named.c.payment_id.in_(names))
    return connection.execute(
        sa.select(_events)
        .where(_events.c.event_id.in_(speaking))
        .order_by(_events.c.occurred_at, _events.c.event_id)
    ).all()


def charged_back_since(connection: sa.Connection, payment_ids: Iterable[str]) -> datetime | None:
    """Return since when a payment is charged back, by all that was told of its disputes; None if it is
    not, or no longer. Of each dispute the newest word counts, in whatever order the words came."""
    since: dict[str, datetime | None] = {}
    for row in _words(list_about(connection, payment_ids)):
        dispute, taken = row.body["dispute"], row.body["charged_back"]
        if taken is not None:
            since[dispute] = (since.get(dispute) or row.occurred_at) if taken else None
    return min((each for each in since.values() if each), default=None)


def _words(rows: Sequence[Row]) -> list[Row]:
    """Return what was said of disputes, oldest first; of one second those last that say that the money
    is back, which is the end of it."""
    found = [row for row in rows if row.body.get("dispute")]
    return sorted(found, key=lambda row: (row.occurred_at, row.body["charged_back"] is False))


def list_disputes_without_order(connection: sa.Connection, since: datetime) -> Sequence[Row]:
    """Return the newest word of each dispute told of since a time whose payment no order has, if it
    says that the money was taken."""
    payments = schema.order_payments
    known = (
        sa.select(_named.c.event_id)
        .join(payments, payments.c.payment_id == _named.c.payment_id)
        .where(_named.c.event_id == _events.c.event_id)
    )
    query = sa.select(_events).where(
        _events.c.kind.startswith(DISPUTES, autoescape=True),
        _events.c.received_at >= since,
        ~known.exists(),
        sa.exists().where(_named.c.event_id == _events.c.event_id),
    )
    newest = {row.body["dispute"]: row for row in _words(connection.execute(query).all())}
    return [row for row in newest.values() if row.body["charged_back"]]


# --- disputes -------------------------------------------------------------------------------------


_payments = schema.order_payments


def mark(connection: sa.Connection, order_id: str, payment_id: str, since: datetime | None) -> bool:
    """Record since when a payment is charged back (None: no longer); return whether that is a change."""
    is_so = _payments.c.charged_back_at.is_not(None)
    marked = connection.execute(
        _payments.update()
        .where(
            _payments.c.order_id == order_id,
            _payments.c.payment_id == payment_id,
            sa.not_(is_so) if since else is_so,
        )
        .values(charged_back_at=since)
    )
    return marked.rowcount > 0


def keep(connection: sa.Connection, order: Order, stored: Order | None) -> Order:
    """Return the order of a shop's record with the chargebacks that the gateway told us of, be it long
    before the order came: a record that does not mention one has not heard of it. What a record itself
    said of a payment, a later record may take back."""
    known = {each.payment_id: each for each in stored.payments} if stored else {}
    kept = tuple(_kept(connection, each, known.get(each.payment_id)) for each in order.payments)
    return order if kept == order.payments else replace(order, payments=kept)


def _kept(connection: sa.Connection, payment: Payment, stored: Payment | None) -> Payment:
    if payment.charged_back_at:
        return payment
    since = charged_back_since(connection, [payment.payment_id])
    if since and stored and stored.charged_back_at:
        since = stored.charged_back_at
    return replace(payment, charged_back_at=since) if since else payment


def restore(connection: sa.Connection, order: Order) -> Order:
    """Return a locked order with the marks that the gateway's word wants. Code that does not know of
    chargebacks writes payments anew without them, while it runs beside this."""
    kept = keep(connection, order, order)
    for payment in kept.payments:
        if payment not in order.payments:
            mark(connection, order.order_id, payment.payment_id, payment.charged_back_at)
    return kept
