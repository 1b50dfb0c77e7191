"""Tables of the shop's orders, and of look-ups at an order source."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.orders.shipment import ShipmentStatus
from mailagent.domain.refunds.order import OrderStatus
from mailagent.store.database import UtcDateTime
from mailagent.store.schema.columns import Json, check, one_of, table

# Orders, imported from the shop or looked up at its order source.
orders = table(
    "orders",
    sa.Column("order_id", sa.Text, primary_key=True),
    sa.Column("customer_email", sa.Text, nullable=False),
    sa.Column("customer_name", sa.Text, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("placed_at", UtcDateTime, nullable=False),
    sa.Column("delivered_at", UtcDateTime),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("paid_minor", sa.BigInteger, nullable=False),
    # A discount on all lines together; and what was paid for shipping, and as tax on top.
    sa.Column("discount_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("tax_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("shipping_minor", sa.BigInteger, nullable=False, server_default="0"),
    # What refunds have paid or may still pay. Triggers on refunds and refund payments keep it.
    sa.Column("held_minor", sa.BigInteger, nullable=False, server_default="0"),
    # With 0 parcels, as most orders have, we need not read their table.
    sa.Column("shipment_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    # When the shop last sent us its record, changed or not.
    sa.Column("seen_at", UtcDateTime),
    # The outcome of the last look-up at the order source, if we could not use it; and since when.
    sa.Column("look_up_problem", sa.Text),
    sa.Column("look_up_problem_at", UtcDateTime),
    one_of("status", OrderStatus),
    check("paid", "paid_minor >= 0"),
    check("discount", "discount_minor >= 0"),
    check("tax", "tax_minor >= 0"),
    check("shipping", "shipping_minor >= 0"),
    check("never_above_paid", "held_minor >= 0 AND held_minor <= paid_minor"),
    sa.Index("ix_orders_customer_email_placed_at", "customer_email", "placed_at"),
)

order_lines = table(
    "order_lines",
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("line_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("quantity", sa.Integer, nullable=False),
    sa.Column("unit_price_minor", sa.BigInteger, nullable=False),
    # A discount on all units of the line together.
    sa.Column("discount_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("category", sa.Text),
    sa.Column("final_sale", sa.Boolean, nullable=False, server_default=sa.false()),
    check("quantity", "quantity >= 1"),
    check("unit_price", "unit_price_minor >= 0"),
    check("discount", "discount_minor >= 0"),
)

order_payments = table(
    "order_payments",
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("payment_id", sa.Text, primary_key=True, index=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    # When the customer's bank took it back. We refund nothing of it after that.
    sa.Column("charged_back_at", UtcDateTime),
    check("amount", "amount_minor >= 0"),
)

order_shipments = table(
    "order_shipments",
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("shipment_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("carrier", sa.Text),
    sa.Column("tracking_number", sa.Text),
    sa.Column("tracking_url", sa.Text),
    sa.Column("shipped_at", UtcDateTime),
    sa.Column("expected_at", UtcDateTime),
    sa.Column("delivered_at", UtcDateTime),
    sa.Column("last_event_at", UtcDateTime),
    # Pairs of an item id and a quantity; empty if the shop does not say.
    sa.Column("items", Json, nullable=False),
    one_of("status", ShipmentStatus),
)

# Versions of an order's record at its source: one each time that something had changed.
order_versions = table(
    "order_versions",
    sa.Column("order_id", sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("fetched_at", UtcDateTime, nullable=False, index=True),
    sa.Column("record", Json, nullable=False),
)

# When an order source last answered for the customer of a conversation. `order_id` is empty if it listed all of
# their orders, or the newest; else it said that they have no order with this id.
order_lookups = table(
    "order_lookups",
    sa.Column("conversation_id", sa.ForeignKey("conversations.conversation_id"), primary_key=True),
    sa.Column("order_id", sa.Text, primary_key=True),
    sa.Column("looked_up_at", UtcDateTime, nullable=False),
    sa.Column("complete", sa.Boolean, nullable=False),
)
