"""Tables of orders, as the shop hands them over."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.refunds.order import OrderStatus
from mailagent.store.database import UtcDateTime
from mailagent.store.schema.columns import metadata, one_of

orders = sa.Table(
    "orders",
    metadata,
    sa.Column("order_id", sa.Text, primary_key=True),
    sa.Column("customer_email", sa.Text, nullable=False),
    sa.Column("customer_name", sa.Text, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("placed_at", UtcDateTime, nullable=False),
    sa.Column("delivered_at", UtcDateTime),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("paid_minor", sa.BigInteger, nullable=False),
    # Taken off the lines together, on top of them, and for carriage.
    sa.Column("discount_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("tax_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("shipping_minor", sa.BigInteger, nullable=False, server_default="0"),
    # Kept by triggers on refunds and their payments: what was refunded or is under way.
    sa.Column("held_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    one_of("status", OrderStatus),
    sa.CheckConstraint("paid_minor >= 0", name="paid"),
    sa.CheckConstraint("discount_minor >= 0", name="discount"),
    sa.CheckConstraint("tax_minor >= 0", name="tax"),
    sa.CheckConstraint("shipping_minor >= 0", name="shipping"),
    sa.CheckConstraint("held_minor >= 0 AND held_minor <= paid_minor", name="never_above_paid"),
    sa.Index("ix_orders_customer_email_placed_at", "customer_email", "placed_at"),
)

order_lines = sa.Table(
    "order_lines",
    metadata,
    sa.Column("order_id", sa.Text, sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("line_no", sa.Integer, primary_key=True),
    sa.Column("item_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("quantity", sa.Integer, nullable=False),
    sa.Column("unit_price_minor", sa.BigInteger, nullable=False),
    # Off the whole line, all its units together.
    sa.Column("discount_minor", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("category", sa.Text),
    sa.Column("final_sale", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.CheckConstraint("quantity >= 1", name="quantity"),
    sa.CheckConstraint("unit_price_minor >= 0", name="unit_price"),
    sa.CheckConstraint("discount_minor >= 0", name="discount"),
)

order_payments = sa.Table(
    "order_payments",
    metadata,
    sa.Column("order_id", sa.Text, sa.ForeignKey("orders.order_id"), primary_key=True),
    sa.Column("payment_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    # The bank took it back for the customer: nothing is refunded on it beside that.
    sa.Column("charged_back_at", UtcDateTime),
    sa.CheckConstraint("amount_minor >= 0", name="amount"),
    sa.Index("ix_order_payments_payment_id", "payment_id"),
)
