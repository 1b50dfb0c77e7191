"""Stories of refunds that hang on something else: goods that come back, a cancellation, a late parcel."""

from __future__ import annotations

from typing import Any

from tests.cast import ADA, KETTLE_WISH, order
from tests.programs.crash_sweep.refund_stories import PAID
from tests.programs.crash_sweep.shop import ORDERS_TOKEN, SweptShop
from tests.programs.crash_sweep.story import WEBHOOKS, Story, steps


def _sent_back(shop: SweptShop) -> None:
    """The warehouse says that the kettle is back, twice."""
    shop.write(KETTLE_WISH)
    shop.wait_for_mails(ADA, 2)
    (refund,) = shop.rows("SELECT refund_id FROM refunds")
    for _ in range(2):
        shop.wait(lambda: shop.say_received(refund.refund_id), "the return to be taken")


def _cancelled_by_the_system(shop: SweptShop) -> None:
    shop.write("Please cancel my order W1008.")
    shop.wait_for_mails(ADA, 3)
    assert shop.order_server is not None
    keys = shop.order_server.cancelled_under
    assert len(keys) == 1, f"the order was cancelled under {keys}"


def _late_parcel(shop: SweptShop) -> None:
    lost = {"shipment_id": "S1", "status": "in_transit", "last_event_at": "2026-01-02T00:00:00Z"}
    shop.sell(order(status="shipped", delivered_at=None, shipments=[lost]))
    shop.write("The kettle of order W1001 never arrived. I want my money back.")
    shop.wait_for_mails(ADA, 2)


def _sell_two_kettles(shop: SweptShop, **changes: Any) -> None:
    """Sell another unit, which would be taken the second time."""
    kettles = {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "49.99"}
    paid = {"payment_id": "p", "method": "card", "amount": "99.98"}
    shop.sell(order(items=[kettles], payments=[paid], **changes))


def _items_cancelled_by_shopify(shop: SweptShop) -> None:
    _sell_two_kettles(shop, status="pending", delivered_at=None)
    shop.write("Please cancel 1 kettle of order W1001.")
    shop.wait_for_mails(ADA, 3)
    _expect_units(shop, "CANCEL")


def _restocked_by_shopify(shop: SweptShop) -> None:
    _sell_two_kettles(shop)
    shop.write("1 kettle of order W1001 arrived broken. I want my money back.")
    shop.wait_for_mails(ADA, 2)
    (refund,) = shop.rows("SELECT refund_id FROM refunds")
    shop.wait(lambda: shop.say_received(refund.refund_id), "the return to be taken")
    shop.wait_for_mails(ADA, 3)
    _expect_units(shop, "RETURN")


def _expect_units(shop: SweptShop, kind: str) -> None:
    assert shop.shopify is not None
    assert shop.shopify.in_stock == {("K1", kind): 1}, f"in stock: {shop.shopify.in_stock}"


STORIES = (
    Story(
        "return first", _sent_back, {ADA: 3}, PAID | steps("look_at_delivery"),
        WEBHOOKS | {"POST /api/returns/<path:return_id>/received"}, refunds=("paid",),
        policy='return_first = { reasons = ["damaged"], instructions = "Send it to 1 Shop Street." }',
        settings={"ORDERS_API_TOKEN": ORDERS_TOKEN},
    ),
    Story(
        "cancelled by the shop's system", _cancelled_by_the_system, {ADA: 3},
        PAID - steps("propose_refund") | steps("cancel_order look_up_orders look_at_delivery"),
        refunds=("paid",), order_server=True,
    ),
    Story(
        "late parcel refund", _late_parcel, {ADA: 2}, PAID, refunds=("paid",),
        policy="late_parcels = { refund_after_days = 14 }",
    ),
    Story(
        "items cancelled by Shopify", _items_cancelled_by_shopify, {ADA: 3},
        PAID - steps("propose_refund") | steps("cancel_order look_up_orders look_at_delivery"),
        refunds=("paid",), shopify=True,
    ),
    Story(
        "restocked by Shopify", _restocked_by_shopify, {ADA: 3},
        PAID | steps("look_up_orders look_at_delivery"),
        WEBHOOKS | {"POST /api/returns/<path:return_id>/received"}, refunds=("paid",), shopify=True,
        policy='return_first = { reasons = ["damaged"], restock_reasons = ["damaged"],'
        ' instructions = "Send it to 1 Shop Street." }',
        settings={"ORDERS_API_TOKEN": ORDERS_TOKEN},
    ),
)  # fmt: skip
