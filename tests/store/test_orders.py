"""Orders that were refunded: what refunds stand on stays, all else the shop may put right."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from mailagent.domain.refunds.order import Order, OrderProblem
from mailagent.store.database import Database
from mailagent.store.refunds import order_import, orders, refunds, reviews
from tests.cast import ADA, NOW, order
from tests.harness import Harness
from tests.workflows.proposals import propose, write

KETTLE = {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "30.00"}
TEAPOT = {"item_id": "T1", "name": "Teapot", "quantity": 1, "unit_price": "20.00"}


def bought(*items: dict[str, Any]) -> Order:
    paid = {"payment_id": "p", "method": "card", "amount": "80.00"}
    return order(items=list(items), payments=[paid])


@pytest.mark.parametrize(
    ("items", "taken"),
    [
        pytest.param([KETTLE | {"category": "kitchen"}, TEAPOT], True, id="a category"),
        pytest.param([KETTLE | {"name": "Electric kettle"}, TEAPOT], True, id="a name"),
        pytest.param([KETTLE, TEAPOT | {"final_sale": True}], True, id="a final sale"),
        pytest.param([KETTLE | {"item_id": "K2"}, TEAPOT], False, id="an item"),
        pytest.param([KETTLE | {"quantity": 3}, TEAPOT], False, id="a quantity"),
        pytest.param([KETTLE | {"unit_price": "29.99"}, TEAPOT], False, id="a price"),
        pytest.param([KETTLE | {"discount": "0.01"}, TEAPOT], False, id="a discount"),
        pytest.param([TEAPOT, KETTLE], False, id="the order of lines"),
        pytest.param([KETTLE], False, id="a line less"),
    ],
)
def test_once_refunded_only_what_no_refund_stands_on_may_change(
    shop: Harness, items: list[dict[str, Any]], taken: bool
) -> None:
    shop.stock(bought(KETTLE, TEAPOT))
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    if taken:
        shop.stock(bought(*items))
        return
    with pytest.raises(OrderProblem, match="items: cannot change"):
        shop.stock(bought(*items))


def test_an_order_of_many_lines_is_found_whole(shop: Harness) -> None:
    lines = [TEAPOT | {"item_id": f"T{number}", "unit_price": "0.50"} for number in range(30)]
    bought_much = bought(KETTLE, *lines)
    shop.stock(bought_much)
    propose(write(shop), "W1001", ("K1", 1))
    with shop.live.database.snapshot() as connection:
        assert orders.find(connection, "W1001") == bought_much
        [refund] = refunds.list_of_order(connection, "W1001")
        review = reviews.load(connection, refund)
    assert review.order == bought_much
    assert review.customer_text


def test_what_is_taken_and_shared_of_an_order_is_its_own(database: Database) -> None:
    mine = {"payment_id": "mine", "method": "card", "amount": "19.99", "refunded": "5.00"}
    both = {"payment_id": "both", "method": "gift_card", "amount": "30.00"}
    bought_by_both = order(payments=[mine, both])
    with database.transaction() as connection:
        order_import.save(connection, bought_by_both, NOW)
        assert orders.find(connection, "W1001") == bought_by_both
        assert orders.taken_minor(connection, "W1001") == 5_00
        assert orders.list_shared_payments(connection, bought_by_both) == ()
        for order_id in ("W1002", "W1003"):
            order_import.save(
                connection, order(order_id, payments=[{**both, "amount": "49.99"}]), NOW
            )
        assert orders.taken_minor(connection, "W1001") == 5_00
        assert orders.list_shared_payments(connection, bought_by_both) == ("both",)


def parcel(number: int, **changes: Any) -> dict[str, Any]:
    return {"shipment_id": f"S{number}", "status": "in_transit", "carrier": "DHL"} | changes


def test_parcels_are_kept_in_their_order_and_replaced(database: Database) -> None:
    packed = [{"item_id": "K1", "quantity": 1}]
    sent = order(shipments=[parcel(2, items=packed), parcel(1, tracking_number="JD1")])
    moved = order(shipments=[parcel(1, status="exception", last_event_at="2026-11-30T09:00:00Z")])
    with database.transaction() as connection:
        for each in (order(), sent, moved, order()):
            assert order_import.save(connection, each, NOW) is not order_import.Saved.UNCHANGED
            assert order_import.save(connection, each, NOW) is order_import.Saved.UNCHANGED
            assert orders.load(connection, "W1001") == each


def test_orders_without_parcels_cost_no_statement_and_others_one_for_all(
    database: Database,
) -> None:
    with database.transaction() as connection:
        for number in range(3):
            order_import.save(connection, order(f"W{number}"), NOW)
    bare = _statements_of_a_list(database)
    with database.transaction() as connection:
        for number in range(2):
            order_import.save(connection, order(f"W{number}", shipments=[parcel(1)]), NOW)
    assert _statements_of_a_list(database) == bare + 1


def _statements_of_a_list(database: Database) -> int:
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        asked.append(statement)

    with database.snapshot() as connection:
        sa.event.listen(database.engine, "before_cursor_execute", note)
        found, _ = orders.list_of_customer(connection, ADA, 10)
        sa.event.remove(database.engine, "before_cursor_execute", note)
    assert len(found) == 3
    return len(asked)
