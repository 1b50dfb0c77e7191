"""What tools tell the model: what it needs, as the contract has it, and no more."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Declined, DeclineReason, Named, Policy
from mailagent.domain.refunds.refund import (
    ItemsProblem,
    Refund,
    RefundLine,
    RefundReason,
    RefundStatus,
)
from mailagent.workflows.tools.find_my_orders import orders_output
from mailagent.workflows.tools.look_at_order import order_output
from mailagent.workflows.tools.propose_refund import (
    already_requested_output,
    bad_items_output,
    declined_output,
    proposed_output,
)
from mailagent.workflows.tools.tool import (
    bad_arguments_output,
    no_such_order_output,
    not_verified_output,
    unknown_tool_output,
)
from tests.cast import ADA, MONA, order

POLICY = Policy()


def usd(minor: int) -> Money:
    return Money(minor, "USD")


def bought() -> Order:
    return order(
        placed_at="2026-11-01T09:00:00Z",
        delivered_at="2026-11-04T15:00:00Z",
        items=[
            {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"},
            {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "9.99"},
            {"item_id": "M1", "name": "Mug", "quantity": 1, "unit_price": "8.99"},
        ],
        payments=[{"payment_id": "pay_secret", "method": "card", "amount": "78.96"}],
    )


def refund(status: RefundStatus, *lines: RefundLine) -> Refund:
    lines = lines or (RefundLine(1, 1, usd(4999)),)
    return Refund(
        refund_id="refund_secret",
        order_id="W1001",
        conversation_id="c1",
        mail_id="m1",
        amount=usd(sum(line.amount.minor for line in lines)),
        lines=lines,
        item_ids=("K1",),
        reason=RefundReason.DAMAGED,
        status=status,
        requested_at=datetime(2026, 11, 5, 8, tzinfo=UTC),
        decided_by=MONA,
        note="do not tell",
        gateway_reference="re_secret",
    )


def test_the_orders_are_listed_with_how_many_more_there_are() -> None:
    assert orders_output([bought()], total=3) == {
        "facts": ["my_orders", "order/W1001"],
        "orders": [
            {
                "order_id": "W1001",
                "placed_at": "2026-11-01",
                "status": "delivered",
                "paid": "78.96 USD",
                "items": ["Kettle", "Mug", "Mug"],
            }
        ],
        "more": 2,
    }


def test_an_order_is_shown_with_what_can_still_be_refunded() -> None:
    held = refund(RefundStatus.APPROVED, RefundLine(2, 1, usd(999)))
    gone = refund(RefundStatus.REJECTED)
    assert order_output(bought(), [held, gone], POLICY) == {
        "facts": ["order/W1001", "items/W1001", "return_period/W1001", "refund/W1001"],
        "order_id": "W1001",
        "status": "delivered",
        "placed_at": "2026-11-01",
        "delivered_at": "2026-11-04",
        "return_by": "2026-12-04",
        "items": [
            {
                "item_id": "K1",
                "name": "Kettle",
                "quantity": 1,
                "refundable": 1,
                "unit_price": "49.99 USD",
                "refundable_amount": "49.99 USD",
            },
            {
                "item_id": "M1",
                "name": "Mug",
                "quantity": 3,
                "refundable": 2,
                "unit_price": "9.99 USD, 8.99 USD",
                "refundable_amount": "18.98 USD",
                "refundable_amount_of_one": "9.99 USD",
            },
        ],
        "paid": "78.96 USD",
        "refunded_or_under_way": "9.99 USD",
        "refundable_in_all": "68.97 USD",
        "refunds": [
            {
                "items": ["Mug"],
                "amount": "9.99 USD",
                "status": "approved",
                "requested_at": "2026-11-05",
            },
            {
                "items": ["Kettle"],
                "amount": "49.99 USD",
                "status": "rejected",
                "requested_at": "2026-11-05",
            },
        ],
    }


def test_an_item_says_what_the_policy_has_for_it_alone() -> None:
    policy = Policy(
        return_window_days_by_category={"kitchen": 14}, final_sale=Named(item_ids=frozenset({"M1"}))
    )
    lines = [replace(line, category="Kitchen") for line in bought().lines[:1]]
    delivered = replace(bought(), lines=(*lines, *bought().lines[1:]))
    kettle, mug = order_output(delivered, [], policy)["items"]
    assert (kettle["return_by"], kettle.get("final_sale")) == ("2026-11-18", None)
    assert (mug.get("return_by"), mug["final_sale"]) == (None, True)


def test_an_order_that_is_not_delivered_has_no_return_date() -> None:
    shown = order_output(
        order(status="shipped", delivered_at=None, placed_at="2026-11-01T09:00:00Z"), [], POLICY
    )
    assert shown["delivered_at"] is None
    assert shown["return_by"] is None


def test_a_proposal_is_answered_with_what_code_decided() -> None:
    approved = proposed_output("approved", refund(RefundStatus.APPROVED), bought())
    waiting = proposed_output("needs_manager", refund(RefundStatus.AWAITING_APPROVAL), bought())
    assert {**approved, "say": ""} == {
        "outcome": "approved",
        "facts": ["refund/W1001"],
        "order_id": "W1001",
        "amount": "49.99 USD",
        "items": ["Kettle"],
        "say": "",
    }
    assert {**waiting, "say": ""} == {**approved, "outcome": "needs_manager", "say": ""}
    assert "Name the fact" in approved["say"]


@pytest.mark.parametrize("reason", list(DeclineReason))
def test_every_refusal_says_why_and_has_a_fact(reason: DeclineReason) -> None:
    ended_at = datetime(2026, 12, 4, tzinfo=UTC) if reason is DeclineReason.WINDOW_CLOSED else None
    told = declined_output(Declined(reason, ended_at), "W1001")
    assert told["outcome"] == "declined"
    assert told["reason"] == reason.value
    assert told["facts"][0] == "declined/W1001"
    assert "declined/W1001" in told["say"]
    assert ("2026-12-04" in told["say"]) is (reason is DeclineReason.WINDOW_CLOSED)


@pytest.mark.parametrize("status", list(RefundStatus))
def test_an_earlier_request_is_told_as_it_stands(status: RefundStatus) -> None:
    told = already_requested_output(refund(status), bought())
    assert told["outcome"] == "already_requested"
    assert told["status"] == status.value
    assert told["amount"] == "49.99 USD"
    assert told["facts"] == ["refund/W1001"]


def test_nothing_leaves_that_the_model_does_not_need() -> None:
    paid = refund(RefundStatus.PAID)
    told = json.dumps(
        [
            orders_output([bought()], 1),
            order_output(bought(), [paid], POLICY),
            proposed_output("approved", paid, bought()),
            proposed_output("needs_manager", paid, bought()),
            already_requested_output(paid, bought()),
            declined_output(Declined(DeclineReason.NOTHING_LEFT), "W1001"),
        ]
    )
    for secret in ("secret", "card", ADA, "Ada", MONA, "do not tell"):
        assert secret not in told


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (no_such_order_output("W1"), "no_such_order"),
        (not_verified_output(), "sender_not_verified"),
        (bad_items_output(ItemsProblem("item X is not on order W1")), "bad_arguments"),
        (bad_arguments_output("items: missing"), "bad_arguments"),
        (unknown_tool_output(["hand_over"]), "unknown_tool"),
    ],
)
def test_an_error_has_its_name_and_says_what_to_do(output: dict[str, object], error: str) -> None:
    assert output.keys() - {"facts"} == {"error", "say"}
    assert output["error"] == error


def test_an_order_whose_lines_have_changed_since_a_refund_can_still_be_shown() -> None:
    changed = replace(bought(), lines=bought().lines[1:])
    shown = order_output(changed, [refund(RefundStatus.PAID)], POLICY)
    assert shown["refunds"][0]["items"] == []


def test_parcels_are_shown_without_their_links() -> None:
    link, packed = "https://dhl.example/JD0141", [{"item_id": "K1", "quantity": 1}]
    sent = {"shipment_id": "S1", "status": "in_transit", "carrier": "DHL", "tracking_url": link}
    times = {"shipped_at": "2999-01-02T09:00:00Z", "last_event_at": "2999-01-03T10:30:00Z"}
    told = order_output(order(shipments=[sent | times | {"items": packed}]), (), POLICY)
    assert told["facts"] == [
        f"{kind}/W1001" for kind in ("order", "parcels", "items", "return_period", "refund")
    ]
    assert told["parcels"] == [
        {"status": "in_transit", "carrier": "DHL", "items": {"K1": 1}}
        | {"shipped_at": "2999-01-02", "last_event_at": "2999-01-03"}
    ]
    assert link not in json.dumps(told)
    bare = order_output(order(), (), POLICY)
    assert "parcels" not in bare
    assert "parcels/W1001" not in bare["facts"]
