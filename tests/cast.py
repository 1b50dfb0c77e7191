"""One cast everywhere: the shop, its people, its customers and what they bought."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

from PIL import Image

from mailagent.adapters.order_files.record import parse_order
from mailagent.domain.refunds.order import Order

# The day of the letters, and of whatever gets `now` as an argument.
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
# A day of the real clock, by which a running shop goes: return windows must be open.
YESTERDAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(1)

SUPPORT = "support@shop.example"
MONA = "mona@shop.example"
MAX = "max@shop.example"
TESS = "tess@shop.example"
OLGA = "olga@shop.example"
ADA = "ada@example.com"
GRACE = "grace@example.org"
JUERGEN = "juergen@example.net"
MALLORY = "mallory@evil.example"

# What a customer writes about the kettle of `order` and the desk of `big_order`.
KETTLE_WISH = "My kettle from order W1001 arrived broken. I want my money back."
DESK_WISH = "The standing desk of order W2001 is damaged, please refund it."


def a_photo(width: int = 640, height: int = 480) -> bytes:
    """Return a photo as a phone would send it, with a comment in it."""
    written = io.BytesIO()
    noise = Image.effect_noise((width, height), 90).convert("RGB")
    noise.save(written, "JPEG", comment=b"taken at home")
    return written.getvalue()


def order_record(order_id: str = "W1001", **changes: Any) -> dict[str, Any]:
    """Return an order as the orders file has it: a kettle that Ada got ten days ago."""
    placed = YESTERDAY - timedelta(days=12)
    record: dict[str, Any] = {
        "order_id": order_id,
        "customer": {"email": ADA, "name": "Ada Example"},
        "currency": "USD",
        "placed_at": placed.isoformat(),
        "delivered_at": (placed + timedelta(days=2)).isoformat(),
        "status": "delivered",
        "items": [{"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}],
        "payments": [{"payment_id": f"pay_{order_id}", "method": "card", "amount": "49.99"}],
    }
    return record | changes


def order(order_id: str = "W1001", **changes: Any) -> Order:
    """Return the order that `order_record` describes."""
    return parse_order(order_record(order_id, **changes))


def big_order(order_id: str = "W2001", **changes: Any) -> Order:
    """Return Ada's dear order: a desk for 1,499.00 that a manager has to decide on."""
    return order(
        order_id,
        items=[{"item_id": "D1", "name": "Standing desk", "quantity": 1, "unit_price": "1499.00"}],
        payments=[{"payment_id": f"pay_{order_id}", "method": "card", "amount": "1499.00"}],
        **changes,
    )
