"""What the page shows beside the answer field: the customer's last mail, and their orders with what is left of
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import NOTE_LENGTH_MAX, Conversation
from mailagent.domain.operations.access import Permission, permissions_of
from mailagent.domain.refunds.offer import Offer, OfferStatus
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import (
    Refund,
    WantedItem,
    left_of_payments,
    price_lines,
    worth_of_all,
)
from mailagent.store.console import conversation_lists, timeline
from mailagent.store.mail import conversations, saved_replies
from mailagent.store.refunds import external_refunds, goodwill, offers, orders, refunds, reviews
from mailagent.web.console import timeline_view
from mailagent.web.console.labels import LINE_STATES, STATES, money

ORDERS_SHOWN = 5  # the customer's page has all

# How long a conversation can be snoozed.
SNOOZES: Mapping[str, tuple[str, timedelta]] = {
    "4h": ("4 hours", timedelta(hours=4)),
    "1d": ("1 day", timedelta(days=1)),
    "3d": ("3 days", timedelta(days=3)),
    "7d": ("1 week", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
}


def read(
    connection: sa.Connection, conversation: Conversation, codes: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the values for the page: the customer's last mail, their newest orders, how much mail waits, and
    the choices of the buttons. `codes`: discount codes to hide; None: look them up."""
    conversation_id, email = conversation.conversation_id, conversation.customer_email
    if codes is None:
        codes = goodwill.list_codes_for(connection, conversation_id, email)
    latest = timeline.find_latest_mail(connection, conversation_id)
    found, total = orders.list_of_customer(connection, email, ORDERS_SHOWN)
    known = refunds.list_of_orders(connection, [order.order_id for order in found])
    tags = conversations.list_tags(connection, [conversation_id])
    owed = conversation_lists.list_owed(connection, [conversation_id])
    return {
        "owed": LINE_STATES[owed[conversation_id]] if owed else None,
        "saved_replies": saved_replies.list_all(connection),
        "tags": tags.get(conversation_id, []),
        "assignees": list_assignees(),
        "snoozes": SNOOZES,
        "note_length_max": NOTE_LENGTH_MAX,
        "waiting": timeline.count_waiting(connection, conversation_id),
        "is_snoozed": conversation.is_snoozed(services.current().now()),
        "latest": timeline_view.of_entries([latest], {}, codes)[0] if latest else None,
        "orders": [_order(connection, order, known) for order in found],
        "more_orders": total - len(found),
    }


def list_assignees() -> list[str]:
    """Return the people who may answer customers."""
    shop = services.current().shop
    return [each for each in shop.people if Permission.ANSWER in permissions_of(each, shop)]


def _order(connection: sa.Connection, order: Order, known: Sequence[Refund]) -> dict[str, Any]:
    own = [refund for refund in known if refund.order_id == order.order_id]
    elsewhere = external_refunds.given_back_minor(connection, order.order_id)
    worth = worth_of_all(order, own, with_shipping=services.current().policy.refund_shipping)
    left = min(worth, left_of_payments(order, own, elsewhere))
    item_ids = dict.fromkeys(line.item_id for line in order.lines)
    units = Counter[int]()
    for line in price_lines(order, [WantedItem(item_id) for item_id in item_ids], own):
        units[line.line_no] += line.quantity
    return {
        "order": order,
        "state": STATES.get(order.status, order.status.value),
        "lines": [(line, units[line.line_no]) for line in order.lines],
        "paid": money(order.paid.minor, order.currency),
        "left": money(left.minor, order.currency) if left.minor else None,
        "refunds": [_refund(refund, order) for refund in own],
        "offers": [_offer(each) for each in offers.list_of_order(connection, order.order_id)],
    }


def _offer(offer: Offer) -> dict[str, Any]:
    expired = offer.status is OfferStatus.OPEN and not offer.is_open(services.current().now())
    return {
        "percent": offer.percent,
        "amount": money(offer.amount.minor, offer.amount.currency),
        "state": "expired" if expired else offer.status.value,
        "expires_at": offer.expires_at,
        "refund_id": offer.refund_id,
    }


def _refund(refund: Refund, order: Order) -> dict[str, Any]:
    return {
        "refund_id": refund.refund_id,
        "status": refund.status.value,
        "state": STATES[refund.status],
        "amount": money(refund.amount.minor, refund.amount.currency),
        "items": reviews.items_of(refund, order),
    }
