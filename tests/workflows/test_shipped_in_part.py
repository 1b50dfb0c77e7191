"""An order counts as pending while a carrier has a parcel of it: Shopify says so until all is shipped."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.mailers.fact import sentence
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.tools.cancel_order import cancel_order
from mailagent.workflows.tools.request_change import request_change
from tests.cast import YESTERDAY, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.proposals import write

pytestmark = ONE_DATABASE

KETTLE, MUGS = {"item_id": "K1", "quantity": 1}, {"item_id": "M1", "quantity": 2}
ITEMS = [
    {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "29.99"},
    {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "10.00"},
]
SHIPPED = "A part of order W1001 of 1 November 2026 has been shipped."
NOT_SHIPPED = "Order W1001 of 1 November 2026 has not been shipped yet."
ADDRESS = "12 New Road, Springfield 12345"


def stock(shop: Harness, *parcels: dict[str, Any]) -> Batch:
    shipments = [{"shipment_id": f"S{number}", **each} for number, each in enumerate(parcels)]
    shop.stock(
        order(
            status="pending",
            placed_at="2026-11-01T09:00:00Z",
            delivered_at=None,
            items=ITEMS,
            shipments=shipments,
        )
    )
    return write(shop, text=f"What about W1001? Or send it to {ADDRESS}")


def parcel(status: str, *items: dict[str, Any]) -> dict[str, Any]:
    delivered_at = YESTERDAY.isoformat() if status == "delivered" else None
    return {"status": status, "items": list(items), "delivered_at": delivered_at}


def cancel(batch: Batch, *items: dict[str, Any]) -> dict[str, Any]:
    return use(cancel_order, batch, {"order_id": "W1001", "items": list(items)})


def change_address(batch: Batch) -> dict[str, Any]:
    wish = {"order_id": "W1001", "kind": "change_address", "items": [], "reason": "other"}
    return use(request_change, batch, wish | {"wish": ADDRESS})


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("label_created", NOT_SHIPPED),
        ("in_transit", SHIPPED),
        ("delivered", SHIPPED),
        ("exception", SHIPPED),
        ("returned", SHIPPED),
    ],
)
def test_a_mail_says_what_the_carrier_has(shop: Harness, status: str, told: str) -> None:
    batch = stock(shop, parcel(status, KETTLE))
    with shop.live.database.transaction() as connection:
        fact = batch_reader(connection, batch).find("order/W1001")
    assert fact is not None
    assert sentence(fact).strip() == told


@pytest.mark.parametrize("items", [(), (KETTLE,), (KETTLE, MUGS)])
def test_what_a_carrier_has_is_not_cancelled(
    shop: Harness, items: tuple[dict[str, Any], ...]
) -> None:
    said = cancel(stock(shop, parcel("delivered", KETTLE)), *items)
    assert (said["error"], said["not_shipped"]) == ("shipped_in_part", {"M1": 2})
    assert not shop.refunds()


def test_the_rest_can_be_cancelled(shop: Harness) -> None:
    batch = stock(shop, parcel("in_transit", KETTLE | {"quantity": 1}, MUGS | {"quantity": 1}))
    assert cancel(batch, MUGS)["not_shipped"] == {"M1": 1}
    assert cancel(batch, MUGS | {"quantity": 1})["outcome"] == "task"
    assert [each.amount.minor for each in shop.refunds()] == [10_00]


def test_a_label_stops_no_cancellation(shop: Harness) -> None:
    assert cancel(stock(shop, parcel("label_created", KETTLE, MUGS)))["outcome"] == "task"


def test_where_nothing_is_left_it_is_too_late(shop: Harness) -> None:
    batch = stock(shop, parcel("in_transit", KETTLE, MUGS))
    assert cancel(batch)["reason"] == "too_late"
    assert change_address(batch)["reason"] == "too_late"
    assert not shop.rows("SELECT 1 FROM remedies")


def test_people_see_to_a_parcel_that_does_not_tell_its_items(shop: Harness) -> None:
    batch = stock(shop, parcel("in_transit"))
    said = cancel(batch)
    assert (said["error"], said["not_shipped"]) == ("shipped_in_part", {})
    assert "call hand_over" in said["say"]
    assert not shop.refunds()
    assert change_address(batch)["outcome"] == "task"


def test_people_change_the_address_of_the_rest(shop: Harness) -> None:
    assert change_address(stock(shop, parcel("delivered", KETTLE)))["outcome"] == "task"


def test_an_item_on_two_lines_is_counted_over_both(shop: Harness) -> None:
    line = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "29.99"}
    sent = {"shipment_id": "S1", "status": "in_transit", "items": [KETTLE]}
    shop.stock(order(status="pending", delivered_at=None, items=[line, line], shipments=[sent]))
    cancel(write(shop, text="Cancel W1001"))
    assert shop.refunds() == ()
    assert shop.rows("SELECT 1 FROM remedies") == []
