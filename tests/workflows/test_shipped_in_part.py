"""An order counts as pending while a carrier has a parcel of it: Shopify says so until all is shipped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mailagent import services
from mailagent.domain.orders.source import Cancelled, NotSupported
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import KeepOffers, Policy
from mailagent.mailers.fact import sentence
from mailagent.remedies import finish
from mailagent.store.refunds import remedies, stops
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.delivery.send import send_mail
from mailagent.workflows.tools.accept_offer import accept_offer
from mailagent.workflows.tools.cancel_order import cancel_order
from mailagent.workflows.tools.request_change import request_change
from tests.cast import TESS, YESTERDAY, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.camera import click, later_batch, reject
from tests.workflows.cancelling import keep_version, stored, with_source
from tests.workflows.paying import look, pay, tell
from tests.workflows.proposals import propose, write

pytestmark = ONE_DATABASE

KETTLE, MUGS = {"item_id": "K1", "quantity": 1}, {"item_id": "M1", "quantity": 2}
ITEMS = [
    {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "29.99"},
    {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "10.00"},
]
SHIPPED = "A part of order W1001 of 1 November 2026 has been shipped."
NOT_SHIPPED = "Order W1001 of 1 November 2026 has not been shipped yet."
ADDRESS = "12 New Road, Springfield 12345"


def an_order(*parcels: dict[str, Any]) -> Order:
    shipments = [{"shipment_id": f"S{number}", **each} for number, each in enumerate(parcels)]
    return order(
        status="pending",
        placed_at="2026-11-01T09:00:00Z",
        delivered_at=None,
        items=ITEMS,
        shipments=shipments,
    )


def stock(shop: Harness, *parcels: dict[str, Any]) -> Batch:
    shop.stock(an_order(*parcels))
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
    said = cancel(write(shop, text="Cancel W1001"))
    assert (said["error"], said["not_shipped"]) == ("shipped_in_part", {"K1": 1})
    assert shop.refunds() == ()
    assert shop.rows("SELECT 1 FROM remedies") == []


# --- what was sent is refunded, and the rest is cancelled ------------------------------------------


@pytest.fixture
def rest(shop: Harness) -> Batch:
    """The kettle was sent and refunded; the mugs are still in the shop."""
    batch = stock(shop, parcel("in_transit", KETTLE))
    assert propose(batch, "W1001")["outcome"] == "needs_manager"
    click(shop, "approve")
    assert pay(shop.refunds()[0].refund_id)["status"] == "paid"
    return later_batch(shop, batch)


def asked(shop: Harness) -> list[dict[str, int]]:
    """The units of each cancellation; none for the whole order."""
    with shop.live.database.snapshot() as connection:
        return [dict(each.units) for each in remedies.list_of_order(connection, "W1001")]


def cancel_by_hand(shop: Harness) -> None:
    (row,) = shop.rows("SELECT remedy_id FROM remedies WHERE kind = 'cancel'")
    with shop.live.database.transaction() as connection:
        assert finish(connection, row.remedy_id, TESS, True, None)


def test_of_an_order_that_was_sent_in_part_the_rest_is_cancelled_and_paid(
    shop: Harness, rest: Batch
) -> None:
    assert cancel(rest)["items"] == ["Mug"]
    assert asked(shop) == [{"M1": 2}]
    cancel_by_hand(shop)
    assert pay(shop.refunds()[1].refund_id)["status"] == "paid"
    assert shop.refunds()[1].amount.minor == 20_00
    (mail,) = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'remedy'")
    assert "These items of order W1001 are cancelled:\n- 2 × Mug" in mail.text


@pytest.mark.parametrize("is_listed", [True, False])
def test_the_shops_system_is_asked_for_the_rest_alone(
    shop: Harness, rest: Batch, is_listed: bool
) -> None:
    """Shopify lists no units that came back, but their parcel."""
    found = stored(shop, "W1001")
    assert found is not None
    mugs_alone = tuple(line for line in found.lines if line.item_id == "M1")
    keep_version(shop, found if is_listed else replace(found, lines=mugs_alone))
    source = with_source(shop, NotSupported("a part of the order was sent"))
    cancel(rest)
    refund_id = shop.refunds()[1].refund_id
    pay(refund_id)
    assert source.asked[0].items == (("M1", 2),)
    cancel_by_hand(shop)
    assert pay(refund_id)["status"] == "paid"


def test_units_that_were_sent_although_cancelled_are_not_paid_back(
    shop: Harness, rest: Batch
) -> None:
    with_source(shop, NotSupported("a part of the order was sent"))
    cancel(rest)
    refund_id = shop.refunds()[1].refund_id
    pay(refund_id)
    cancel_by_hand(shop)
    sent = [parcel("in_transit", KETTLE), parcel("in_transit", MUGS | {"quantity": 1})]
    shop.stock(an_order(*sent))
    assert pay(refund_id)["status"] == "failed"
    assert shop.refunds()[1].failure == stops.UNITS_BACK


@pytest.mark.parametrize(
    ("status", "parcels"),
    [
        ("shipped", []),
        ("shipped", [parcel("in_transit")]),
        ("pending", [parcel("in_transit")]),
        ("shipped", [parcel("in_transit", KETTLE, MUGS | {"quantity": 1})]),
    ],
    ids=["no parcel", "a parcel", "a parcel of a part", "a parcel with the rest"],
)
def test_units_that_a_person_took_out_are_paid_back_although_the_rest_is_sent(
    shop: Harness, status: str, parcels: list[dict[str, Any]]
) -> None:
    """The shop's system cannot cancel single items, so it still lists them."""
    batch = stock(shop)
    keep_version(shop, an_order())
    source = with_source(shop, NotSupported("it cancels whole orders only"))
    cancel(batch, MUGS | {"quantity": 1})
    refund_id = shop.refunds()[0].refund_id
    pay(refund_id)
    cancel_by_hand(shop)
    sent = replace(an_order(*parcels), status=OrderStatus(status))
    source.orders = lambda _order_id: sent
    assert pay(refund_id)["status"] == "paid"


