"""What stands beside the answer field: the customer's last mail, and their orders with what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund, left_of_payments, taken_units, worth_of_all
from mailagent.store.console import timeline
from mailagent.store.refunds import external_refunds, goodwill, orders, refunds, reviews
from mailagent.web.console import timeline_view
from mailagent.web.console.labels import STATES, money

ORDERS_SHOWN = 5  # the customer's page has all


def read(
    connection: sa.Connection, conversation: Conversation, codes: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the last mail of the customer, and their newest orders. `codes`: discount codes to hide."""
    conversation_id, email = conversation.conversation_id, conversation.customer_email
    if codes is None:
        codes = goodwill.list_codes_for(connection, conversation_id, email)
    latest = timeline.find_latest_mail(connection, conversation_id)
    found, total = orders.list_of_customer(connection, email, ORDERS_SHOWN)
    known = refunds.list_of_orders(connection, [order.order_id for order in found])
    return {
        "latest": timeline_view.of_entries([latest], {}, codes)[0] if latest else None,
        "orders": [_order(connection, order, known) for order in found],
        "more_orders": total - len(found),
    }


def _order(connection: sa.Connection, order: Order, known: Sequence[Refund]) -> dict[str, Any]:
    own = [refund for refund in known if refund.order_id == order.order_id]
    elsewhere = external_refunds.given_back_minor(connection, order.order_id)
    worth = worth_of_all(order, own, with_shipping=services.current().policy.refund_shipping)
    left, taken = min(worth, left_of_payments(order, own, elsewhere)), taken_units(own)
    return {
        "order": order,
        "state": STATES.get(order.status, order.status.value),
        "lines": [(line, line.quantity - taken.get(line.line_no, 0)) for line in order.lines],
        "paid": money(order.paid.minor, order.currency),
        "left": money(left.minor, order.currency) if left.minor else None,
        "refunds": [_refund(refund, order) for refund in own],
    }


def _refund(refund: Refund, order: Order) -> dict[str, Any]:
    return {
        "refund_id": refund.refund_id,
        "status": refund.status.value,
        "state": STATES[refund.status],
        "amount": money(refund.amount.minor, refund.amount.currency),
        "items": reviews.items_of(refund, order),
    }
