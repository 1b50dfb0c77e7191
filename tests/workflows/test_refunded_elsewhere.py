"""What the shop's own record says was given back: it counts beside our refunds, and takes no unit's worth."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.store.refunds import external_refunds, order_import
from mailagent.workflows.tools.look_at_order import look_at_order
from tests.cast import order
from tests.harness import Harness
from tests.workflows.paying import pay
from tests.workflows.proposals import propose, write

KETTLE = {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "30.00"}


def kettles(refunded: str) -> Any:
    """Two kettles for 30.00 each, of whose payment so much was given back in the shop's own system."""
    paid = {"payment_id": "p", "method": "card", "amount": "60.00", "refunded": refunded}
    return order(items=[KETTLE], payments=[paid])


def test_a_unit_keeps_its_worth_until_the_payment_has_no_more(shop: Harness) -> None:
    shop.stock(kettles("30.00"))
    batch = write(shop)
    told = look_at_order(batch, {"order_id": "W1001"})
    assert (told["refunded_or_under_way"], told["refundable_in_all"]) == ("30.00 USD", "30.00 USD")
    told = propose(batch, "W1001", quantity=1)
    assert (told["outcome"], told["amount"]) == ("approved", "30.00 USD")
    again = propose(write(shop, subject="The other one"), "W1001", quantity=1)
    assert again["reason"] == "more_than_is_left_of_the_payment"


@pytest.mark.parametrize(
    ("in_the_file", "left_of_it"), [("30.00", 0), ("29.99", 0), ("45.00", 15_00)]
)
def test_what_the_file_says_of_ours_is_taken_off_where_the_operator_says_so(
    shop: Harness, in_the_file: str, left_of_it: int
) -> None:
    shop.stock(kettles("0.00"))
    propose(write(shop), "W1001", quantity=1)
    pay(shop.refunds()[0].refund_id)
    with shop.live.database.transaction() as connection:
        (payment,) = order_import.without_known_refunds(connection, kettles(in_the_file)).payments
    assert payment.refunded_minor == left_of_it


@pytest.mark.parametrize("in_the_file", ["30.00", "0.00", "45.00"])
def test_a_file_older_than_our_refund_takes_nothing_back_that_others_gave(
    shop: Harness, in_the_file: str
) -> None:
    shop.stock(kettles("30.00"))
    propose(write(shop), "W1001", quantity=1)
    pay(shop.refunds()[0].refund_id)
    with shop.live.database.transaction() as connection:
        told = order_import.without_known_refunds(connection, kettles(in_the_file))
        order_import.save(connection, told, shop.live.now())
        assert external_refunds.given_back_minor(connection, "W1001") == 30_00
    again = propose(write(shop, subject="The other one"), "W1001", quantity=1)
    assert again["outcome"] == "declined"
