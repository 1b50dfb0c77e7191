"""Customers leave out the prefix of an order number, or space it; no mail denies the order then."""

from __future__ import annotations

import pytest

from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.tools.look_at_order import look_at_order
from mailagent.workflows.tools.propose_refund import propose_refund
from tests.cast import GRACE, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.proposals import write

pytestmark = ONE_DATABASE


def denies(shop: Harness, batch: Batch, number: str) -> bool:
    with shop.live.database.transaction() as connection:
        return batch_reader(connection, batch).find(f"no_order/{number}") is not None


@pytest.mark.parametrize(
    ("owned", "wrote", "named"),
    [
        ("SO-10023", "My order SO-10023 broke", "10023"),
        ("SO-10023", "My order 10023 broke", "10023"),
        ("W1001", "Order W 1001 broke", "1001"),
        ("#1001-B", "Order #1001-B broke", "1001"),
        ("2026/1001", "Order 2026/1001 broke", "1001"),
        ("SO-000123", "Order 123 broke", "123"),
        ("SO-10023", "Order so 10023 broke", "SO 10023"),
    ],
)
def test_a_part_of_their_own_number_is_not_denied(
    shop: Harness, owned: str, wrote: str, named: str
) -> None:
    shop.stock(order(owned))
    batch = write(shop, text=wrote)
    assert not denies(shop, batch, named)
    looked = use(look_at_order, batch, {"order_id": named})
    assert (looked["error"], looked["order_ids"]) == ("not_the_whole_number", [owned])
    items = [{"item_id": "K1", "quantity": None}]
    wish = {"order_id": named, "items": items, "reason": "damaged"}
    assert use(propose_refund, batch, wish) == looked
    assert not shop.refunds()


@pytest.mark.parametrize("named", ["1002", "100234", "555123", "X10023Y"])
def test_another_number_is_denied(shop: Harness, named: str) -> None:
    shop.stock(order("SO-10023"))
    batch = write(shop, text=f"My order {named} broke")
    assert denies(shop, batch, named)
    assert use(look_at_order, batch, {"order_id": named})["error"] == "no_such_order"


def test_only_their_own_numbers_are_told(shop: Harness) -> None:
    shop.stock(order("SO-10023"), order("PO-10023", customer={"email": GRACE, "name": "Grace"}))
    batch = write(shop, text="My order 10023 broke")
    assert use(look_at_order, batch, {"order_id": "10023"})["order_ids"] == ["SO-10023"]
    other = write(shop, "eve@example.com", text="My order 10023 broke")
    assert use(look_at_order, other, {"order_id": "10023"})["error"] == "no_such_order"
    unproven = write(shop, GRACE, text="My order 10023 broke", aligned=False)
    assert use(look_at_order, unproven, {"order_id": "10023"})["error"] == "sender_not_verified"
