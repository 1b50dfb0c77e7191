"""The record of an order: a JSON object, in the same form in the orders file, the API and `flask orders show`.

Writing gives back what reading takes. Amounts become minor units. Import this where an order is read: it loads
pydantic, which takes a tenth of a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, ValidationError, ValidationInfo

from mailagent.adapters.validation import Record, describe_problems, show
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.money import Money, parse_currency, parse_money
from mailagent.domain.orders.shipment import Shipment, ShipmentStatus, is_tracking_link
from mailagent.domain.refunds import order as domain
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus, parse_instant
from mailagent.domain.text import is_one_line

# How many problems of one record we report at once.
MOST_PROBLEMS = 5
# The most that an order may cost in all, in minor units, so that sums fit the integers of databases.
MOST_MINOR = 10**18
MOST_SHIPMENTS = 100


# --- what each key may hold ------------------------------------------------------------------------


def _line(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{show(value)} is not a text")
    if len(value) > 500 or not is_one_line(value):
        raise ValueError("is over 500 characters or has control characters")
    return value.strip()


def _text(value: object) -> str:
    text = _line(value)
    if not text:
        raise ValueError(f"{value!r} is not a text; it is empty")
    return text


def _address(value: object) -> str:
    address = normalise_address(_text(value))
    if address is None:
        raise ValueError(f"{value!r} is not a mail address")
    return address


def _amount(value: object, info: ValidationInfo) -> int:
    currency = info.context
    # Without a valid currency, report only that: we cannot know the number of decimals.
    return parse_money(value, currency).minor if currency else 0


def _instant(value: object) -> datetime:
    return parse_instant(value)  # its other arguments are not pydantic's


def _amount_or_none(value: object, info: ValidationInfo) -> int:
    return 0 if value is None else _amount(value, info)


def _link(value: object) -> str:
    link = _text(value)
    if not is_tracking_link(link):
        raise ValueError(f"{show(link)} is not a link that begins with https://")
    return link


Maybe = BeforeValidator(lambda value: [] if value is None else value)  # null for none
Text = Annotated[str, PlainValidator(_text)]
Link = Annotated[str, PlainValidator(_link)]
MaybeAmount = Annotated[int, PlainValidator(_amount_or_none)]
Amount = Annotated[int, PlainValidator(_amount)]
Instant = Annotated[datetime, PlainValidator(_instant)]


class Customer(Record):
    email: Annotated[str, PlainValidator(_address)]
    name: Annotated[str, PlainValidator(_line)] | None = None


class Item(Record):
    item_id: Text
    name: Text
    quantity: Annotated[int, Field(ge=1, le=1_000_000)]
    unit_price: Amount
    discount: MaybeAmount = 0
    category: Text | None = None
    final_sale: bool | None = None


class Payment(Record):
    payment_id: Text
    method: Text
    amount: Amount
    refunded: MaybeAmount = 0
    charged_back_at: Instant | None = None


class ShippedItem(Record):
    item_id: Text
    quantity: Annotated[int, Field(ge=1, le=1_000_000)]


ShippedItems = Annotated[list[ShippedItem], Maybe]


class ShipmentRecord(Record):
    shipment_id: Text
    status: Annotated[ShipmentStatus, Field(strict=False)]
    carrier: Text | None = None
    tracking_number: Text | None = None
    tracking_url: Link | None = None
    shipped_at: Instant | None = None
    expected_at: Instant | None = None
    delivered_at: Instant | None = None
    last_event_at: Instant | None = None
    items: ShippedItems = Field(default_factory=list)


Shipments = Annotated[list[ShipmentRecord], Maybe, Field(max_length=MOST_SHIPMENTS)]


class OrderRecord(Record):
    order_id: Text
    customer: Customer
    currency: Annotated[str, PlainValidator(parse_currency)]
    placed_at: Instant
    delivered_at: Instant | None = None
    # Not strict, because JSON has no enums: a status is a string there.
    status: Annotated[OrderStatus, Field(strict=False)]
    items: list[Item]
    payments: list[Payment]
    shipments: Shipments = Field(default_factory=list)
    discount: MaybeAmount = 0
    shipping: MaybeAmount = 0
    tax: MaybeAmount = 0
    # `flask orders show` adds it. We accept and ignore it, so that its output can be imported.
    paid: Amount | None = None
    refunded_or_under_way: Amount | None = None


# --- reading --------------------------------------------------------------------------------------


def parse_order(record: object) -> Order:
    """Return the order in a decoded JSON record of the orders file.

    Raises OrderProblem, which names the keys that are missing, unknown or wrong.
    """
    try:
        currency = parse_currency(record.get("currency")) if isinstance(record, dict) else None
    except ValueError:
        currency = None  # the model reports it, with all other problems
    try:
        found = OrderRecord.model_validate(record, context=currency)
    except ValidationError as error:
        problems = describe_problems(error, OrderRecord, "the order")
        raise OrderProblem("; ".join(problems[:MOST_PROBLEMS])) from None
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
    yield from _contradicting_shipments(record)
    yield from _contradicting_amounts(record)


def _contradicting_shipments(record: OrderRecord) -> Iterator[str]:
    shipments, ordered = record.shipments, Counter[str]()
    for item in record.items:
        ordered[item.item_id] += item.quantity
    if len({each.shipment_id for each in shipments}) != len(shipments):
        yield "shipments: a shipment_id stands twice"
    for number, each in enumerate(shipments, start=1):
        place = f"shipments[{number}]"
        yield from (
            f"{place}.{problem}" for problem in _contradicting_times(each, record.placed_at)
        )
        packed = Counter[str]()
        for part in each.items:
            packed[part.item_id] += part.quantity
        for item_id, quantity in packed.items():
            if quantity > ordered[item_id]:
                has = f"{ordered[item_id]} of item {item_id!r}"
                yield f"{place}.items: {quantity} in the parcel, but the order has {has}"


def _contradicting_times(shipment: ShipmentRecord, placed_at: datetime) -> Iterator[str]:
    is_delivered = shipment.status is ShipmentStatus.DELIVERED
    if is_delivered and shipment.delivered_at is None:
        yield "delivered_at: missing, although status is delivered"
    if (
        shipment.delivered_at
        and not is_delivered
        and shipment.status is not ShipmentStatus.RETURNED
    ):
        yield f"delivered_at: given, although status is {shipment.status.value}"
    if shipment.shipped_at and shipment.shipped_at < placed_at:
        yield "shipped_at: lies before placed_at"
    if shipment.delivered_at and shipment.delivered_at < (shipment.shipped_at or placed_at):
        yield "delivered_at: lies before shipped_at or placed_at"


def _contradicting_amounts(record: OrderRecord) -> Iterator[str]:
    def told(minor: int) -> str:
        return str(Money(minor, record.currency))

    goods = 0
    for number, item in enumerate(record.items, start=1):
        price, discount = item.quantity * item.unit_price, item.discount
        goods += price - discount
        if discount > price:
            yield f"items[{number}].discount: is above the {told(price)} that it is taken off"
    for number, payment in enumerate(record.payments, start=1):
        if payment.refunded > payment.amount:
            yield f"payments[{number}].refunded: is above the {told(payment.amount)} that was paid"
    if record.discount > goods:
        yield f"discount: is above the {told(goods)} that it is taken off"
    paid = sum(payment.amount for payment in record.payments)
    for where, minor in (
        ("items", sum(item.quantity * item.unit_price for item in record.items)),
        ("payments", paid),
        ("shipping and tax", record.shipping + record.tax),
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
            domain.OrderLine(
                line_no=number,
                item_id=item.item_id,
                name=item.name,
                quantity=item.quantity,
                unit_price=Money(item.unit_price, currency),
                discount_minor=item.discount,
                category=item.category,
                final_sale=bool(item.final_sale),
            )
            for number, item in enumerate(record.items, start=1)
        ),
        payments=tuple(
            domain.Payment(
                payment_id=payment.payment_id,
                method=payment.method,
                amount=Money(payment.amount, currency),
                charged_back_at=payment.charged_back_at,
                refunded_minor=payment.refunded,
            )
            for payment in record.payments
        ),
        discount_minor=record.discount,
        shipping_minor=record.shipping,
        tax_minor=record.tax,
        shipments=tuple(map(_shipment, record.shipments)),
    )


def _shipment(record: ShipmentRecord) -> Shipment:
    items = tuple((each.item_id, each.quantity) for each in record.items)
    return Shipment(**dict(record) | {"items": items})


# --- writing --------------------------------------------------------------------------------------


def render_order(order: Order) -> dict[str, Any]:
    """Return the record of an order, without keys for what the order does not have."""
    amounts = {
        "discount": order.discount_minor,
        "shipping": order.shipping_minor,
        "tax": order.tax_minor,
    }
    return {
        "order_id": order.order_id,
        "customer": {"email": order.customer_email, "name": order.customer_name},
        "currency": order.currency,
        "placed_at": _rendered(order.placed_at),
        "delivered_at": _rendered(order.delivered_at) if order.delivered_at else None,
        "status": order.status.value,
        "items": [_rendered_line(line) for line in order.lines],
        "payments": [_rendered_payment(payment) for payment in order.payments],
        **{key: Money(minor, order.currency).decimal() for key, minor in amounts.items() if minor},
        **(
            {"shipments": list(map(_rendered_shipment, order.shipments))} if order.shipments else {}
        ),
    }


def _rendered_line(line: domain.OrderLine) -> dict[str, Any]:
    discount = Money(line.discount_minor, line.unit_price.currency)
    return {
        "item_id": line.item_id,
        "name": line.name,
        "quantity": line.quantity,
        "unit_price": line.unit_price.decimal(),
        **({"discount": discount.decimal()} if discount.minor else {}),
        **({"category": line.category} if line.category is not None else {}),
        **({"final_sale": True} if line.final_sale else {}),
    }


def _rendered_payment(payment: domain.Payment) -> dict[str, Any]:
    refunded = Money(payment.refunded_minor, payment.amount.currency)
    since = payment.charged_back_at
    return {
        "payment_id": payment.payment_id,
        "method": payment.method,
        "amount": payment.amount.decimal(),
        **({"refunded": refunded.decimal()} if refunded.minor else {}),
        **({"charged_back_at": _rendered(since)} if since else {}),
    }


def _rendered_shipment(shipment: Shipment) -> dict[str, Any]:
    told = {name: getattr(shipment, name) for name in ShipmentRecord.model_fields}
    items = [{"item_id": item_id, "quantity": quantity} for item_id, quantity in shipment.items]
    return {
        name: _rendered(value) if isinstance(value, datetime) else value
        for name, value in (told | {"status": shipment.status.value, "items": items}).items()
        if value
    }


def _rendered(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