def test_who_cancels_the_rest_twice_has_asked_once(shop: Harness, rest: Batch) -> None:
    cancel(rest)
    assert cancel(later_batch(shop, rest))["outcome"] == "task"
    assert asked(shop) == [{"M1": 2}]


@pytest.mark.parametrize("items", [(), (MUGS,), (MUGS | {"quantity": None},)])
@pytest.mark.parametrize("is_done", [True, False])
def test_a_unit_that_was_sent_is_not_cancelled_beside_one_that_is(
    shop: Harness, items: tuple[dict[str, Any], ...], is_done: bool
) -> None:
    """One mug was sent, the other one is cancelled; then the customer wants more cancelled."""
    batch = stock(shop, parcel("in_transit", MUGS | {"quantity": 1}))
    cancel(batch, MUGS | {"quantity": 1})
    if is_done:
        cancel_by_hand(shop)
    batch = later_batch(shop, batch)
    said = cancel(batch, *items)
    rest = {"K1": 1} if is_done else {"K1": 1, "M1": 1}  # a cancellation under way is in it
    assert (said["error"], said["not_shipped"]) == ("shipped_in_part", rest)
    assert asked(shop) == [{"M1": 1}]
    cancel(batch, *({"item_id": item_id, "quantity": many} for item_id, many in rest.items()))
    assert asked(shop) == [{"M1": 1}, {"K1": 1}]


def test_a_unit_that_the_record_has_lost_is_not_missing_twice(shop: Harness) -> None:
    """The shop's system has cancelled one mug, and no refund of it was approved."""
    batch = stock(shop)
    keep_version(shop, an_order())
    kettle, mugs = an_order().lines
    less = replace(an_order(), lines=(kettle, replace(mugs, quantity=1)))
    with_source(shop, Cancelled(less))
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    cancel(batch, MUGS | {"quantity": 1})
    look(shop.refunds()[0].refund_id)
    reject(shop)
    shop.stock(replace(less, shipments=an_order(parcel("in_transit", KETTLE)).shipments))
    assert cancel(later_batch(shop, batch), MUGS | {"quantity": 1})["outcome"] == "asked"
    assert asked(shop) == [{"M1": 1}, {"M1": 1}]


def test_what_the_customer_keeps_is_not_cancelled(shop: Harness) -> None:
    services.bind(replace(shop.live, policy=Policy(keep_offers=KeepOffers({}))))
    batch = stock(shop)
    assert propose(batch, "W1001")["outcome"] == "needs_manager"
    click(shop, "offer", offer_percent="30")
    (mail,) = tell(shop.refunds()[0].refund_id)
    assert send_mail(mail) == "sent"
    batch = later_batch(shop, batch)
    assert use(accept_offer, batch, {"order_id": "W1001"})["outcome"] == "accepted"
    assert cancel(later_batch(shop, batch))["outcome"] == "task"
    assert asked(shop) == [{"M1": 2}]


def test_what_was_refunded_but_not_sent_is_cancelled_with_the_rest(shop: Harness) -> None:
    batch = stock(shop)
    assert propose(batch, "W1001")["outcome"] == "needs_manager"
    click(shop, "approve")
    assert cancel(later_batch(shop, batch))["outcome"] == "task"
    assert asked(shop) == [{}]
