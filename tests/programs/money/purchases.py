"""Orders such as shops have them: several lines of one item, discounts, carriage, taxes, payments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import Shipment, ShipmentStatus
from mailagent.domain.refunds.order import OrderLine, OrderStatus, Payment

ITEMS = ("A", "B", "C")
PLACED = datetime(2026, 11, 10, 12, 0, tzinfo=UTC)
STATUSES = [OrderStatus.DELIVERED] * 4 + [OrderStatus.SHIPPED, OrderStatus.PENDING]


@st.composite
def purchases(draw: st.DrawFn) -> dict[str, Any]:
    """Return what an order is made of, but for its number and its customer."""
    currency = draw(st.sampled_from(["USD", "USD", "USD", "JPY", "BHD"]))
    lines = tuple(
        draw(_lines(number, currency)) for number in range(1, draw(st.integers(1, 3)) + 1)
    )
    goods = sum(line.net_minor for line in lines)
    discount = draw(st.sampled_from([0, 0, 0, goods // 10, goods // 10, goods]))
    shipping, tax = draw(st.sampled_from([0, 0, 4_95])), draw(st.sampled_from([0, 0, goods // 7]))
    total = goods - discount + shipping + tax
    status = draw(st.sampled_from(STATUSES))
    sent = status is OrderStatus.SHIPPED
    return {
        "customer_name": "",
        "currency": currency,
        "placed_at": PLACED,
        "delivered_at": PLACED + timedelta(days=2),
        "status": status,
        "shipments": (parcel(PLACED + timedelta(days=2)),) if sent else (),
        "lines": lines,
        "payments": draw(_payments(total, currency)),
        "discount_minor": discount,
        "shipping_minor": shipping,
        "tax_minor": tax,
    }


def one_thing(price: Money) -> dict[str, Any]:
    """Return what makes a purchase one of a single thing at this price, all of it paid."""
    return {
        "currency": price.currency,
        "lines": (OrderLine(1, ITEMS[0], "Thing", 1, price),),
        "payments": (Payment("p0", "card", price),),
        **dict.fromkeys(("discount_minor", "shipping_minor", "tax_minor"), 0),
    }


def parcel(moved_at: datetime) -> Shipment:
    """Return the parcel with all of an order, which last moved then."""
    return Shipment("S1", ShipmentStatus.IN_TRANSIT, last_event_at=moved_at)


@st.composite
def _lines(draw: st.DrawFn, number: int, currency: str) -> OrderLine:
    quantity, price = (
        draw(st.integers(1, 4)),
        draw(st.sampled_from([90_00, 210_00, 333_33, 33_33, 0])),
    )
    return OrderLine(
        line_no=number,
        item_id=draw(st.sampled_from(ITEMS)),
        name="Thing",
        quantity=quantity,
        unit_price=Money(price, currency),
        discount_minor=draw(st.sampled_from([0, 0, quantity * price // 3])),
        final_sale=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def _payments(draw: st.DrawFn, total: int, currency: str) -> tuple[Payment, ...]:
    """Return one to three payments that come to the total, or to less of it: part was never paid."""
    paid = draw(st.sampled_from([total, total, total, total // 2]))
    parts = []
    for number, share in enumerate(draw(st.sampled_from([[1], [1, 2], [3, 1, 1]]))):
        part = min(paid, total * share // 3)
        parts.append(part)
        paid -= part
        assert number < 3
    parts[-1] += paid
    return tuple(
        Payment(f"p{number}", "gift_card" if number else "card", Money(part, currency))
        for number, part in enumerate(parts)
    )
