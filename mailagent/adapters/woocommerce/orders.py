"""WooCommerce's orders as ours: https://woocommerce.github.io/woocommerce-rest-api-docs/ (v3).

Prices are with their tax, as in the export. WooCommerce has one payment for an order, and keeps no parcels:
they are read from what the extension Shipment Tracking, or one like it, adds to an order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from mailagent.adapters.order_files.shops import WOO_STATUS, woo_is_paid
from mailagent.adapters.platforms.records import checked, to_minor
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.money import Money, parse_currency
from mailagent.domain.orders.shipment import Shipment, ShipmentStatus
from mailagent.domain.refunds.order import (
    Order,
    OrderLine,
    OrderProblem,
    OrderStatus,
    Payment,
    imported_method,
    item_ids,
    parse_instant,
)

NAME = "woocommerce"
TITLE = "WooCommerce"

Fields = Mapping[str, Any]

_PAYMENT = "woocommerce:"
# A payment that no plugin can refund, because the shop took the money itself.
_MANUAL = "woocommerce-manual:"
# WooCommerce's own methods that move no money, and what an order has without a payment plugin.
_MANUAL_METHODS = frozenset({"bacs", "cheque", "cod", "other", ""})
_PARCELS = "_wc_shipment_tracking_items"
_REFUNDED_LINE = "_refunded_item_id"
# Nothing of an order with such a status has been sent.
UNSENT = frozenset({"pending", "on-hold", "processing"})

# Deleted, or not placed yet. WooCommerce shows such an order to those who know its id.
_NO_ORDER = frozenset({"trash", "auto-draft", "draft", "checkout-draft"})


def is_order(fields: Fields) -> bool:
    """Return whether a record is an order that was placed and not deleted."""
    return fields.get("status") not in _NO_ORDER


def is_woocommerce_payment(payment_id: str) -> bool:
    """Return whether a payment was made through WooCommerce, by the form of its id."""
    return payment_id.startswith(_PAYMENT)


def payment_id_of(number: int, *, manual: bool = False) -> str:
    """Return our payment id for an order's payment; also used as the reference of a refund. `manual`: the shop
    took the money itself."""
    return f"{_MANUAL if manual else _PAYMENT}{number}"


def is_manual(fields: Fields) -> bool:
    """Return whether the shop took the money of an order itself, such as by bank transfer or on delivery."""
    return (fields["payment_method"] or "") in _MANUAL_METHODS


def post_id_of(payment_id: str) -> str:
    """Return WooCommerce's id of the order of a payment."""
    return payment_id.removeprefix(_PAYMENT)


def read_order(fields: Fields, refunds: Sequence[Fields] = ()) -> Order:
    """Parse an order with its refunds. Raises OrderProblem if we cannot read it."""
    try:
        return checked(_read(fields, refunds))
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as problem:
        raise OrderProblem(f"order {fields.get('number')}: {problem!r}") from problem


