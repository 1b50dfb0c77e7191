"""The JSON record of an order as pydantic models: what each key may hold. Amounts become minor units.

Only `record` imports this: pydantic takes a tenth of a second to load."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, PlainValidator, ValidationError, ValidationInfo

from mailagent.adapters.validation import Record, describe_problems, show
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.money import parse_currency, parse_money
from mailagent.domain.refunds.order import OrderProblem, OrderStatus, parse_instant
from mailagent.domain.text import is_one_line

# Of one record; the rest is found once these are put right.
MOST_PROBLEMS = 5


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


def _instant(value: object) -> datetime:
    return parse_instant(value)


def _amount(value: object, info: ValidationInfo) -> int:
    currency = info.context
    # Without a currency that problem alone is told: it says how many decimals there may be.
    return parse_money(value, currency).minor if currency else 0


Text = Annotated[str, PlainValidator(_text)]
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
    discount: Amount | None = None
    category: Text | None = None
    final_sale: bool | None = None


class Payment(Record):
    payment_id: Text
    method: Text
    amount: Amount
    refunded: Amount | None = None
    charged_back_at: Instant | None = None


class OrderRecord(Record):
    order_id: Text
    customer: Customer
    currency: Annotated[str, PlainValidator(parse_currency)]
    placed_at: Instant
    delivered_at: Instant | None = None
    # Not strict: JSON has no enums, a status is a string there.
    status: Annotated[OrderStatus, Field(strict=False)]
    items: list[Item]
    payments: list[Payment]
    discount: Amount | None = None
    shipping: Amount | None = None
    tax: Amount | None = None
    # Added by `flask orders show`, and taken so that what it prints can be imported.
    paid: Amount | None = None
    refunded_or_under_way: Amount | None = None


def read_record(record: object) -> OrderRecord:
    """Return a decoded JSON record with every key checked. Raises OrderProblem naming keys."""
    try:
        currency = parse_currency(record.get("currency")) if isinstance(record, dict) else None
    except ValueError:
        currency = None  # the model names it, with all else that is wrong
    try:
        return OrderRecord.model_validate(record, context=currency)
    except ValidationError as error:
        problems = describe_problems(error, OrderRecord, "the order")
        raise OrderProblem("; ".join(problems[:MOST_PROBLEMS])) from None
