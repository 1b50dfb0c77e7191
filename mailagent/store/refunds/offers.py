"""Offers as rows. Lock the order before you record or accept one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.offer import Offer, OfferStatus
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.store import audit, schema
from mailagent.store.database import columns_of, exists, from_row, in_literals, update_rows

_offers = schema.offers


def record(connection: sa.Connection, offer: Offer, offer_key: str) -> None:
    """Record a new offer. Raises IntegrityError if there is one with this key."""
    values = columns_of(_offers, offer, offer_key=offer_key, amount_minor=offer.amount.minor)
    connection.execute(_offers.insert(), values | {"currency": offer.amount.currency})


def list_of_order(connection: sa.Connection, order_id: str) -> tuple[Offer, ...]:
    """Return the offers of an order, oldest first."""
    query = sa.select(_offers).where(_offers.c.order_id == order_id)
    return _list(connection, query.order_by(_offers.c.offered_at, _offers.c.offer_id))


def list_of_customer(connection: sa.Connection, address: str) -> tuple[Offer, ...]:
    """Return the offers made for a customer's orders, oldest first."""
    theirs = sa.select(schema.orders.c.order_id).where(schema.orders.c.customer_email == address)
    query = sa.select(_offers).where(_offers.c.order_id.in_(theirs))
    return _list(connection, query.order_by(_offers.c.offered_at, _offers.c.offer_id))


def list_untold(connection: sa.Connection, address: str, now: datetime) -> set[str]:
    """Return a customer's orders with an open offer of the policy that no mail has told."""
    orders, told = schema.orders, schema.audit
    is_told = sa.exists().where(
        told.c.subject == _offers.c.offer_id, told.c.action == audit.OFFER_TOLD
    )
    query = (
        sa.select(_offers.c.order_id)
        .join(orders, orders.c.order_id == _offers.c.order_id)
        .where(
            orders.c.customer_email == address,
            in_literals(_offers.c.status, OfferStatus.OPEN.value),
            _offers.c.expires_at > now,
            _offers.c.offered_by == audit.POLICY,
            ~is_told,
        )
    )
    return set(connection.scalars(query))


def lock(connection: sa.Connection, offer_id: str) -> Offer | None:
    """Lock the order of an offer; return the offer, or None if there is none."""
    own, orders = _offers.c.offer_id == offer_id, schema.orders
    order_id = sa.select(_offers.c.order_id).where(own).scalar_subquery()
    locked = sa.select(orders.c.order_id).where(orders.c.order_id == order_id)
    connection.execute(locked.with_for_update())
    return next(iter(_list(connection, sa.select(_offers).where(own))), None)


def list_overdue(connection: sa.Connection, now: datetime, limit: int) -> Sequence[str]:
    """Return the ids of open offers whose date has passed, oldest first."""
    is_open = in_literals(_offers.c.status, OfferStatus.OPEN.value)
    query = sa.select(_offers.c.offer_id).where(is_open, _offers.c.expires_at <= now)
    return list(connection.scalars(query.order_by(_offers.c.expires_at).limit(limit)))


def has_open(
    connection: sa.Connection, order_id: str, now: datetime, but_refund_id: str = ""
) -> bool:
    """Return whether an order has an offer that can be accepted, or a manager's decision to make one that can
    still be taken back. An order has at most one, so that a "yes" is clear. `but_refund_id`: ignore a decision
    on this refund."""
    if any(each.is_open(now) for each in list_of_order(connection, order_id)):
        return True
    refunds, approvals, decisions = schema.refunds, schema.approvals, schema.decisions
    decided = (
        sa.select(decisions.c.approval_id)
        .join(approvals, approvals.c.approval_id == decisions.c.approval_id)
        .join(refunds, refunds.c.refund_id == approvals.c.refund_id)
        .where(
            refunds.c.order_id == order_id,
            refunds.c.refund_id != but_refund_id,
            refunds.c.status == RefundStatus.AWAITING_APPROVAL.value,
            decisions.c.offer_percent.is_not(None),
        )
    )
    return connection.execute(decided).first() is not None


def has_any_open(connection: sa.Connection, now: datetime) -> bool:
    """Return whether any offer of the shop can still be accepted."""
    is_open = in_literals(_offers.c.status, OfferStatus.OPEN.value)
    return exists(connection, is_open, _offers.c.expires_at > now)


def find_instead(connection: sa.Connection, refund_id: str) -> Offer | None:
    """Return the offer that a manager made instead of a refund; None if there is none."""
    found = _list(connection, sa.select(_offers).where(_offers.c.instead_of == refund_id))
    return found[0] if found else None


def close(
    connection: sa.Connection, offer: Offer, status: OfferStatus, refund_id: str | None = None
) -> None:
    here = _offers.c.offer_id == offer.offer_id
    update_rows(connection, _offers, here, status=status.value, refund_id=refund_id)


def _list(connection: sa.Connection, query: sa.Select[Any]) -> tuple[Offer, ...]:
    return tuple(
        from_row(
            Offer,
            row,
            items=tuple((item_id, quantity) for item_id, quantity in row._mapping["items"]),
            reason=RefundReason(row.reason),
            amount=Money(row.amount_minor, row.currency),
            status=OfferStatus(row.status),
        )
        for row in connection.execute(query)
    )
