"""A WooCommerce shop as an order source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mailagent.adapters.http import limited
from mailagent.adapters.woocommerce.client import WooCommerceClient
from mailagent.adapters.woocommerce.provider import WooCommercePayments
from mailagent.adapters.woocommerce.source import SEARCHED_PAGES, WooCommerceSource
from mailagent.demo.fakes.http_server import Answer
from mailagent.domain.money import Money
from mailagent.domain.orders.source import (
    Cancelled,
    CancelRequest,
    NotSupported,
    SourceProblem,
    TooLate,
)
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus
from mailagent.domain.refunds.refund import WantedItem, price_lines
from tests.adapters.order_sources.contract import DEADLINE_SECONDS, OrderSourceContract
from tests.cast import ADA, order
from tests.platforms.woocommerce_server import TOKEN, WooCommerceServer


class PlayedWooCommerce(WooCommerceServer):
    def make(self, url: str | None = None) -> WooCommerceSource:
        return WooCommerceSource(WooCommerceClient(url or self.url, TOKEN, DEADLINE_SECONDS))

    def be_slow(self, seconds: float) -> None:
        self.before = lambda _path: time.sleep(seconds)


@pytest.fixture
def shop() -> Iterator[PlayedWooCommerce]:
    server = PlayedWooCommerce()
    yield server
    server.stop()
    assert server.wrong_requests == []


class TestWooCommerce(OrderSourceContract):
    @pytest.fixture(autouse=True)
    def without_an_empty_list(self, request: pytest.FixtureRequest) -> None:
        if "[list]" in request.node.name:
            pytest.skip("an empty list says that the customer has no orders")


PARCEL = {
    "id": 1,
    "key": "_wc_shipment_tracking_items",
    "value": [{"tracking_number": "D17", "date_shipped": "1762000000", "tracking_id": "abc"}],
}


def load(shop: PlayedWooCommerce, number: str = "1001") -> Order:
    found = shop.make().load_order(number)
    assert found is not None
    return found


def test_the_orders_that_were_read_in_time_are_kept(shop: PlayedWooCommerce) -> None:
    for number in ("1001", "1002", "1003"):
        shop.stock(order(number))
        shop.refund_in_admin(number, "7.00")
    shop.before = lambda _path: time.sleep(3 if len(shop.requests) > 2 else 0)
    with limited(1.5):
        page = shop.make().find_orders(ADA)
    assert (len(page.orders), page.is_cut, len(shop.requests)) == (1, True, 3)


def test_an_order_has_all_that_a_refund_needs(shop: PlayedWooCommerce) -> None:
    sold = order("1001", status="shipped", delivered_at=None, shipping="4.90")
    shop.stock(sold)
    fields = shop.numbered("1001")
    (line,) = fields["line_items"]
    line.update(subtotal="46.00", subtotal_tax="3.99", total="41.40", total_tax="3.59")
    fields.update(total="49.89", shipping_total="4.50", shipping_tax="0.40")
    found = load(shop)
    (kettle,) = found.lines
    assert (kettle.item_id, kettle.unit_price.minor, kettle.net_minor) == ("K1", 4999, 4499)
    assert (found.shipping_minor, found.tax_minor, found.discount_minor) == (490, 0, 0)
    assert [each.payment_id for each in found.payments] == ["woocommerce:1001"]
    assert (found.paid.minor, found.status) == (4989, OrderStatus.SHIPPED)
    assert found.placed_at == sold.placed_at


def test_fees_are_shipping_or_discount_and_rounding_is_put_up_with(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001"))
    fields = shop.numbered("1001")
    fields["fee_lines"] = [
        {"total": "2.00", "total_tax": "0.40"},
        {"total": "-1.00", "total_tax": "0"},
    ]
    fields["total"] = "51.38"
    found = load(shop)
    assert (found.shipping_minor, found.discount_minor, found.tax_minor) == (240, 101, 0)
    fields["total"] = "61.38"
    with pytest.raises(OrderProblem, match="differ"):
        load(shop)


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("on-hold", OrderStatus.PENDING),
        ("completed", OrderStatus.SHIPPED),
        ("cancelled", OrderStatus.CANCELLED),
        ("awaiting-pickup", OrderStatus.PENDING),
    ],
)
def test_a_status_is_in_our_words(shop: PlayedWooCommerce, told: str, status: OrderStatus) -> None:
    shop.stock(order("1001", status="pending", delivered_at=None))
    shop.numbered("1001")["status"] = told
    assert load(shop).status is status


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, OrderStatus.CANCELLED),
        ({"date_completed_gmt": "2026-11-20T09:00:00"}, OrderStatus.SHIPPED),
        ({"meta_data": [PARCEL]}, OrderStatus.SHIPPED),
    ],
    ids=["unsent", "completed", "with a parcel"],
)
def test_an_order_that_was_refunded_in_full_was_sent_or_never_will_be(
    shop: PlayedWooCommerce, changes: dict[str, Any], status: OrderStatus
) -> None:
    shop.stock(order("1001", status="pending", delivered_at=None))
    fields = shop.numbered("1001")
    fields |= changes
    shop.refund_in_admin("1001", "49.98")
    assert load(shop).status is OrderStatus.PENDING
    shop.refund_in_admin("1001", "0.01")
    assert fields["status"] == "refunded"
    assert load(shop).status is status


def test_a_cancelled_order_that_was_refunded_since_is_still_cancelled(
    shop: PlayedWooCommerce,
) -> None:
    shop.stock(order("1001", status="pending", delivered_at=None))
    source, request = shop.make(), CancelRequest("k", "1001")
    assert isinstance(source.cancel_order(request), Cancelled)
    shop.refund_in_admin("1001", "49.99")
    assert isinstance(source.cancel_order(request), Cancelled)


@pytest.mark.parametrize("number", ["1001", "A-17"])
@pytest.mark.parametrize("status", ["trash", "auto-draft", "draft", "checkout-draft"])
def test_what_was_deleted_or_not_placed_is_no_order(
    shop: PlayedWooCommerce, number: str, status: str
) -> None:
    shop.stock(order(number))
    shop.numbered(number)["status"] = status
    source = shop.make()
    assert source.load_order(number) is None
    assert source.find_orders(ADA).orders == ()


def test_an_order_that_was_not_paid_has_no_payment(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", payments=[], status="pending", delivered_at=None))
    shop.numbered("1001")["status"] = "pending"
    assert load(shop).payments == ()


@pytest.mark.parametrize(
    ("status", "paid_at", "is_paid"),
    [
        ("processing", None, False),
        ("processing", "2026-11-05T10:00:00", True),
        ("completed", "2026-11-05T10:00:00", True),
    ],
)
def test_cash_on_delivery_is_not_paid_at_the_checkout(
    shop: PlayedWooCommerce, status: str, paid_at: str | None, is_paid: bool
) -> None:
    shop.stock(order("1001", status="pending", delivered_at=None))
    fields = shop.numbered("1001")
    fields.update(status=status, payment_method="cod", date_paid_gmt=paid_at)
    assert bool(load(shop).payments) is is_paid


@pytest.mark.parametrize(
    ("method", "of_a_plugin"),
    [
        *[(each, False) for each in ("bacs", "cheque", "cod", "other", "", None)],
        ("stripe", True),
    ],
)
def test_a_payment_that_the_shop_took_itself_is_no_plugins_to_refund(
    shop: PlayedWooCommerce, method: str | None, of_a_plugin: bool
) -> None:
    shop.stock(order("1001"))
    shop.numbered("1001")["payment_method"] = method
    (paid,) = load(shop).payments
    assert paid.payment_id == shop.payment_id("1001")
    assert WooCommercePayments().has_payment(paid.payment_id) is of_a_plugin


def test_what_was_given_back_stands_at_the_payment(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001"))
    shop.refund_in_admin("1001", "7.00")
    shop.refund_in_admin("1001", "3.00", "Refund r_17 by mailagent")
    assert [each.refunded_minor for each in load(shop).payments] == [1000]


def take_back(shop: PlayedWooCommerce, line: int, amount: str) -> None:
    """Refund one unit of a line in the shop's admin, and take it back."""
    item = shop.numbered("1001")["line_items"][line]
    made = shop.refund_in_admin("1001", amount)
    gone: dict[str, Any] = {"key": "_refunded_item_id", "value": str(item["id"])}
    made["line_items"] = [{"id": 1, "quantity": -1, "meta_data": [gone]}]


