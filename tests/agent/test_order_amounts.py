"""What the model is told that would go back is what code would give, and may then be said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mailagent.agent.reply.check import find_untrue
from mailagent.agent.reply.facts import Given, gather_facts
from mailagent.agent.reply.order_amounts import list_amounts
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import Refund, RefundLine, RefundReason, RefundStatus
from mailagent.workflows.tools.look_at_order import order_output
from tests.cast import NOW, SUPPORT, order

POLICY = Policy()


def bought(**changes: Any) -> Order:
    """Three mugs with 3.00 off and a kettle, 7.00 off all, 5.00 for carriage: 65.00 in all."""
    mugs = {"item_id": "M", "name": "Mug", "quantity": 3, "unit_price": "8.00", "discount": "3.00"}
    kettle = {"item_id": "K", "name": "Kettle", "quantity": 1, "unit_price": "49.00"}
    record: dict[str, Any] = {
        "items": [mugs, kettle],
        "payments": [{"payment_id": "p", "method": "card", "amount": "68.00"}],
        "discount": "7.00",
        "shipping": "5.00",
    }
    return order(**(record | changes))


def refunded(line_no: int, units: int, minor: int) -> Refund:
    amount = Money(minor, "USD")
    return Refund(
        "r",
        "W1001",
        "c",
        "m",
        amount,
        (RefundLine(line_no, units, amount),),
        (),
        RefundReason.DAMAGED,
        RefundStatus.PAID,
        NOW,
    )


def told(
    order: Order, *refunds: Refund, policy: Policy = POLICY, elsewhere: int = 0
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    output = order_output(order, refunds, policy, elsewhere)
    return output, {item["item_id"]: item for item in output["items"]}


def test_an_order_is_told_with_its_discount_carriage_and_what_would_go_back() -> None:
    output, items = told(bought())
    assert (output["discount"], output["shipping"]) == ("7.00 USD", "5.00 USD")
    assert "tax" not in output
    assert output["refundable_in_all"] == "68.00 USD"
    assert items["M"]["discount"] == "3.00 USD"
    assert items["M"]["refundable_amount"] == "18.90 USD"
    assert items["M"]["refundable_amount_of_one"] == "6.30 USD"
    assert items["K"]["refundable_amount"] == "44.10 USD"
    assert "refundable_amount_of_one" not in items["K"]


def test_of_what_was_refunded_nothing_is_told_to_go_back() -> None:
    output, items = told(bought(), refunded(2, 1, 44_10))
    assert "refundable_amount" not in items["K"]
    assert output["refundable_in_all"] == "23.90 USD"


@pytest.mark.parametrize(
    ("policy", "elsewhere", "in_all"),
    [
        pytest.param(Policy(refund_shipping=False), 0, "63.00 USD", id="carriage is kept"),
        pytest.param(POLICY, 20_00, "48.00 USD", id="some was given back elsewhere"),
        pytest.param(POLICY, 68_00, "0.00 USD", id="all was given back elsewhere"),
        pytest.param(POLICY, 90_00, "0.00 USD", id="more than all"),
    ],
)
def test_no_more_is_told_than_the_policy_and_the_payments_have_left(
    policy: Policy, elsewhere: int, in_all: str
) -> None:
    output, _ = told(bought(), policy=policy, elsewhere=elsewhere)
    assert output["refundable_in_all"] == in_all
    assert output["refunded_or_under_way"] == f"{elsewhere / 100:.2f} USD"


def test_what_the_bank_takes_back_is_not_left() -> None:
    order = bought()
    gone = replace(order, payments=(replace(order.payments[0], charged_back_at=NOW),))
    assert told(gone)[0]["refundable_in_all"] == "0.00 USD"


@pytest.mark.parametrize("elsewhere", [0, 20_00])
def test_every_amount_that_is_told_may_be_said(elsewhere: int) -> None:
    refunds = [refunded(1, 1, 6_30)]
    output, items = told(bought(), *refunds, elsewhere=elsewhere)
    given = Given(elsewhere={"W1001": elsewhere})
    facts = gather_facts([bought()], refunds, POLICY, [], SUPPORT, "https://x.example", given)
    texts = [output["discount"], output["shipping"], output["refundable_in_all"]]
    texts += [output["refunded_or_under_way"], items["M"]["refundable_amount"]]
    texts += [items["M"]["refundable_amount_of_one"], items["K"]["refundable_amount"]]
    for text in texts:
        assert find_untrue(f"For order W1001 the figure is {text}.", facts) == ()
    assert find_untrue("For order W1001 the figure is 44.11 USD.", facts)


def test_a_long_order_is_told_as_a_whole() -> None:
    items = [
        {"item_id": f"i{number}", "name": "Tile", "quantity": 9, "unit_price": f"{number}.00"}
        for number in range(1, 102)
    ]
    assert len(set(list_amounts(bought(items=items), [], POLICY, 0))) < 10
