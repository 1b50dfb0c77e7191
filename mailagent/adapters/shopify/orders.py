"""Parses Shopify's orders into ours.

Amounts are in the currency in which the customer paid (presentment), because refunds are made in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mailagent.adapters.platforms.records import checked, spread, to_minor
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

NAME = "shopify"
TITLE = "Shopify"
PACKED = 10  # the most lines of a parcel that we read

Fields = Mapping[str, Any]

_TRANSACTION = "gid://shopify/OrderTransaction/"
_PAYMENT = "shopify:"
# A payment that the shop took without Shopify. `refundCreate` would record a refund of it and move no money.
_MANUAL = "shopify-manual:"
_CASH = "cash"

PAID_KINDS = frozenset({"SALE", "CAPTURE"})
GIVEN_BACK = "REFUND"
# Statuses of a transaction that may still succeed. It counts as money that moved.
PENDING = frozenset({"PENDING", "AWAITING_RESPONSE", "UNKNOWN"})
MOVED = PENDING | {"SUCCESS"}

# The order was sent. As in the export, an order that was sent in part is pending.
_SENT = frozenset({"FULFILLED", "FULFILLMENT_NOT_REQUIRED"})
# Nothing of the order has left the shop, and no warehouse was asked to send it.
UNSENT = frozenset({"UNFULFILLED", "OPEN", "ON_HOLD", "SCHEDULED", "RESTOCKED"})
_TAKEN_BY_BANK = frozenset({"NEEDS_RESPONSE", "UNDER_REVIEW", "LOST", "ACCEPTED"})

_NO_PARCEL = frozenset({"CANCELED", "LABEL_VOIDED"})
_NO_FULFILMENT = frozenset({"CANCELLED", "ERROR", "FAILURE"})
# It waits at a counter: no status of a parcel would be true.
_WAITS = "READY_FOR_PICKUP"
_PARCEL = {
    **dict.fromkeys(
        "LABEL_PRINTED LABEL_PURCHASED CONFIRMED SUBMITTED".split(), ShipmentStatus.LABEL_CREATED
    ),
    **dict.fromkeys("DELIVERED PICKED_UP".split(), ShipmentStatus.DELIVERED),
    "OUT_FOR_DELIVERY": ShipmentStatus.OUT_FOR_DELIVERY,
    **dict.fromkeys("ATTEMPTED_DELIVERY FAILURE NOT_DELIVERED".split(), ShipmentStatus.EXCEPTION),
}


def is_shopify_payment(payment_id: str) -> bool:
    """Return whether a payment was made through Shopify, by the form of its id."""
    return payment_id.startswith(_PAYMENT)


def payment_id_of(gid: str, *, manual: bool = False) -> str:
    """Return our payment id for a transaction of Shopify. `manual`: the shop took the money without Shopify."""
    return (_MANUAL if manual else _PAYMENT) + gid.removeprefix(_TRANSACTION)


def is_manual(transaction: Fields) -> bool:
    """Return whether the shop took the money of a transaction without Shopify, such as by bank deposit or on
    delivery."""
    return bool(transaction["manualPaymentGateway"]) or transaction["gateway"] == _CASH


def gid_of(payment_id: str) -> str:
    """Return Shopify's id of a transaction."""
    return _TRANSACTION + payment_id.removeprefix(_PAYMENT)


def minor_of(bag: Fields, currency: str) -> int:
    """Return the amount of a MoneyBag in minor units. Raises ValueError if it is not in `currency`, the
    customer's."""
    money = bag["presentmentMoney"]
    if money["currencyCode"] != currency:
        raise ValueError(f"an amount is in {money['currencyCode']}, the order in {currency}")
    return to_minor(money["amount"], currency)


def read_order(fields: Fields, lines: Sequence[Fields]) -> Order:
    """Parse an order. Raises OrderProblem if we cannot read it."""
    try:
        return checked(_read(fields, lines))
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as problem:
        raise OrderProblem(f"order {fields.get('name')}: {problem!r}") from problem


def _read(fields: Fields, lines: Sequence[Fields]) -> Order:
    currency = parse_currency(fields["presentmentCurrencyCode"])
    fulfilments = [each for each in fields["fulfillments"] if _is_made(each)]
    delivered_at = _delivered_at(fields, fulfilments)
    # Leave out units that were removed or refunded. If nothing is left, keep the whole order.
    left = any(each["currentQuantity"] for each in lines)
    shipping, on_top = _sums(fields, currency, left)
    return Order(
        order_id=fields["name"],
        customer_email=normalise_address(fields["email"] or "") or "",
        customer_name=(fields["billingAddress"] or {}).get("name") or "",
        currency=currency,
        placed_at=parse_instant(fields["processedAt"]),
        delivered_at=delivered_at,
        status=_status(fields, delivered_at),
        lines=tuple(_lines(lines, currency, left)),
        payments=_payments(fields, currency),
        shipping_minor=shipping,
        tax_minor=on_top,
        shipments=tuple(_parcels(fulfilments, lines)),
    )


def _sums(fields: Fields, currency: str, left: bool) -> tuple[int, int]:
    """Return the shipping, and the taxes and duties that the prices do not include."""
    names = ("currentShippingPriceSet", "currentTotalTaxSet", "currentTotalDutiesSet")
    if not left:
        names = ("totalShippingPriceSet", "totalTaxSet", "originalTotalDutiesSet")
    shipping, tax, duties = (
        minor_of(fields[name], currency) if fields[name] else 0 for name in names
    )
    on_top = (0 if fields["taxesIncluded"] else tax) + (0 if fields["dutiesIncluded"] else duties)
    return shipping, on_top