def _read(fields: Fields, refunds: Sequence[Fields]) -> Order:
    currency, billing = parse_currency(fields["currency"]), fields["billing"]
    lines = fields["line_items"]
    bought = [
        _line(each, item_id, currency)
        for each, item_id in zip(lines, item_ids_of(lines, currency), strict=True)
    ]
    fees = [_sum(each, currency, "total", "total_tax") for each in fields["fee_lines"]]
    shipping = _sum(fields, currency, "shipping_total", "shipping_tax")
    shipping += sum(each for each in fees if each > 0)
    total = _sum(fields, currency, "total")
    # Cents that rounding moved, as in the export.
    cents = total - _net(bought) - shipping - sum(x for x in fees if x < 0)
    if abs(cents) > len(bought) + len(fees) + 2:
        raise ValueError(f"the total is {Money(total, currency)}, its parts differ by {cents}")
    left = _left(bought, lines, refunds)
    off = sum(-each for each in fees if each < 0) + max(0, -cents)
    return Order(
        order_id=str(fields["number"]),
        customer_email=normalise_address(billing["email"] or "") or "",
        customer_name=f"{billing['first_name']} {billing['last_name']}".strip(),
        currency=currency,
        placed_at=_moment(fields["date_created_gmt"]),
        delivered_at=None,
        status=status_of(fields),
        lines=tuple(left),
        payments=_payments(fields, total, currency),
        # What was off all units is off those that are left in proportion.
        discount_minor=min(-(-off * _net(left) // max(1, _net(bought))), _net(left)),
        shipping_minor=shipping,
        tax_minor=max(0, cents),
        shipments=tuple(_parcels(fields["meta_data"])),
    )


def _net(lines: Sequence[OrderLine]) -> int:
    return sum(each.net_minor for each in lines)


def _sum(fields: Fields, currency: str, *names: str) -> int:
    return sum(to_minor(fields[name] or "0", currency, rounded=True) for name in names)


def _line(fields: Fields, item_id: str, currency: str) -> OrderLine:
    """Return a line. WooCommerce knows what all units cost, before and after discounts."""
    quantity, price = int(fields["quantity"]), _unit_minor(fields, currency)
    discount = price * quantity - _sum(fields, currency, "total", "total_tax")
    return OrderLine(1, item_id, fields["name"], quantity, Money(price, currency), discount)


def _unit_minor(line: Fields, currency: str) -> int:
    before = _sum(line, currency, "subtotal", "subtotal_tax")
    after = _sum(line, currency, "total", "total_tax")
    return -(-max(before, after) // int(line["quantity"]))


def item_ids_of(lines: Sequence[Fields], currency: str) -> list[str]:
    """Return our item id of each line of an order. A variation without an SKU of its own has its product's."""
    return item_ids(
        (
            str(each["sku"] or each["variation_id"] or each["product_id"] or each["id"]),
            (each["name"], _unit_minor(each, currency)),
            each["id"],
        )
        for each in lines
    )


def count_taken_back(refunds: Sequence[Fields]) -> Counter[str]:
    """Return how many units the shop took back by these refunds, by WooCommerce's id of the order line."""
    gone: Counter[str] = Counter()
    for refund in refunds:
        for each in refund["line_items"]:
            gone[_meta(each["meta_data"], _REFUNDED_LINE)] += abs(int(each["quantity"]))
    return gone


def _left(
    bought: Sequence[OrderLine], lines: Sequence[Fields], refunds: Sequence[Fields]
) -> list[OrderLine]:
    """Return the lines without the units that the shop took back; all of them if nothing would be left."""
    gone = count_taken_back(refunds)
    left = [max(0, x.quantity - gone[str(y["id"])]) for x, y in zip(bought, lines, strict=True)]
    if not any(left):
        left = [each.quantity for each in bought]
    kept = [(line, units) for line, units in zip(bought, left, strict=True) if units]
    return [
        OrderLine(
            number,
            line.item_id,
            line.name,
            units,
            line.unit_price,
            -(-line.discount_minor * units // line.quantity),
        )
        for number, (line, units) in enumerate(kept, start=1)
    ]


def _meta(found: Sequence[Fields], key: str) -> str:
    return next((str(each["value"]) for each in found if each["key"] == key), "")


def _payments(fields: Fields, total: int, currency: str) -> tuple[Payment, ...]:
    given = -sum(_sum(each, currency, "total") for each in fields["refunds"])
    method = fields["payment_method"] or ""
    if not (fields["date_paid_gmt"] or woo_is_paid(fields["status"], method) or given):
        return ()
    payment_id = payment_id_of(fields["id"], manual=is_manual(fields))
    amount, given = Money(total, currency), min(given, total)
    return (Payment(payment_id, imported_method(method), amount, refunded_minor=given),)


def status_of(fields: Fields) -> OrderStatus:
    """Return our status for an order's. WooCommerce sets `refunded` when all of the total has been refunded,
    whether the order was sent or not."""
    sent = fields["date_completed_gmt"]
    if fields["status"] == "refunded" and not sent and not has_parcels(fields):
        return OrderStatus.CANCELLED
    return WOO_STATUS.get(fields["status"], OrderStatus.SHIPPED if sent else OrderStatus.PENDING)


def _moment(text: str) -> datetime:
    return parse_instant(text, UTC)


def has_parcels(fields: Fields) -> bool:
    """Return whether WooCommerce has parcels of an order. The order's status does not matter."""
    return bool(_tracked(fields["meta_data"]))


def _parcels(found: Sequence[Fields]) -> Iterator[Shipment]:
    # Extensions may write a parcel twice, or several with one tracking number and no id.
    parcels = dict.fromkeys(_parcel(each) for each in _tracked(found) if isinstance(each, Mapping))
    seen: Counter[str] = Counter()
    for each in parcels:
        name = each.shipment_id
        seen[name] += 1
        yield replace(each, shipment_id=f"{name} ({seen[name]})") if seen[name] > 1 else each


def _tracked(found: Sequence[Fields]) -> Sequence[Any]:
    return next((each["value"] for each in found if each["key"] == _PARCELS), [])


def _parcel(item: Fields) -> Shipment:
    number = str(item["tracking_number"])
    at = (
        datetime.fromtimestamp(int(item["date_shipped"]), UTC) if item.get("date_shipped") else None
    )
    return Shipment(
        shipment_id=str(item.get("tracking_id") or sha256(number.encode()).hexdigest()[:16]),
        status=ShipmentStatus.IN_TRANSIT,
        carrier=item.get("tracking_provider") or item.get("custom_tracking_provider") or None,
        tracking_number=number,
        tracking_url=item.get("custom_tracking_link") or None,
        shipped_at=at,  # the extension knows no events of the carrier
    )
