"""Orders as the shop hands them over: who bought what, and how it was paid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from mailagent.domain.money import Money, parse_currency, parse_money
from mailagent.domain.sender import normalise_address
from mailagent.domain.typed_text import is_one_line

T = TypeVar("T")

# Outside these years a date is a slip, and adding a return window to it may have no result.
FIRST_YEAR, LAST_YEAR = 1970, 2999
# What an order may come to in all, in minor units: well within the whole numbers that databases keep.
MOST_MINOR = 10**18


class OrderStatus(StrEnum):
    PENDING = "pending"
    SHIPPED = "shipped"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One line of an order. The same item may stand on two lines; `line_no` (from 1) tells them apart.

    `discount_minor` is off the whole line, all its units together. `category` is the shop's own word,
    which its refund policy may name. What is on final sale was sold as not to be returned.
    """

    line_no: int
    item_id: str
    name: str
    quantity: int
    unit_price: Money
    discount_minor: int = 0
    category: str | None = None
    final_sale: bool = False

    @property
    def net_minor(self) -> int:
        """What all units of the line cost together, in minor units, less the line's own discount."""
        return self.quantity * self.unit_price.minor - self.discount_minor


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment for an order. `charged_back_at`: since when the bank takes it back for the customer."""

    payment_id: str
    method: str
    amount: Money
    charged_back_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """An order. Of its amounts in minor units, `discount_minor` is off all lines together, beside what
    each line says itself; `shipping_minor` was paid for carriage; `tax_minor` came on top of both, and
    is 0 where prices include it."""

    order_id: str
    customer_email: str
    customer_name: str
    currency: str
    placed_at: datetime
    delivered_at: datetime | None
    status: OrderStatus
    lines: tuple[OrderLine, ...]
    payments: tuple[Payment, ...]
    discount_minor: int = 0
    shipping_minor: int = 0
    tax_minor: int = 0

    @property
    def paid(self) -> Money:
        """What the customer paid in all."""
        return Money(sum(payment.amount.minor for payment in self.payments), self.currency)

    @property
    def charged_back(self) -> Money:
        """What of it the customer's bank takes back, or has taken."""
        return Money(
            sum(each.amount.minor for each in self.payments if each.charged_back_at), self.currency
        )

    def __post_init__(self) -> None:
        goods = sum(line.net_minor for line in self.lines)
        if not 0 <= self.discount_minor <= goods:
            raise ValueError(f"order {self.order_id} takes more off its lines than they cost")


class OrderProblem(ValueError):
    """An order record that cannot be taken; the text names the field and what to write there."""


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
}
_OPTIONAL_ORDER_KEYS = {"delivered_at", "discount", "shipping", "tax"}
_CUSTOMER_KEYS = {"email", "name"}
_ITEM_KEYS = {"item_id", "name", "quantity", "unit_price", "discount", "category", "final_sale"}
_OPTIONAL_ITEM_KEYS = {"discount", "category", "final_sale"}
_PAYMENT_KEYS = {"payment_id", "method", "amount", "charged_back_at"}


def parse_order(record: object) -> Order:
    """Return the order in a decoded JSON record of the orders file.

    Raises OrderProblem naming the first field that is missing, unknown or wrong.
    """
    fields = _object(record, "the order", _ORDER_KEYS, optional=_OPTIONAL_ORDER_KEYS)
    customer = _object(fields["customer"], "customer", _CUSTOMER_KEYS, optional={"name"})
    currency = _checked("currency", lambda: parse_currency(fields["currency"]))
    lines = tuple(
        _line(item, number, currency)
        for number, item in enumerate(_list(fields["items"], "items"), start=1)
    )
    order = Order(
        order_id=_text(fields["order_id"], "order_id"),
        customer_email=_address(customer["email"], "customer.email"),
        customer_name=_name(customer.get("name")),
        currency=currency,
        placed_at=_instant(fields["placed_at"], "placed_at"),
        delivered_at=_optional_instant(fields.get("delivered_at"), "delivered_at"),
        status=_status(fields["status"]),
        lines=lines,
        payments=tuple(
            _payment(payment, number, currency)
            for number, payment in enumerate(_list(fields["payments"], "payments"), start=1)
        ),
        discount_minor=_discount(
            fields.get("discount"), "discount", currency, sum(line.net_minor for line in lines)
        ),
        shipping_minor=_amount(fields.get("shipping"), "shipping", currency),
        tax_minor=_amount(fields.get("tax"), "tax", currency),
    )
    _check_whole(order)
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


