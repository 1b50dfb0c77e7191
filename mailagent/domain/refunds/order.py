"""Orders as imported from the shop: customer, items, payments and payment methods."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from enum import StrEnum

from mailagent.domain.money import Money, round_down, step_of
from mailagent.domain.orders.shipment import Shipment


class OrderStatus(StrEnum):
    PENDING = "pending"
    SHIPPED = "shipped"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One line of an order. Two lines may have the same item; `line_no` counts from 1.

    `discount_minor` is a discount on all units of the line together. `category` is the shop's own word, which
    its policy may name. An item on final sale cannot be returned.
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
        """The price of all units of the line, less the line's own discount, in minor units."""
        return self.quantity * self.unit_price.minor - self.discount_minor


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment for an order. `method`: as the shop names it; see `method_labels`. `charged_back_at`: when
    the customer's bank took it back. `refunded_minor`: how much the shop refunded outside mailagent, by its
    record of the order, in minor units."""

    payment_id: str
    method: str
    amount: Money
    charged_back_at: datetime | None = None
    refunded_minor: int = 0

    @property
    def step_minor(self) -> int:
        """What each part that goes back must be a multiple of, in minor units: more than 1 only for a card, and
        for a method that we do not know. A payment of a finer amount was not made by card."""
        words, step = method_labels(self.method), step_of(self.amount.currency).minor
        is_card = not words or not _NO_CARDS.issuperset(words)
        return step if is_card and not self.amount.minor % step else 1


@dataclass(frozen=True, slots=True)
class Order:
    """An order. `seen_at`: when its order source last returned it; for an imported order, when it last changed.

    In minor units: `discount_minor` is a discount on all lines together, beside those of the lines;
    `shipping_minor` is the price of shipping; `tax_minor` came on top of both, 0 if prices include it.

    Raises ValueError if `discount_minor` is more than the lines cost."""

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
    shipments: tuple[Shipment, ...] = ()
    seen_at: datetime | None = field(default=None, compare=False)

    @property
    def paid(self) -> Money:
        return Money(sum(payment.amount.minor for payment in self.payments), self.currency)

    @property
    def units(self) -> Counter[str]:
        """How many units of each item it has, by item id."""
        units = Counter[str]()
        for line in self.lines:
            units[line.item_id] += line.quantity
        return units

    @property
    def names(self) -> dict[str, str]:
        """The name of each item, by item id."""
        return {line.item_id: line.name for line in self.lines}

    @property
    def parcels(self) -> tuple[Shipment, ...]:
        """The shipments that we tell customers about."""
        return tuple(each for each in self.shipments if each.is_parcel)

    @property
    def was_sent(self) -> bool:
        """Whether some of it has left the shop, as far as we know."""
        is_sent = self.status in (OrderStatus.SHIPPED, OrderStatus.DELIVERED)
        return is_sent or any(each.has_left for each in self.shipments)

    @property
    def charged_back(self) -> Money:
        """The sum of the payments that the customer's bank took back."""
        return Money(
            sum(each.amount.minor for each in self.payments if each.charged_back_at), self.currency
        )

    def share(self, minor: int, parts: int) -> int:
        """Return an amount in minor units divided by `parts`, rounded down as `round_down` does for this
        order's payments."""
        paid = (payment.amount.minor for payment in self.payments)
        return round_down(minor // parts, self.currency, *paid)

    def left_after(self, taken_minor: int) -> Money:
        """Return what the payments have left: what was paid, less chargebacks, less `taken_minor`, which was or
        will be refunded. Never below zero."""
        left = self.paid.minor - self.charged_back.minor - taken_minor
        return Money(max(0, left), self.currency)

    def __post_init__(self) -> None:
        goods = sum(line.net_minor for line in self.lines)
        if not 0 <= self.discount_minor <= goods:
            raise ValueError(f"order {self.order_id} takes more off its lines than they cost")


class OrderProblem(ValueError):
    """An order's record cannot be stored; the text names the field and what to write there. `customer_email`:
    whose order it is, if an order source can say so although the record is wrong."""

    customer_email: str | None = None


def split_over_payments(
    order: Order, amount: Money, earlier: Mapping[str, int]
) -> tuple[tuple[str, Money], ...]:
    """Return pairs of a payment id and the part of `amount` that goes back to it, in the order of the payments.

    `earlier`: how much of each payment was refunded or is about to be, by payment id, in minor units. Nothing
    goes back to a payment that was charged back. A card gets a multiple of its step (`Payment.step_minor`),
    for which other payments may get a little less. If the parts do not add up to `amount` like this, a card
    may get any amount. Raises ValueError if the payments have less left than `amount`.
    """
    step = step_of(order.currency).minor
    # How much less other payments get; None: a card gets an odd part.
    for fewer in (*range(step), None):
        parts, less = Counter[str](), fewer or 0
        for payment in order.payments:
            if payment.charged_back_at:
                continue
            name = payment.payment_id
            rest = payment.amount.minor - earlier.get(name, 0)
            part = max(0, min(amount.minor - parts.total(), rest))
            if payment.step_minor == 1:
                part, less = max(0, part - less), max(0, less - part)
            elif fewer is not None:
                part -= part % step
            parts[name] = part
        if parts.total() == amount.minor:
            pairs = ((name, Money(part, order.currency)) for name, part in parts.items() if part)
            return tuple(pairs)
    raise ValueError(f"the payments of order {order.order_id} cannot give back {amount}")


# --- times ----------------------------------------------------------------------------------------


# A date outside these years is a mistake, and adding a return window to it may overflow.
FIRST_YEAR, LAST_YEAR = 1970, 2999


def parse_instant(
    value: object, zone: tzinfo | None = None, hint: str = "add Z or an offset"
) -> datetime:
    """Return an ISO 8601 time in UTC; a time without an offset is in `zone`.

    Raises ValueError for a text that is no time; for a time without an offset if `zone` is None (`hint` ends
    the message); and for a year outside FIRST_YEAR to LAST_YEAR.
    """
    try:
        instant = datetime.fromisoformat(value)  # type: ignore[arg-type]  # TypeError is caught
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a time like 2026-11-01T09:00:00Z") from None
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise ValueError(f"{value!r} is not within the years {FIRST_YEAR} to {LAST_YEAR}")
    if instant.tzinfo is None and zone is None:
        raise ValueError(f"{value!r} has no time zone; {hint}")
    return (instant if instant.tzinfo else instant.replace(tzinfo=zone)).astimezone(UTC)


# --- payment method -------------------------------------------------------------------------------


# Our names of payment methods, by the names that WooCommerce and Shopify write in their exports.
_KNOWN: Mapping[str, str] = {
    **dict.fromkeys(
        "stripe stripe_cc stripe_upe cards shopify_payments woocommerce_payments woopayments"
        " square square_credit_card".split(),
        "card",
    ),
    **dict.fromkeys(
        "creditcard mollie_wc_gateway_creditcard braintree_credit_card".split(), "credit_card"
    ),
    **dict.fromkeys(
        "ppcp_gateway ppec_paypal paypal_express paypal_express_checkout braintree_paypal"
        " stripe_paypal mollie_wc_gateway_paypal".split(),
        "paypal",
    ),
    **dict.fromkeys("giftcard gift_cards shopify_gift_card".split(), "gift_card"),
    **dict.fromkeys("bacs bank_deposit wire_transfer".split(), "bank_transfer"),
    **dict.fromkeys("cod cash_on_delivery_cod".split(), "cash_on_delivery"),
    **dict.fromkeys("check cheques checks".split(), "cheque"),
    **dict.fromkeys("stripe_sepa stripe_sepa_debit sepa".split(), "sepa_debit"),
    **dict.fromkeys("klarna_payments kco stripe_klarna".split(), "klarna"),
    **dict.fromkeys("amazon_payments amazon_payments_advanced".split(), "amazon_pay"),
    **dict.fromkeys("shop_pay_installments shopify_installments".split(), "shop_pay"),
}
# A rule for the wider kind applies to the narrower one.
_KIND_OF: Mapping[str, str] = {
    **dict.fromkeys("credit_card debit_card apple_pay google_pay shop_pay".split(), "card"),
    "sepa_debit": "direct_debit",
}
_SHOPS_OWN = frozenset({"gift_card", "store_credit", "voucher"})
OUR_WORDS = frozenset(
    {*_KNOWN.values(), *_KIND_OF, *_KIND_OF.values(), *_SHOPS_OWN, "cash", "invoice", "manual"}
)
_NO_CARDS = frozenset(word for word in OUR_WORDS if "card" not in (word, _KIND_OF.get(word)))


def method_word(method: str) -> str:
    """Return our name of a payment method, such as `gift_card` for "Gift Card". An unknown method keeps its own
    name, in the same spelling: lower case and underscores."""
    word = re.sub(r"[\W_]+", "_", method.casefold()).strip("_")
    return _KNOWN.get(word, word)


def method_labels(method: str) -> tuple[str, ...]:
    """Return our names of the methods of a payment. Exports join several methods with a "+"."""
    return tuple(dict.fromkeys(filter(None, map(method_word, method.split("+")))))


def item_ids(lines: Iterable[tuple[str, object, object]]) -> list[str]:
    """Return our item id of each line of an order from a shop system. `lines`: for each line
    its SKU or a substitute, a value that all lines of the same item share, and its number.

    Variants may share an SKU. A line that differs from the first with its SKU has an id of its own. An id never
    depends on later lines, because we may have read only the first ones."""
    first: dict[str, object] = {}
    return [
        sku if first.setdefault(sku, same) == same else f"{sku} (line {number})"
        for sku, same, number in lines
    ]


def imported_method(method: str) -> str:
    """Return the methods of an export as we store them: our names joined by " + ", and the export's own text
    for a method that we do not know; "unknown" if it names none."""
    parts = [" ".join(each.split()) for each in method.split("+")]
    names = ((part, method_word(part)) for part in parts if part)
    return " + ".join(name if name in OUR_WORDS else part for part, name in names) or "unknown"


def with_wider(word: str) -> tuple[str, ...]:
    """Return a method and its wider kind, such as `card` for `credit_card`, if it has one. A rule for either
    applies."""
    return (word, _KIND_OF[word]) if word in _KIND_OF else (word,)


def is_shops_own(method: str) -> bool:
    """Return whether all methods of a payment are the shop's own, without a bank: gift card, voucher or store
    credit."""
    words = method_labels(method)
    return bool(words) and _SHOPS_OWN.issuperset(words)
