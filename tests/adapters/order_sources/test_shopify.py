"""A Shopify store as an order source."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from mailagent.adapters.http import limited
from mailagent.adapters.shopify.client import ShopifyClient
from mailagent.adapters.shopify.provider import ShopifyPayments
from mailagent.adapters.shopify.source import ShopifySource
from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import ShipmentStatus, left_to_ship
from mailagent.domain.orders.source import (
    AddressChanged,
    Cancelled,
    CancelRequest,
    NotSupported,
    NotYet,
    SourceProblem,
    TooLate,
    Unsure,
)
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus
from mailagent.mailers.values import values_of_state
from tests.adapters.order_sources.contract import DEADLINE_SECONDS, NEW_ADDRESS, OrderSourceContract
from tests.cast import ADA, order
from tests.platforms.shopify_server import (
    APP,
    MANUAL,
    TOKEN,
    Listed,
    ShopifyServer,
    address_of,
    bag,
    error,
    in_use,
    lost_after,
    lost_before,
    throttled,
)


class PlayedShopify(ShopifyServer):
    def make(self, url: str | None = None) -> ShopifySource:
        return ShopifySource(ShopifyClient(url or self.url, TOKEN, DEADLINE_SECONDS))

    def be_slow(self, seconds: float) -> None:
        self.before = lambda _query: time.sleep(seconds)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedShopify]:
    monkeypatch.setattr("mailagent.adapters.shopify.source.CANCEL_PAUSES", (0.0, 0.0))
    server = PlayedShopify()
    yield server
    server.stop()


class TestShopify(OrderSourceContract):
    pass


def test_the_orders_that_were_read_in_time_are_kept(shop: PlayedShopify) -> None:
    shop.stock(*(order(number) for number in ("1001", "1002", "1003")))
    shop.before = lambda _query: time.sleep(3 if len(shop.requests) > 2 else 0)
    with limited(1.5):
        page = shop.make().find_orders(ADA)
    assert (len(page.orders), page.is_cut, len(shop.requests)) == (1, True, 3)


def load(shop: PlayedShopify, name: str = "#1001") -> Order:
    found = shop.make().load_order(name)
    assert found is not None
    return found


def test_an_order_has_all_that_a_refund_needs(shop: PlayedShopify) -> None:
    sold = order("#1001", discount="5.00", shipping="4.90", tax="3.10")
    shop.stock(sold)
    line = shop.named("#1001")["lineItems"].all[0]
    line["discountAllocations"] = [{"allocatedAmountSet": bag(500, "USD")}]
    found = load(shop)
    assert [(x.item_id, x.quantity, x.unit_price) for x in found.lines] == [
        (x.item_id, x.quantity, x.unit_price) for x in sold.lines
    ]
    assert (found.lines[0].discount_minor, found.discount_minor) == (500, 0)
    assert (found.shipping_minor, found.tax_minor) == (490, 310)
    assert [x.payment_id for x in found.payments] == shop.payment_ids("#1001")
    assert found.paid == sold.paid
    assert (found.status, found.delivered_at) == (OrderStatus.DELIVERED, sold.delivered_at)


@pytest.mark.parametrize(
    ("taxes_included", "duties_included", "on_top"),
    [(False, False, 510), (False, True, 310), (True, False, 200), (True, True, 0)],
)
def test_taxes_and_duties_come_on_top_unless_the_prices_include_them(
    shop: PlayedShopify, taxes_included: bool, duties_included: bool, on_top: int
) -> None:
    shop.stock(order("#1001", tax="3.10"))
    fields = shop.named("#1001")
    fields |= {"taxesIncluded": taxes_included, "dutiesIncluded": duties_included}
    fields["currentTotalDutiesSet"] = bag(200, "USD")
    assert load(shop).tax_minor == on_top


@pytest.mark.parametrize("asked", ["#1001", "1001"])
def test_a_name_is_found_with_and_without_its_sign(shop: PlayedShopify, asked: str) -> None:
    shop.stock(order("#10010"), order("#1001"))
    assert load(shop, asked).order_id == "#1001"


def test_a_similar_address_is_another_customer(shop: PlayedShopify) -> None:
    shop.stock(order("#1001", customer={"email": f"x{ADA}"}))
    assert shop.make().find_orders(ADA).orders == ()


def test_a_parcel_has_its_way(shop: PlayedShopify) -> None:
    shop.stock(order("#1001", status="shipped", delivered_at=None))
    (parcel,) = load(shop).shipments
    assert (parcel.carrier, parcel.tracking_number) == ("DHL", "D17")
    assert (parcel.status, parcel.delivered_at) == (ShipmentStatus.IN_TRANSIT, None)
    assert parcel.shipped_at == parcel.last_event_at == order("#1001").placed_at
    assert [item_id for item_id, _ in parcel.items] == [x.item_id for x in order("#1001").lines]


def test_a_parcel_that_its_carrier_tells_nothing_of_has_no_event(shop: PlayedShopify) -> None:
    shop.stock(order("#1001", status="shipped", delivered_at=None))
    (fulfilment,) = shop.named("#1001")["fulfillments"].all
    fulfilment["events"].all.clear()
    fulfilment |= {"displayStatus": "FULFILLED", "inTransitAt": None}
    (parcel,) = load(shop).shipments
    assert (parcel.status, parcel.last_event_at) == (ShipmentStatus.IN_TRANSIT, None)
    assert parcel.shipped_at is not None


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("LABEL_PRINTED", ShipmentStatus.LABEL_CREATED),
        ("FULFILLED", ShipmentStatus.IN_TRANSIT),
        (None, ShipmentStatus.IN_TRANSIT),
        ("DELAYED", ShipmentStatus.IN_TRANSIT),
        ("OUT_FOR_DELIVERY", ShipmentStatus.OUT_FOR_DELIVERY),
        ("NOT_DELIVERED", ShipmentStatus.EXCEPTION),
    ],
)
def test_a_parcels_status_is_in_our_words(
    shop: PlayedShopify, told: str | None, status: ShipmentStatus
) -> None:
    shop.stock(order("#1001", status="shipped", delivered_at=None))
    shop.named("#1001")["fulfillments"].all[0]["displayStatus"] = told
    assert load(shop).shipments[0].status is status


def test_a_cancelled_fulfilment_is_no_parcel(shop: PlayedShopify) -> None:
    shop.stock(order("#1001", status="shipped", delivered_at=None))
    shop.named("#1001")["fulfillments"].all[0]["status"] = "CANCELLED"
    assert load(shop).shipments == ()


def test_what_waits_for_pickup_is_no_parcel_and_not_delivered(shop: PlayedShopify) -> None:
    shop.stock(order("#1001"))
    parcels = shop.named("#1001")["fulfillments"].all
    waits = {"displayStatus": "READY_FOR_PICKUP", "deliveredAt": None}
    parcels.append(parcels[0] | waits | {"id": "gid://shopify/Fulfillment/7"})
    found = load(shop)
    assert [each.status for each in found.shipments] == [ShipmentStatus.DELIVERED]
    assert (found.status, found.delivered_at) == (OrderStatus.SHIPPED, None)


def test_what_needs_no_shipping_is_no_parcel_but_has_left_the_shop(shop: PlayedShopify) -> None:
    shop.stock(two_kettles_and_a_lamp())
    fields = shop.named("#1001")
    card = {"quantity": 1, "lineItem": fields["lineItems"].all[1]}
    parcel = shop._parcel(pending(), []) | {"displayStatus": "FULFILLED"}
    parcel |= {"requiresShipping": False, "trackingInfo": [], "inTransitAt": None}
    parcel["fulfillmentLineItems"] = Listed([card], shop)
    fields["fulfillments"] = Listed([parcel], shop, False)
    fields["displayFulfillmentStatus"] = "PARTIALLY_FULFILLED"
    found = load(shop)
    assert found.parcels == ()
    assert left_to_ship(found.shipments, found.units) == {"K1": 2, "L1": 0}
    assert not values_of_state(found)["in_part"]
    assert (found.status, found.delivered_at) == (OrderStatus.PENDING, None)


def test_what_was_given_back_stands_at_its_payment(shop: PlayedShopify) -> None:
    shop.stock(order("#1001"))
    shop.refund_in_admin("#1001", 700)
    shop.refund_in_admin("#1001", 300, "Refund r_17 by mailagent")
    shop.statuses.append("FAILURE")
    shop.refund_in_admin("#1001", 100)
    assert [each.refunded_minor for each in load(shop).payments] == [1000]


@pytest.mark.parametrize("method", [*sorted(MANUAL), "cash"])
def test_a_payment_that_the_shop_took_itself_is_not_shopifys_to_refund(
    shop: PlayedShopify, method: str
) -> None:
    paid = [
        {"payment_id": "p1", "method": method, "amount": "9.99"},
        {"payment_id": "p2", "method": "shopify_payments", "amount": "40.00"},
    ]
    shop.stock(order("#1001", payments=paid))
    found = [each.payment_id for each in load(shop).payments]
    assert found == shop.payment_ids("#1001")
    assert [ShopifyPayments().has_payment(each) for each in found] == [False, True]


def test_units_that_the_shop_took_back_are_gone(shop: PlayedShopify) -> None:
    shop.stock(
        order(
            "#1001",
            items=[
                {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "20.00"},
                {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "9.99"},
            ],
        )
    )
    kettles, lamp = shop.named("#1001")["lineItems"].all
    kettles["discountAllocations"] = [{"allocatedAmountSet": bag(301, "USD")}]
    kettles["currentQuantity"], lamp["currentQuantity"] = 1, 0
    (left,) = load(shop).lines
    assert (left.item_id, left.quantity, left.discount_minor) == ("K1", 1, 151)
    kettles["currentQuantity"] = 0
    assert [each.quantity for each in load(shop).lines] == [2, 1]  # all is gone: shown as bought


def test_amounts_are_in_the_customers_currency(shop: PlayedShopify) -> None:
    shop.stock(order("#1001", currency="JPY", items=[JAPANESE], payments=[YEN]))
    assert load(shop).paid == Money(4990, "JPY")
    shop.named("#1001")["currentShippingPriceSet"] = bag(1, "USD")
    with pytest.raises(OrderProblem, match="USD"):
        load(shop)


def set_amount(minor: int) -> Callable[[dict[str, Any]], None]:
    def change(fields: dict[str, Any]) -> None:
        fields["transactions"].all[0]["amountSet"] = bag(minor, "USD")

    return change


LIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "payment": set_amount(-4999),
    "huge payment": set_amount(10**17),
    "price": lambda x: x["lineItems"].all[0].update(originalUnitPriceSet=bag(-4999, "USD")),
    "units": lambda x: x["lineItems"].all[0].update(quantity=-1, currentQuantity=-1),
    "shipping": lambda x: x.update(currentShippingPriceSet=bag(-100, "USD")),
}


@pytest.mark.parametrize("lie", LIES)
def test_amounts_that_cannot_be_true_hide_no_other_order(shop: PlayedShopify, lie: str) -> None:
    shop.stock(order("#1001"), order("#1002"))
    LIES[lie](shop.named("#1001"))
    page = shop.make().find_orders(ADA)
    assert [each.order_id for each in page.orders] == ["#1002"]
    assert "#1001" in page.problems[0]
    with pytest.raises(OrderProblem, match="#1001") as told:
        load(shop)
    assert told.value.customer_email == ADA


JAPANESE = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "4990"}
YEN = {"payment_id": "p", "method": "card", "amount": "4990"}


@pytest.mark.parametrize(("status", "taken"), [("NEEDS_RESPONSE", True), ("WON", False)])
def test_a_dispute_takes_the_payment(shop: PlayedShopify, status: str, taken: bool) -> None:
    shop.stock(order("#1001"))
    dispute = {"id": "gid://shopify/OrderDispute/1", "initiatedAs": "CHARGEBACK", "status": status}
    shop.named("#1001")["disputes"] = [dispute]
    assert bool(load(shop).charged_back.minor) is taken


def test_long_orders_are_read_to_the_last_line(shop: PlayedShopify) -> None:
    shop.stock(order("#1001"))
    fields = shop.named("#1001")
    line = fields["lineItems"].all[0]
    fields["lineItems"] = Listed([line | {"id": f"gid/{n}"} for n in range(120)], shop)
    assert len(load(shop).lines) == 120
    fields["lineItems"] = Listed([line | {"id": f"gid/{n}"} for n in range(300)], shop)
    with pytest.raises(OrderProblem, match="lines"):
        load(shop)


def test_an_order_whose_pages_of_lines_repeat_is_not_read(shop: PlayedShopify) -> None:
    shop.stock(order("#1001"))
    fields = shop.named("#1001")
    fields["lineItems"] = Listed(fields["lineItems"].all * 2, shop)
    shop.page_size = 1
    with pytest.raises(OrderProblem, match="repeat"):
        load(shop)


def test_an_order_with_more_money_movements_than_we_read_is_not_summed(shop: PlayedShopify) -> None:
    shop.stock(order("#1001"))
    for _ in range(60):
        shop.refund_in_admin("#1001", 1)
    with pytest.raises(OrderProblem, match="transactions"):
        load(shop)
    page = shop.make().find_orders(ADA)
    assert (page.orders, len(page.problems)) == ((), 1)


def test_an_order_with_more_parcels_than_we_read_is_not_told_of(shop: PlayedShopify) -> None:
    shop.stock(order("#1001", status="shipped", delivered_at=None))
    fields = shop.named("#1001")
    fields["fulfillments"] = Listed(fields["fulfillments"].all * 11, shop, False)
    with pytest.raises(OrderProblem, match="parcels"):
        load(shop)


def test_a_parcel_with_more_lines_than_we_read_may_hold_anything(shop: PlayedShopify) -> None:
    shop.stock(order("#1001", status="shipped", delivered_at=None))
    (parcel,) = shop.named("#1001")["fulfillments"].all
    parcel["fulfillmentLineItems"] = Listed(parcel["fulfillmentLineItems"].all * 10, shop)
    assert load(shop).shipments[0].items == ()


def test_one_order_without_an_address_is_only_not_this_customers(
    shop: PlayedShopify, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.stock(order("#1001"))
    source = shop.make()
    real = source._find

    def find(*arguments: Any) -> dict[str, Any]:
        found = real(*arguments)
        return found | {"nodes": [{"id": "gid/of-a-till", "email": None}, *found["nodes"]]}

    monkeypatch.setattr(source, "_find", find)
    assert [each.order_id for each in source.find_orders(ADA).orders] == ["#1001"]


# --- cancel ---------------------------------------------------------------------------------------


def pending(name: str = "#1001") -> Order:
    return order(name, status="pending", delivered_at=None)


def test_shopify_takes_its_time_to_cancel(shop: PlayedShopify) -> None:
    shop.stock(pending())
    shop.cancels_after_looks = 2
    assert isinstance(shop.make().cancel_order(CancelRequest("k", "#1001")), Cancelled)


def test_a_cancel_that_takes_longer_is_asked_again_later(shop: PlayedShopify) -> None:
    shop.stock(pending())
    shop.cancels_after_looks = 3
    with pytest.raises(NotYet) as found:
        shop.make().cancel_order(CancelRequest("k", "#1001"))
    assert found.value.retry_after_seconds > 0
    assert isinstance(shop.make().cancel_order(CancelRequest("k", "#1001")), Cancelled)


def two_kettles_and_a_lamp(**changes: Any) -> Order:
    kettles = {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "20.00"}
    lamp = {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "9.99"}
    usual: dict[str, Any] = {"status": "pending", "delivered_at": None, "items": [kettles, lamp]}
    return order("#1001", **(usual | changes))


ONE_KETTLE = CancelRequest("remedy_17", "#1001", (("K1", 1),))


def test_items_are_taken_back_once_and_restocked(shop: PlayedShopify) -> None:
    shop.stock(two_kettles_and_a_lamp())
    source = shop.make()
    first = source.cancel_order(ONE_KETTLE)
    assert isinstance(first, Cancelled)
    assert [(x.item_id, x.quantity) for x in first.order.lines] == [("K1", 1), ("L1", 1)]
    assert first.order.status is OrderStatus.PENDING
    shop.forget_keys()  # a day later
    assert source.cancel_order(ONE_KETTLE) == first
    assert shop.in_stock == {("K1", "CANCEL"): 1}
    assert [each["note"] for each in shop.refunds] == ["Cancellation remedy_17 by mailagent"]
    assert (shop.keys_used, shop.moved()) == (["remedy_17"], [])


def test_of_variants_that_share_an_sku_the_right_one_is_taken_back(shop: PlayedShopify) -> None:
    gold = {"item_id": "T", "name": "Shirt - XL gold", "quantity": 1, "unit_price": "40.00"}
    plain = gold | {"name": "Shirt - S plain", "unit_price": "5.00"}
    shop.stock(two_kettles_and_a_lamp(items=[gold, plain, gold]))
    items = [each.item_id for each in load(shop).lines]
    assert (items[0], items[2]) == ("T", "T")
    assert re.fullmatch(r"T \(line \d+\)", items[1])
    done = shop.make().cancel_order(CancelRequest("remedy_17", "#1001", ((items[1], 1),)))
    assert isinstance(done, Cancelled)
    assert [each.name for each in done.order.lines] == ["Shirt - XL gold"] * 2
    shop.named("#1001")["lineItems"].all[0]["currentQuantity"] = 0
    shop.named("#1001")["lineItems"].all[1]["currentQuantity"] = 1
    assert [each.item_id for each in load(shop).lines] == [items[1], "T"]


@pytest.mark.parametrize("fault", [lost_before, lost_after])
def test_a_lost_answer_takes_no_more_back(shop: PlayedShopify, fault: Any) -> None:
    shop.stock(two_kettles_and_a_lamp())
    shop.refund_faults.append(fault)
    with pytest.raises(SourceProblem):
        shop.make().cancel_order(ONE_KETTLE)
    assert isinstance(shop.make().cancel_order(ONE_KETTLE), Cancelled)
    assert shop.in_stock == {("K1", "CANCEL"): 1}


def test_a_cancellation_that_is_under_way_is_looked_at_again(shop: PlayedShopify) -> None:
    shop.stock(two_kettles_and_a_lamp())
    shop.refund_faults.append(in_use)
    with pytest.raises(SourceProblem) as found:
        shop.make().cancel_order(ONE_KETTLE)
    assert found.value.retry_after_seconds > 0


def test_an_order_that_is_gone_after_its_items_were_taken_back_is_for_people(
    shop: PlayedShopify,
) -> None:
    shop.stock(two_kettles_and_a_lamp())
    shop.before = lambda _query: shop.orders.clear() if shop.refunds else None
    assert isinstance(shop.make().cancel_order(ONE_KETTLE), Unsure)
    assert shop.in_stock == {("K1", "CANCEL"): 1}


def test_what_is_not_kept_in_stock_is_cancelled_all_the_same(shop: PlayedShopify) -> None:
    shop.stock(two_kettles_and_a_lamp())
    shop.untracked.add("K1")
    assert isinstance(shop.make().cancel_order(ONE_KETTLE), Cancelled)
    assert [each.quantity for each in load(shop).lines] == [1, 1]
    assert not shop.in_stock


def test_items_of_an_order_that_was_cancelled_are_cancelled(shop: PlayedShopify) -> None:
    shop.stock(two_kettles_and_a_lamp(status="cancelled"))
    done = shop.make().cancel_order(ONE_KETTLE)
    assert isinstance(done, Cancelled)
    assert done.order.status is OrderStatus.CANCELLED
    assert not shop.refunds


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("FULFILLED", TooLate), ("IN_PROGRESS", TooLate), ("PARTIALLY_FULFILLED", NotSupported)],
)
def test_items_that_may_have_been_sent_are_not_cancelled(
    shop: PlayedShopify, status: str, outcome: type
) -> None:
    shop.stock(two_kettles_and_a_lamp())
    shop.named("#1001")["displayFulfillmentStatus"] = status
    assert isinstance(shop.make().cancel_order(ONE_KETTLE), outcome)
    assert not shop.refunds


def test_people_see_to_items_that_shopify_does_not_cancel(shop: PlayedShopify) -> None:
    shop.stock(two_kettles_and_a_lamp())
    more = CancelRequest("k", "#1001", (("L1", 1), ("K1", 3)))
    assert isinstance(shop.make().cancel_order(more), NotSupported)
    unknown = CancelRequest("k", "#1001", (("X9", 1),))
    assert isinstance(shop.make().cancel_order(unknown), NotSupported)
    shop.refusal = "Location is not active"
    assert shop.make().cancel_order(ONE_KETTLE) == NotSupported("Shopify: Location is not active")
    assert not shop.in_stock


def test_a_missing_scope_leaves_items_to_people(shop: PlayedShopify) -> None:
    shop.stock(two_kettles_and_a_lamp())
    shop.denies_locations = True
    done = shop.make().cancel_order(ONE_KETTLE)
    assert isinstance(done, NotSupported)
    assert "read_locations" in done.why


@pytest.mark.parametrize("status", ["PARTIALLY_FULFILLED", "IN_PROGRESS"])
def test_an_order_that_is_being_sent_is_too_late(shop: PlayedShopify, status: str) -> None:
    shop.stock(pending())
    shop.named("#1001")["displayFulfillmentStatus"] = status
    assert isinstance(shop.make().cancel_order(CancelRequest("k", "#1001")), TooLate)


# --- the API --------------------------------------------------------------------------------------


def test_the_rate_limit_is_that_of_its_points(shop: PlayedShopify) -> None:
    shop.faults.append(throttled(lambda: Answer(200)))
    with pytest.raises(SourceProblem) as found:
        shop.make().find_orders(ADA)
    assert (found.value.retry_after_seconds, found.value.operator) == (7, False)


@pytest.mark.parametrize(
    "answer",
    [
        error("ACCESS_DENIED", "Access denied for orders field.", path=["orders"]),
        Answer(402, {"errors": "Unavailable Shop"}),
        Answer(404, {"errors": "Not Found"}),
        Answer(423, {"errors": "Locked"}),
    ],
)
def test_what_an_operator_must_put_right(shop: PlayedShopify, answer: Answer) -> None:
    shop.faults.append(answer)
    with pytest.raises(SourceProblem) as found:
        shop.make().find_orders(ADA)
    assert found.value.operator


def test_hidden_addresses_are_not_taken_for_no_orders(shop: PlayedShopify) -> None:
    shop.stock(order("#1001"))
    found = {"id": "gid://shopify/Order/1", "name": "#1001", "email": None}
    page = {"nodes": [found], "pageInfo": {"hasNextPage": False, "endCursor": None}}
    shop.faults.append(Answer(200, {"data": {"orders": page}}))
    with pytest.raises(SourceProblem, match="protected customer data") as problem:
        shop.make().find_orders(ADA)
    assert problem.value.operator


def test_an_app_asks_for_its_token_and_again_when_it_was_revoked(shop: PlayedShopify) -> None:
    source = ShopifySource(ShopifyClient(shop.url, APP))
    shop.stock(order("#1001"))
    assert source.load_order("#1001")
    assert len(shop.tokens) == 2
    shop.tokens.clear()
    assert source.load_order("#1001")
    assert len(shop.tokens) == 1


@pytest.mark.parametrize("app", ["client-17:wrong", "wrong:secret-17"])
def test_an_app_with_a_wrong_secret_is_for_an_operator(shop: PlayedShopify, app: str) -> None:
    with pytest.raises(SourceProblem) as found:
        ShopifySource(ShopifyClient(shop.url, app)).find_orders(ADA)
    assert found.value.operator
    assert "secret" not in str(found.value)


def test_half_an_answer_hides_no_other_order(shop: PlayedShopify) -> None:
    shop.stock(order("#1001"), order("#1002"))
    broken: dict[str, Any] = shop.named("#1001")
    broken["processedAt"] = "yesterday"
    page = shop.make().find_orders(ADA)
    assert [each.order_id for each in page.orders] == ["#1002"]
    assert "#1001" in page.problems[0]


@pytest.mark.parametrize("code", ["INTERNAL_SERVER_ERROR", f"no such thing for {ADA}", None])
def test_an_errors_words_are_not_repeated(shop: PlayedShopify, code: str | None) -> None:
    extensions = {"code": code} if code else None
    words = {"message": f"Variable $query has {ADA}", "extensions": extensions}
    shop.faults.append(Answer(200, {"errors": [words]}))
    with pytest.raises(SourceProblem) as found:
        shop.make().find_orders(ADA)
    assert ADA not in str(found.value)
    assert (code == "INTERNAL_SERVER_ERROR") == ("INTERNAL_SERVER_ERROR" in str(found.value))


# --- another address ------------------------------------------------------------------------------


@pytest.fixture
def address(shop: PlayedShopify) -> dict[str, Any]:
    """Return the address of an order that was not sent."""
    shop.stock(order("#1001", status="pending", delivered_at=None))
    found: dict[str, Any] = shop.named("#1001")["shippingAddress"]
    return found


def updates(shop: PlayedShopify) -> int:
    return sum(b"orderUpdate" in request.body for request in shop.requests)


def test_an_address_is_changed_and_the_rest_of_it_kept(
    shop: PlayedShopify, address: dict[str, Any]
) -> None:
    address |= {"phone": "+4930123", "address2": "left door", "name": "Ada Lovelace"}
    wanted = replace(NEW_ADDRESS, name="ada lovelace", country="germany", extra="3rd  floor")
    assert shop.make().change_address("#1001", wanted) == AddressChanged()
    new = {"address1": "12 New Road", "address2": "3rd floor", "zip": "10117"}
    assert shop.named("#1001")["shippingAddress"] == address | new
    assert shop.make().change_address("#1001", wanted) == AddressChanged()
    assert updates(shop) == 1  # the second time it is so already


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"company": "Acme"}, {}),
        ({}, {"name": "Grace"}),
        ({}, {"country": "Austria"}),
        ({"province": "Ontario", "provinceCode": "ON"}, {}),
        ({"province": "Ontario", "provinceCode": "ON"}, {"province": "Quebec"}),
        ({}, {"province": "Bavaria"}),
    ],
    ids=["company", "name", "country", "no province", "other province", "new province"],
)
def test_what_is_left_to_guess_of_an_address_is_for_people(
    shop: PlayedShopify, address: dict[str, Any], changes: dict[str, str], wanted: dict[str, str]
) -> None:
    address |= changes
    outcome = shop.make().change_address("#1001", replace(NEW_ADDRESS, **wanted))
    assert isinstance(outcome, NotSupported)
    assert updates(shop) == 0


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"displayFulfillmentStatus": "FULFILLED"}, TooLate),
        ({"displayFulfillmentStatus": "PARTIALLY_FULFILLED"}, NotSupported),
        ({"displayFulfillmentStatus": "OPEN"}, NotSupported),
        ({"cancelledAt": "2026-11-02T09:00:00Z"}, TooLate),
        ({"taxesIncluded": False}, NotSupported),  # Shopify would compute them anew
        ({"shippingAddress": None}, NotSupported),
    ],
)
def test_an_address_is_changed_only_while_that_is_safe(
    shop: PlayedShopify, address: dict[str, Any], changes: dict[str, Any], outcome: type
) -> None:
    shop.named("#1001").update(changes)
    assert isinstance(shop.make().change_address("#1001", NEW_ADDRESS), outcome)
    assert updates(shop) == 0


@pytest.mark.parametrize(
    "lie",
    [
        {"shippingAddress": address_of("Ada")},
        {"shippingAddress": None},
        {"displayFulfillmentStatus": "FULFILLED"},
        {"currentTotalPriceSet": bag(1, "USD")},
    ],
    ids=["not changed", "gone", "sent meanwhile", "another price"],
)
def test_what_came_back_is_not_believed_unread(
    shop: PlayedShopify, address: dict[str, Any], lie: dict[str, Any]
) -> None:
    shop.after_update = lambda fields: fields.update(lie)
    assert isinstance(shop.make().change_address("#1001", NEW_ADDRESS), Unsure)


def test_an_address_that_shopify_refuses_is_for_people(
    shop: PlayedShopify, address: dict[str, Any]
) -> None:
    shop.refusal = "Zip is not valid"
    outcome = shop.make().change_address("#1001", NEW_ADDRESS)
    assert isinstance(outcome, NotSupported)
    assert "Zip is not valid" in outcome.why
    assert shop.named("#1001")["shippingAddress"] == address


DENIED = error("ACCESS_DENIED", "Access denied for orderUpdate field.", path=["orderUpdate"])
THROTTLED = throttled(lambda: Answer(200, None))


@pytest.mark.parametrize(
    ("fault", "not_done"), [(THROTTLED, True), (Answer(500, {"errors": "Oops"}), False)]
)
def test_a_change_that_was_certainly_not_made_is_told_from_a_lost_answer(
    shop: PlayedShopify, address: dict[str, Any], fault: Answer, not_done: bool
) -> None:
    shop.before = lambda query: shop.faults.append(fault) if "shippingAddress" in query else None
    with pytest.raises(SourceProblem) as found:
        shop.make().change_address("#1001", NEW_ADDRESS)
    assert (found.value.not_done, updates(shop)) == (not_done, 1)


def test_a_missing_right_to_change_an_address_is_for_people(
    shop: PlayedShopify, address: dict[str, Any]
) -> None:
    shop.before = lambda query: shop.faults.append(DENIED) if "shippingAddress" in query else None
    outcome = shop.make().change_address("#1001", NEW_ADDRESS)
    assert isinstance(outcome, NotSupported)
    assert "refused us: Shopify answered with an error (ACCESS_DENIED)" in outcome.why
    assert "allow write_orders" in outcome.why


def test_a_failed_look_after_a_change_does_not_undo_it(
    shop: PlayedShopify, address: dict[str, Any]
) -> None:
    shop.after_update = lambda _fields: shop.faults.append(THROTTLED)
    with pytest.raises(SourceProblem) as found:
        shop.make().change_address("#1001", NEW_ADDRESS)
    assert (found.value.not_done, updates(shop)) == (False, 1)
    shop.stock(order("#1002", status="pending", delivered_at=None))
    shop.before = lambda query: shop.faults.append(THROTTLED) if "orderCancel" in query else None
    with pytest.raises(SourceProblem) as found:
        shop.make().cancel_order(CancelRequest("k", "#1002"))
    assert not found.value.not_done


def test_what_was_never_sent_was_certainly_not_done(shop: PlayedShopify) -> None:
    with closing(socket.socket()) as refusing:
        refusing.bind(("127.0.0.1", 0))
        source = shop.make(f"http://127.0.0.1:{refusing.getsockname()[1]}")
        with pytest.raises(SourceProblem) as found:
            source.cancel_order(CancelRequest("k", "#1001"))
    assert found.value.not_done