def _lines(lines: Sequence[Fields], currency: str, left: bool) -> list[OrderLine]:
    found: list[OrderLine] = []
    for each, item_id in zip(lines, item_ids_of(lines), strict=True):
        quantity = each["currentQuantity"] if left else each["quantity"]
        if not quantity:
            continue
        allocated = (x["allocatedAmountSet"] for x in each["discountAllocations"])
        discount = sum(minor_of(bag, currency) for bag in allocated)
        price = minor_of(each["originalUnitPriceSet"], currency)
        found.append(
            OrderLine(
                line_no=len(found) + 1,
                item_id=item_id,
                name=each["name"],
                quantity=quantity,
                unit_price=Money(price, currency),
                # The discount on the remaining units, rounded up so that they are not worth more than was paid.
                discount_minor=min(-(-discount * quantity // each["quantity"]), price * quantity),
                category="gift_card" if each["isGiftCard"] else None,
            )
        )
    return found


def item_ids_of(lines: Sequence[Fields]) -> list[str]:
    """Return our item id of each of the first lines of an order."""
    numbers = [each["id"].rpartition("/")[2] for each in lines]
    prices = [each["originalUnitPriceSet"]["presentmentMoney"]["amount"] for each in lines]
    return item_ids(
        (str(each["sku"] or number), (each["name"], price), number)
        for each, number, price in zip(lines, numbers, prices, strict=True)
    )


# --- payments -------------------------------------------------------------------------------------


def _payments(fields: Fields, currency: str) -> tuple[Payment, ...]:
    given: Counter[str] = Counter()
    for each in fields["transactions"]:
        if each["kind"] in (GIVEN_BACK, "CHANGE") and each["status"] in MOVED:
            parent = (each["parentTransaction"] or {}).get("id", "")
            given[parent] += minor_of(each["amountSet"], currency)
    since = _charged_back_at(fields)
    payments = []
    for each in fields["transactions"]:
        if each["kind"] in PAID_KINDS and each["status"] == "SUCCESS":
            amount = minor_of(each["amountSet"], currency)
            refunded = min(given.pop(each["id"], 0), amount)
            method = imported_method(each["gateway"] or "")
            payment_id = payment_id_of(each["id"], manual=is_manual(each))
            payments.append(Payment(payment_id, method, Money(amount, currency), since, refunded))
    return spread(payments, given.total())


def _charged_back_at(fields: Fields) -> datetime | None:
    """Return when a bank took the money back, or None. Shopify does not say when, so it is the time of the
    order."""
    for each in fields["disputes"]:
        if each["initiatedAs"] == "CHARGEBACK" and each["status"] in _TAKEN_BY_BANK:
            return parse_instant(fields["processedAt"])
    return None


# --- parcels --------------------------------------------------------------------------------------


def _is_made(fulfilment: Fields) -> bool:
    is_void = fulfilment["displayStatus"] in _NO_PARCEL
    return fulfilment["status"] not in _NO_FULFILMENT and not is_void


def _parcels(fulfilments: Sequence[Fields], lines: Sequence[Fields]) -> list[Shipment]:
    names = dict(zip((each["id"] for each in lines), item_ids_of(lines), strict=True))
    found = []
    for each in fulfilments:
        if each["displayStatus"] == _WAITS:
            continue
        shipment_id = each["id"].rpartition("/")[2]
        items = _packed(each["fulfillmentLineItems"]["nodes"], names)
        if not each["requiresShipping"]:  # no parcel, but its items cannot be cancelled
            found.append(Shipment(shipment_id, ShipmentStatus.DELIVERED, items=items))
            continue
        status = _PARCEL.get(each["displayStatus"], ShipmentStatus.IN_TRANSIT)
        tracking: Fields = next(iter(each["trackingInfo"]), {})
        sent = each["inTransitAt"] or each["createdAt"]
        shipped_at = None if status is ShipmentStatus.LABEL_CREATED else parse_instant(sent)
        delivered_at = _instant(each["deliveredAt"])
        events = [parse_instant(x["happenedAt"]) for x in each["events"]["nodes"]]
        # Without `createdAt`: a parcel of a carrier that Shopify does not track must have no event.
        moments = [each for each in (_instant(each["inTransitAt"]), delivered_at, *events) if each]
        found.append(
            Shipment(
                shipment_id=shipment_id,
                status=status,
                carrier=tracking.get("company"),
                tracking_number=tracking.get("number"),
                tracking_url=tracking.get("url"),
                shipped_at=shipped_at,
                expected_at=_instant(each["estimatedDeliveryAt"]),
                delivered_at=delivered_at,
                last_event_at=max(moments, default=None),
                items=items,
            )
        )
    return found


def _packed(nodes: Sequence[Fields], names: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """Return what a parcel holds; nothing, which means that it may hold anything, if it may hold more than we
    read."""
    if len(nodes) >= PACKED:
        return ()
    return tuple(
        (names[x["lineItem"]["id"]], x["quantity"])
        for x in nodes
        if x["lineItem"]["id"] in names and x["quantity"]
    )


def _instant(text: str | None) -> datetime | None:
    return parse_instant(text) if text else None


def _delivered_at(fields: Fields, fulfilments: Sequence[Fields]) -> datetime | None:
    times = [parse_instant(each["deliveredAt"]) for each in fulfilments if each["deliveredAt"]]
    whole = bool(times) and len(times) == len(fulfilments)
    return max(times) if whole and fields["displayFulfillmentStatus"] in _SENT else None


def _status(fields: Fields, delivered_at: datetime | None) -> OrderStatus:
    if fields["cancelledAt"]:
        return OrderStatus.CANCELLED
    if fields["displayFulfillmentStatus"] not in _SENT:
        return OrderStatus.PENDING
    return OrderStatus.DELIVERED if delivered_at else OrderStatus.SHIPPED