def _line(item: object, number: int, currency: str) -> OrderLine:
    where = f"items[{number}]"
    fields = _object(item, where, _ITEM_KEYS, optional=_OPTIONAL_ITEM_KEYS)
    quantity = fields["quantity"]
    if type(quantity) is not int or not 1 <= quantity <= 1_000_000:
        raise OrderProblem(f"{where}.quantity: {quantity!r} is not a whole number from 1")
    price = _checked(f"{where}.unit_price", lambda: parse_money(fields["unit_price"], currency))
    return OrderLine(
        line_no=number,
        item_id=_text(fields["item_id"], f"{where}.item_id"),
        name=_text(fields["name"], f"{where}.name"),
        quantity=quantity,
        unit_price=price,
        discount_minor=_discount(
            fields.get("discount"), f"{where}.discount", currency, quantity * price.minor
        ),
        category=_category(fields.get("category"), f"{where}.category"),
        final_sale=_flag(fields.get("final_sale"), f"{where}.final_sale"),
    )


def _amount(value: object, where: str, currency: str) -> int:
    return 0 if value is None else _checked(where, lambda: parse_money(value, currency)).minor


def _discount(value: object, where: str, currency: str, most: int) -> int:
    minor = _amount(value, where, currency)
    if minor > most:
        raise OrderProblem(f"{where}: is above the {Money(most, currency)} that it is taken off")
    return minor


def _category(value: object, where: str) -> str | None:
    return None if value is None else _text(value, where)


def _flag(value: object, where: str) -> bool:
    if value is not None and type(value) is not bool:
        raise OrderProblem(f"{where}: {value!r} is neither true nor false")
    return bool(value)


def _payment(payment: object, number: int, currency: str) -> Payment:
    where = f"payments[{number}]"
    fields = _object(payment, where, _PAYMENT_KEYS, optional={"charged_back_at"})
    return Payment(
        payment_id=_text(fields["payment_id"], f"{where}.payment_id"),
        method=_text(fields["method"], f"{where}.method"),
        amount=_checked(f"{where}.amount", lambda: parse_money(fields["amount"], currency)),
        charged_back_at=_optional_instant(
            fields.get("charged_back_at"), f"{where}.charged_back_at"
        ),
    )


def _object(
    value: object, where: str, keys: set[str], optional: set[str] | frozenset[str] = frozenset()
) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise OrderProblem(f"{where}: is not an object")
    unknown = sorted(str(key) for key in value.keys() - keys)
    if unknown:
        raise OrderProblem(f"{where}: unknown key {unknown[0]!r}")
    missing = sorted(keys - optional - value.keys())
    if missing:
        raise OrderProblem(f"{where}: {missing[0]!r} is missing")
    return value


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise OrderProblem(f"{where}: is not a list")
    return value


def _text(value: object, where: str, empty: bool = False) -> str:
    if not isinstance(value, str) or not (empty or value.strip()):
        raise OrderProblem(f"{where}: {value!r} is not a text")
    if len(value) > 500 or not is_one_line(value):
        raise OrderProblem(f"{where}: is over 500 characters or has control characters")
    return value.strip()


def _name(value: object) -> str:
    return "" if value is None else _text(value, "customer.name", empty=True)


def _address(value: object, where: str) -> str:
    address = normalise_address(_text(value, where))
    if address is None:
        raise OrderProblem(f"{where}: {value!r} is not a mail address")
    return address


def _instant(value: object, where: str) -> datetime:
    try:
        instant = datetime.fromisoformat(value)  # type: ignore[arg-type]  # TypeError is caught
    except (TypeError, ValueError):
        raise OrderProblem(f"{where}: {value!r} is not a time like 2026-11-01T09:00:00Z") from None
    if instant.tzinfo is None:
        raise OrderProblem(f"{where}: {value!r} has no time zone; add Z or an offset")
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise OrderProblem(
            f"{where}: {value!r} is not within the years {FIRST_YEAR} to {LAST_YEAR}"
        )
    return instant.astimezone(UTC)


def _optional_instant(value: object, where: str) -> datetime | None:
    return None if value is None else _instant(value, where)


def _status(value: object) -> OrderStatus:
    try:
        return OrderStatus(value)  # type: ignore[arg-type]  # any other type is a ValueError too
    except ValueError:
        names = ", ".join(status.value for status in OrderStatus)
        raise OrderProblem(f"status: {value!r} is none of {names}") from None


def _checked(where: str, parse: Callable[[], T]) -> T:
    try:
        return parse()
    except ValueError as problem:
        raise OrderProblem(f"{where}: {problem}") from None
