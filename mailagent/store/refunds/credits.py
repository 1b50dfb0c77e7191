"""The customer's choice between money and store credit. Lock the order before you change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from mailagent.domain.mail.message import InboundMail
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.remedies.remedy import RemedyStatus
from mailagent.store import audit, schema
from mailagent.store.database import exists, update_rows
from mailagent.store.mail import told
from mailagent.store.refunds import remedies

_refunds, _parts = schema.refunds, schema.refund_payments

# SQL expressions for sums: whether a refund is store credit, and how much credit it is, in minor units.
IS_CREDIT = _refunds.c.credit_bonus.is_not(None)
CREDIT_MINOR = _refunds.c.amount_minor + _refunds.c.amount_minor * _refunds.c.credit_bonus // 100


def can_change(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether the customer can still choose: it awaits approval, or is approved without an intent."""
    if refund.status is RefundStatus.AWAITING_APPROVAL:
        return True
    asked = _parts.c.refund_id == refund.refund_id
    return refund.status is RefundStatus.APPROVED and not exists(connection, asked)


def waits(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether a refund waits for a manager or for goods, which gives the customer time to choose."""
    if refund.status is RefundStatus.AWAITING_APPROVAL:
        return True
    if refund.status is not RefundStatus.APPROVED:
        return False
    tied = remedies.find_of_refund(connection, refund.refund_id)
    return tied is not None and tied.status is RemedyStatus.AWAITING_GOODS


def choose(connection: sa.Connection, refund: Refund, bonus: int | None) -> None:
    """Record what the customer chose: store credit with a bonus in percent, or money (None)."""
    here = _refunds.c.refund_id == refund.refund_id
    update_rows(connection, _refunds, here, credit_bonus=bonus)


def find_bonus(
    connection: sa.Connection,
    order_id: str,
    mails: Sequence[InboundMail],
    units: Counter[str],
    others: Sequence[Refund],
    refund_id: str | None = None,
) -> int | None:
    """Return the bonus in percent of the newest offer of store credit that one of these mails answers, and that
    was told for a refund or for these units of an order; None without one. An offer for units counts until one
    of the order's `others` asks for some of these items."""
    items = set(units)
    for at, offer in reversed(
        told.list_answered(connection, audit.CREDIT_OFFERED, order_id, mails)
    ):
        later = [each for each in others if each.requested_at > at]
        is_for_units = bool(units) and units <= Counter(offer.get("units", {}))
        is_taken = any(items & set(each.item_ids) for each in later)
        is_for_refund = refund_id is not None and offer.get("refund_id") == refund_id
        if "percent" in offer and (is_for_refund or (is_for_units and not is_taken)):
            return int(offer["percent"])
    return None
