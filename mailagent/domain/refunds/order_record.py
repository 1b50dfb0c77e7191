"""How an order is written down: one JSON object, the same in the orders file, the API and what is shown.

Reading checks everything and names the field; writing gives back what reading takes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mailagent.domain.money import Money, parse_currency, parse_money
from mailagent.domain.refunds.order import Order, OrderLine, OrderProblem, OrderStatus, Payment
from mailagent.domain.refunds.record_fields import (
    checked,
    parse_address,
    parse_amount,
    parse_flag,
    parse_instant,
    parse_list,
    parse_object,
    parse_optional_instant,
    parse_text,
)

# What an order may come to in all, in minor units: well within the whole numbers that databases keep.
MOST_MINOR = 10**18

_ORDER_KEYS = {
    "order_id",
    "customer",
    "currency",
    "placed_at",
    "delivered_at",
    "status",
    "items",
    "payments",
    "discount",
    "shipping",
    "tax",
    "paid",
    "refunded_or_under_way",
}
# `flask orders show` adds the last two; they are taken, so that what it prints can be imported.
_OPTIONAL_ORDER_KEYS = {
    "delivered_at",
    "discount",
    "shipping",
    "tax",
    "paid",
    "refunded_or_under_way",
}
_CUSTOMER_KEYS = {"email", "name"}
_ITEM_KEYS = {"item_id", "name", "quantity", "unit_price", "discount", "category", "final_sale"}
_OPTIONAL_ITEM_KEYS = {"discount", "category", "final_sale"}
_PAYMENT_KEYS = {"payment_id", "method", "amount", "charged_back_at", "refunded"}
_OPTIONAL_PAYMENT_KEYS = {"charged_back_at", "refunded"}


def parse_order(record: object) -> Order:
    """Return the order in a decoded JSON record of the orders file.

    Raises OrderProblem naming the first field that is missing, unknown or wrong.
    """
    fields = parse_object(record, "the order", _ORDER_KEYS, optional=_OPTIONAL_ORDER_KEYS)
    customer = parse_object(fields["customer"], "customer", _CUSTOMER_KEYS, optional={"name"})
    currency = checked("currency", lambda: parse_currency(fields["currency"]))
    lines = tuple(
        _line(item, number, currency)
        for number, item in enumerate(parse_list(fields["items"], "items"), start=1)
    )
    order = Order(
        order_id=parse_text(fields["order_id"], "order_id"),
        customer_email=parse_address(customer["email"], "customer.email"),
        customer_name=_name(customer.get("name")),
        currency=currency,
        placed_at=parse_instant(fields["placed_at"], "placed_at"),
        delivered_at=parse_optional_instant(fields.get("delivered_at"), "delivered_at"),
        status=_status(fields["status"]),
        lines=lines,
        payments=tuple(
            _payment(payment, number, currency)
            for number, payment in enumerate(parse_list(fields["payments"], "payments"), start=1)
        ),
        discount_minor=_discount(
            fields.get("discount"), "discount", currency, sum(line.net_minor for line in lines)
        ),
        shipping_minor=parse_amount(fields.get("shipping"), "shipping", currency),
        tax_minor=parse_amount(fields.get("tax"), "tax", currency),
    )
    _check_whole(order)
    _check_shown(order, fields)
    return order


def _check_whole(order: Order) -> None:
    if not order.lines:
        raise OrderProblem("items: an order needs at least one")
    if order.delivered_at and order.delivered_at < order.placed_at:
        raise OrderProblem("delivered_at: lies before placed_at")
    if order.status is OrderStatus.DELIVERED and order.delivered_at is None:
        raise OrderProblem("delivered_at: missing, although status is delivered")
    for where, minor in (
        ("items", sum(line.quantity * line.unit_price.minor for line in order.lines)),
        ("payments", order.paid.minor),
        ("shipping and tax", order.shipping_minor + order.tax_minor),
    ):
        if minor > MOST_MINOR:
            most = Money(MOST_MINOR, order.currency)
            raise OrderProblem(f"{where}: come to more than {most} in all")
    payment_ids = [payment.payment_id for payment in order.payments]
    if len(set(payment_ids)) != len(payment_ids):
        raise OrderProblem("payments: a payment_id stands twice")


def _check_shown(order: Order, fields: Mapping[str, Any]) -> None:
    paid = fields.get("paid")
    if paid is not None and parse_amount(paid, "paid", order.currency) != order.paid.minor:
        raise OrderProblem(f"paid: {paid!r} is not the {order.paid} that the payments come to")
    parse_amount(fields.get("refunded_or_under_way"), "refunded_or_under_way", order.currency)


def _line(item: object, number: int, currency: str) -> OrderLine:
    where = f"items[{number}]"
    fields = parse_object(item, where, _ITEM_KEYS, optional=_OPTIONAL_ITEM_KEYS)
    quantity = fields["quantity"]
    if type(quantity) is not int or not 1 <= quantity <= 1_000_000:
        raise OrderProblem(f"{where}.quantity: {quantity!r} is not a whole number from 1")
    price = checked(f"{where}.unit_price", lambda: parse_money(fields["unit_price"], currency))
    return OrderLine(
        line_no=number,
        item_id=parse_text(fields["item_id"], f"{where}.item_id"),
        name=parse_text(fields["name"], f"{where}.name"),
        quantity=quantity,
        unit_price=price,
        discount_minor=_discount(
            fields.get("discount"), f"{where}.discount", currency, quantity * price.minor
        ),
        category=_category(fields.get("category"), f"{where}.category"),
        final_sale=parse_flag(fields.get("final_sale"), f"{where}.final_sale"),
    )


def _discount(value: object, where: str, currency: str, most: int) -> int:
    minor = parse_amount(value, where, currency)
    if minor > most:
        raise OrderProblem(f"{where}: is above the {Money(most, currency)} that it is taken off")
    return minor


def _category(value: object, where: str) -> str | None:
    return None if value is None else parse_text(value, where)


def _payment(payment: object, number: int, currency: str) -> Payment:
    where = f"payments[{number}]"
    fields = parse_object(payment, where, _PAYMENT_KEYS, optional=_OPTIONAL_PAYMENT_KEYS)
    amount = checked(f"{where}.amount", lambda: parse_money(fields["amount"], currency))
    refunded = parse_amount(fields.get("refunded"), f"{where}.refunded", currency)
    if refunded > amount.minor:
        raise OrderProblem(f"{where}.refunded: is above the {amount} that was paid")
    return Payment(
        payment_id=parse_text(fields["payment_id"], f"{where}.payment_id"),
        method=parse_text(fields["method"], f"{where}.method"),
        amount=amount,
        refunded_minor=refunded,
        charged_back_at=parse_optional_instant(
            fields.get("charged_back_at"), f"{where}.charged_back_at"
        ),
    )


def _name(value: object) -> str:
    return "" if value is None else parse_text(value, "customer.name", empty=True)


def _status(value: object) -> OrderStatus:
    try:
        return OrderStatus(value)  # type: ignore[arg-type]  # any other type is a ValueError too
    except ValueError:
        names = ", ".join(status.value for status in OrderStatus)
        raise OrderProblem(f"status: {value!r} is none of {names}") from None


def render_order(order: Order) -> dict[str, Any]:
    """Return the record of an order; what it does not have is left out, as a person would."""
    record: dict[str, Any] = {
        "order_id": order.order_id,
        "customer": {"email": order.customer_email, "name": order.customer_name},
        "currency": order.currency,
        "placed_at": _rendered(order.placed_at),
        "delivered_at": _rendered(order.delivered_at) if order.delivered_at else None,
        "status": order.status.value,
        "items": [_rendered_line(line) for line in order.lines],
        "payments": [_rendered_payment(payment) for payment in order.payments],
    }
    amounts = {
        "discount": order.discount_minor,
        "shipping": order.shipping_minor,
        "tax": order.tax_minor,
    }
    return record | {
        key: Money(minor, order.currency).decimal() for key, minor in amounts.items() if minor
    }


def _rendered_line(line: OrderLine) -> dict[str, Any]:
    record: dict[str, Any] = {
        "item_id": line.item_id,
        "name": line.name,
        "quantity": line.quantity,
        "unit_price": line.unit_price.decimal(),
    }
    if line.discount_minor:
        record["discount"] = Money(line.discount_minor, line.unit_price.currency).decimal()
    if line.category is not None:
        record["category"] = line.category
    if line.final_sale:
        record["final_sale"] = True
    return record


def _rendered_payment(payment: Payment) -> dict[str, Any]:
    record = {
        "payment_id": payment.payment_id,
        "method": payment.method,
        "amount": payment.amount.decimal(),
    }
    if payment.refunded_minor:
        record["refunded"] = Money(payment.refunded_minor, payment.amount.currency).decimal()
    if payment.charged_back_at:
        record["charged_back_at"] = _rendered(payment.charged_back_at)
    return record


def _rendered(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
