"""How an order is written down: one JSON object, the same in the orders file, the API and what is shown.

Writing gives back what reading takes. What each key may hold is in `record_model`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderLine, OrderProblem, OrderStatus, Payment

if TYPE_CHECKING:
    from mailagent.adapters.order_files.record_model import OrderRecord

# What an order may come to in all, in minor units: well within the whole numbers that databases keep.
MOST_MINOR = 10**18


def parse_order(record: object) -> Order:
    """Return the order in a decoded JSON record of the orders file.

    Raises OrderProblem naming the keys that are missing, unknown or wrong.
    """
    # Only here: it loads pydantic, which commands that read no order do without.
    from mailagent.adapters.order_files.record_model import read_record

    found = read_record(record)
    for contradiction in _contradictions(found):
        raise OrderProblem(contradiction)
    return _order(found)


def _contradictions(record: OrderRecord) -> Iterator[str]:
    if not record.items:
        yield "items: an order needs at least one"
    if record.delivered_at and record.delivered_at < record.placed_at:
        yield "delivered_at: lies before placed_at"
    if record.status is OrderStatus.DELIVERED and record.delivered_at is None:
        yield "delivered_at: missing, although status is delivered"
    payment_ids = {payment.payment_id for payment in record.payments}
    if len(payment_ids) != len(record.payments):
        yield "payments: a payment_id stands twice"
    yield from _contradicting_amounts(record)


def _contradicting_amounts(record: OrderRecord) -> Iterator[str]:
    def told(minor: int) -> str:
        return str(Money(minor, record.currency))

    goods = 0
    for number, item in enumerate(record.items, start=1):
        price, discount = item.quantity * item.unit_price, item.discount or 0
        goods += price - discount
        if discount > price:
            yield f"items[{number}].discount: is above the {told(price)} that it is taken off"
    for number, payment in enumerate(record.payments, start=1):
        if (payment.refunded or 0) > payment.amount:
            yield f"payments[{number}].refunded: is above the {told(payment.amount)} that was paid"
    if (record.discount or 0) > goods:
        yield f"discount: is above the {told(goods)} that it is taken off"
    paid = sum(payment.amount for payment in record.payments)
    for where, minor in (
        ("items", sum(item.quantity * item.unit_price for item in record.items)),
        ("payments", paid),
        ("shipping and tax", (record.shipping or 0) + (record.tax or 0)),
    ):
        if minor > MOST_MINOR:
            yield f"{where}: come to more than {told(MOST_MINOR)} in all"
    if record.paid is not None and record.paid != paid:
        yield f"paid: {told(record.paid)} is not the {told(paid)} that the payments come to"


def _order(record: OrderRecord) -> Order:
    currency = record.currency
    return Order(
        order_id=record.order_id,
        customer_email=record.customer.email,
        customer_name=record.customer.name or "",
        currency=currency,
        placed_at=record.placed_at,
        delivered_at=record.delivered_at,
        status=record.status,
        lines=tuple(
            OrderLine(
                line_no=number,
                item_id=item.item_id,
                name=item.name,
                quantity=item.quantity,
                unit_price=Money(item.unit_price, currency),
                discount_minor=item.discount or 0,
                category=item.category,
                final_sale=bool(item.final_sale),
            )
            for number, item in enumerate(record.items, start=1)
        ),
        payments=tuple(
            Payment(
                payment_id=payment.payment_id,
                method=payment.method,
                amount=Money(payment.amount, currency),
                charged_back_at=payment.charged_back_at,
                refunded_minor=payment.refunded or 0,
            )
            for payment in record.payments
        ),
        discount_minor=record.discount or 0,
        shipping_minor=record.shipping or 0,
        tax_minor=record.tax or 0,
    )


def render_order(order: Order) -> dict[str, Any]:
    """Return the record of an order; what it does not have is left out, as a person would."""
    return {
        "order_id": order.order_id,
        "customer": {"email": order.customer_email, "name": order.customer_name},
        "currency": order.currency,
        "placed_at": _rendered(order.placed_at),
        "delivered_at": _rendered(order.delivered_at) if order.delivered_at else None,
        "status": order.status.value,
        "items": [_rendered_line(line) for line in order.lines],
        "payments": [_rendered_payment(payment) for payment in order.payments],
        **_amount("discount", order.discount_minor, order.currency),
        **_amount("shipping", order.shipping_minor, order.currency),
        **_amount("tax", order.tax_minor, order.currency),
    }


def _rendered_line(line: OrderLine) -> dict[str, Any]:
    return {
        "item_id": line.item_id,
        "name": line.name,
        "quantity": line.quantity,
        "unit_price": line.unit_price.decimal(),
        **_amount("discount", line.discount_minor, line.unit_price.currency),
        **({"category": line.category} if line.category is not None else {}),
        **({"final_sale": True} if line.final_sale else {}),
    }


def _rendered_payment(payment: Payment) -> dict[str, Any]:
    since = payment.charged_back_at
    return {
        "payment_id": payment.payment_id,
        "method": payment.method,
        "amount": payment.amount.decimal(),
        **_amount("refunded", payment.refunded_minor, payment.amount.currency),
        **({"charged_back_at": _rendered(since)} if since else {}),
    }


def _amount(key: str, minor: int, currency: str) -> dict[str, str]:
    return {key: Money(minor, currency).decimal()} if minor else {}


def _rendered(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