def test_units_that_the_shop_took_back_are_gone(shop: PlayedWooCommerce) -> None:
    items = [
        {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "20.00"},
        {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "9.99"},
    ]
    shop.stock(order("1001", items=items))
    take_back(shop, 1, "9.99")
    assert [(each.item_id, each.quantity) for each in load(shop).lines] == [("K1", 2)]


def test_what_a_negative_fee_took_off_is_shared_by_all_units(shop: PlayedWooCommerce) -> None:
    items = [
        {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "50.00"},
        {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "25.00"},
    ]
    shop.stock(order("1001", items=items))
    fields = shop.numbered("1001")
    fields.update(fee_lines=[{"total": "-20.00", "total_tax": "0"}], total="80.00")
    assert load(shop).discount_minor == 20_00

    def worth(item_id: str) -> int:
        return sum(each.amount.minor for each in price_lines(load(shop), [WantedItem(item_id)], ()))

    for line, amount, mugs in ((0, "40.00", 40_00), (1, "20.00", 20_00)):
        take_back(shop, line, amount)
        assert worth("M1") == mugs


SHIRTS = [
    {"item_id": "SHIRT", "name": "Shirt - XL gold", "quantity": 1, "unit_price": "40.00"},
    {"item_id": "SHIRT", "name": "Shirt - S plain", "quantity": 2, "unit_price": "5.00"},
    {"item_id": "SHIRT", "name": "Shirt - XL gold", "quantity": 3, "unit_price": "40.00"},
]


