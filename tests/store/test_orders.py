"""Orders that were refunded: what refunds stand on stays, all else the shop may put right."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.domain.order import Order, OrderProblem
from mailagent.store import cases, order_rows, orders, refunds
from tests.cast import order
from tests.stage import Stage
from tests.workflows.test_policy_facts import propose, write

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
    shop: Stage, items: list[dict[str, Any]], taken: bool
) -> None:
    shop.stock(bought(KETTLE, TEAPOT))
    assert propose(write(shop), "W1001", quantity=1)["outcome"] == "approved"
    if taken:
        shop.stock(bought(*items))
        return
    with pytest.raises(OrderProblem, match="items: cannot change"):
        shop.stock(bought(*items))


def test_what_there_is_one_of_is_not_said_again_for_each_line_of_an_order(
    shop: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [TEAPOT | {"item_id": f"T{number}", "unit_price": "0.50"} for number in range(30)]
    bought_much = bought(KETTLE, *lines)
    shop.stock(bought_much)
    propose(write(shop), "W1001", quantity=1)
    said: list[str] = []

    def count(rows: Any) -> Order:
        told = [row for row in rows if row.customer_email is not None]
        said.append(f"{len(told)} of {len(rows)}")
        return taken(rows)

    taken = order_rows.from_joined
    monkeypatch.setattr(order_rows, "from_joined", count)
    with shop.live.database.snapshot() as connection:
        assert orders.find(connection, "W1001") == bought_much
        [refund] = refunds.list_of_order(connection, "W1001")
        case = cases.load_among(connection, refund.refund_id)
    assert case.order == bought_much
    assert case.customer_text
    assert said == ["1 of 33", "1 of 33"]  # itself, 31 lines, a payment