def test_variations_that_share_an_sku_are_items_of_their_own(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", items=SHIRTS))
    found = [(each.item_id, each.quantity) for each in load(shop).lines]
    assert found == [("SHIRT", 1), ("SHIRT (line 10012)", 2), ("SHIRT", 3)]


def test_an_item_keeps_its_id_when_another_one_was_taken_back(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", items=SHIRTS[:2]))
    take_back(shop, 0, "40.00")
    assert [each.item_id for each in load(shop).lines] == ["SHIRT (line 10012)"]


def test_without_an_sku_a_variation_is_itself_and_not_its_product(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", items=SHIRTS))
    for number, line in enumerate(shop.numbered("1001")["line_items"]):
        line.update(sku="", variation_id=(21, 22, 0)[number])
    assert [each.item_id for each in load(shop).lines] == ["21", "22", "17"]


def test_parcels_are_those_of_the_extension(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", status="shipped", delivered_at=None))
    item = {
        "tracking_provider": "dhl-de",
        "custom_tracking_provider": "",
        "custom_tracking_link": "https://dhl.example/D17",
        "tracking_number": "D17",
        "date_shipped": "1762000000",
        "tracking_id": "abc",
    }
    meta = [{"id": 1, "key": "_wc_shipment_tracking_items", "value": [item]}]
    shop.numbered("1001")["meta_data"] = meta
    (parcel,) = load(shop).shipments
    assert (parcel.carrier, parcel.tracking_number) == ("dhl-de", "D17")
    assert parcel.tracking_url == "https://dhl.example/D17"
    assert parcel.shipped_at is not None
    assert parcel.last_event_at is None


def test_parcels_that_share_a_number_are_told_apart(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", status="shipped", delivered_at=None))
    first, other = {"tracking_number": "D17"}, {"tracking_number": "D17", "date_shipped": "1762"}
    parcels = {"id": 1, "key": "_wc_shipment_tracking_items", "value": [first, first, other]}
    shop.numbered("1001")["meta_data"] = [parcels]
    found = load(shop).shipments
    first_id, other_id = (each.shipment_id for each in found)
    assert other_id == f"{first_id} (2)"
    assert "D17" not in first_id  # it stays when tracking numbers are erased
    assert {each.tracking_number for each in found} == {"D17"}


def test_an_extension_may_give_numbers_of_its_own(shop: PlayedWooCommerce) -> None:
    shop.stock(order("A-17"), order("1001"))
    assert load(shop, "A-17").order_id == "A-17"
    assert shop.make().load_order(str(shop.numbered("A-17")["id"])) is None


@pytest.mark.parametrize("placed_at", ["2026-10-01T09:00:00Z", "2026-11-10T09:00:00Z"])
def test_an_order_is_found_among_many_whose_numbers_contain_its_own(
    shop: PlayedWooCommerce, placed_at: str
) -> None:
    others = [order(f"A-12{n:02}", placed_at="2026-11-05T09:00:00Z") for n in range(90)]
    shop.stock(*others, order("A-12", placed_at=placed_at))
    assert load(shop, "A-12").order_id == "A-12"


def test_the_search_for_a_number_that_no_order_has_ends(shop: PlayedWooCommerce) -> None:
    shop.stock(*(order(f"A-12{n:03}") for n in range(200)))
    assert shop.make().load_order("A-12") is None
    assert len(shop.requests) == SEARCHED_PAGES


def test_a_similar_address_is_another_customer(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", customer={"email": f"x{ADA}"}))
    assert shop.make().find_orders(ADA).orders == ()


def test_amounts_have_the_decimals_of_their_currency(shop: PlayedWooCommerce) -> None:
    items = [{"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "4990"}]
    yen = [{"payment_id": "p", "method": "card", "amount": "4990"}]
    shop.stock(order("1001", currency="JPY", items=items, payments=yen))
    shop.numbered("1001")["total"] = "4990.00"
    assert load(shop).paid == Money(4990, "JPY")


def test_a_wrong_record_hides_no_other_order(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001"), order("1002"))
    shop.numbered("1001")["currency"] = "XYZ"
    page = shop.make().find_orders(ADA)
    assert [each.order_id for each in page.orders] == ["1002"]
    assert "1001" in page.problems[0]


PARCELS_OF_ONE_ID = [
    {"tracking_number": number, "tracking_id": tracking_id}
    for number, tracking_id in (("D17", "abc"), ("D18", "abc"), ("D19", "abc (2)"))
]
LIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "total": lambda x: x.update(total="-49.99"),
    "units": lambda x: x["line_items"][0].update(quantity=-1),
    "no units": lambda x: x["line_items"][0].update(quantity=0),
    "shipping": lambda x: x.update(shipping_total="-10.00", total="39.99"),
    "refunded": lambda x: x.update(refunds=[{"id": 1, "reason": "", "total": "10.00"}]),
    "ids of parcels": lambda x: x.update(meta_data=[PARCEL | {"value": PARCELS_OF_ONE_ID}]),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_cannot_be_true_hides_no_other_order(shop: PlayedWooCommerce, lie: str) -> None:
    shop.stock(order("1001"), order("1002"))
    LIES[lie](shop.numbered("1001"))
    page = shop.make().find_orders(ADA)
    assert [each.order_id for each in page.orders] == ["1002"]
    assert "1001" in page.problems[0]
    with pytest.raises(OrderProblem, match="1001") as told:
        shop.make().load_order("1001")
    assert told.value.customer_email == ADA


@pytest.mark.parametrize(
    ("status", "kind"),
    [("completed", TooLate), ("failed", NotSupported), ("pre-ordered", NotSupported)],
)
def test_an_order_is_cancelled_only_if_nothing_was_sent(
    shop: PlayedWooCommerce, status: str, kind: type
) -> None:
    shop.stock(order("1001", status="pending", delivered_at=None))
    shop.numbered("1001")["status"] = status
    assert isinstance(shop.make().cancel_order(CancelRequest("k", "1001")), kind)
    assert shop.numbered("1001")["status"] == status


def test_an_order_with_a_parcel_is_left_to_people(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", status="pending", delivered_at=None))
    fields = shop.numbered("1001")
    fields["meta_data"] = [PARCEL]
    assert load(shop).status is OrderStatus.PENDING
    assert isinstance(shop.make().cancel_order(CancelRequest("k", "1001")), NotSupported)
    assert fields["status"] == "processing"


def test_an_order_may_be_cancelled_if_its_refunds_cannot_be_read(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", status="pending", delivered_at=None))
    shop.refund_in_admin("1001", "1.00")
    shop.before = lambda path: shop.faults.extend([Answer(429)] * path.endswith("/refunds"))
    with pytest.raises(SourceProblem) as found:
        shop.make().cancel_order(CancelRequest("k", "1001"))
    assert not found.value.not_done
    assert shop.numbered("1001")["status"] == "cancelled"


def test_a_cancelled_order_keeps_its_payment(shop: PlayedWooCommerce) -> None:
    shop.stock(order("1001", status="pending", delivered_at=None))
    done = shop.make().cancel_order(CancelRequest("k", "1001"))
    assert isinstance(done, Cancelled)
    assert done.order.paid == order("1001").paid
    some = CancelRequest("k", "1001", (("K1", 1),))
    assert isinstance(shop.make().cancel_order(some), NotSupported)
