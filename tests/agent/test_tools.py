"""The tools: strict schemas for the model, and its arguments checked as if they were hostile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from mailagent.domain.refunds.refund import RefundReason
from mailagent.workflows.tools import registry
from mailagent.workflows.tools.find_my_orders import FindMyOrders
from mailagent.workflows.tools.hand_over import SUMMARY_MAX_LENGTH, HandOver
from mailagent.workflows.tools.look_at_order import LookAtOrder
from mailagent.workflows.tools.offer_goodwill import OfferGoodwill
from mailagent.workflows.tools.propose_refund import ITEMS_MAX, QUANTITY_MAX, Item, ProposeRefund
from mailagent.workflows.tools.tool import (
    ARGUMENTS_MAX_LENGTH,
    ID_MAX_LENGTH,
    Arguments,
    Misfit,
    Tool,
    schema_of,
)
from mailagent.workflows.tools.withdraw_refund import WithdrawRefund
from tests.tool_calls import ALL_SCHEMAS, SCHEMAS, WITH_GOODWILL, WITHOUT_GOODWILL, parse

NAMES = [tool.name for tool in registry.offered(WITH_GOODWILL)]


def objects_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if schema.get("type") == "object":
        yield schema
    for child in (*schema.get("properties", {}).values(), schema.get("items")):
        if child:
            yield from objects_in(child)


@pytest.mark.parametrize("tool", ALL_SCHEMAS, ids=NAMES)
def test_every_schema_is_strict_at_every_level(tool: dict[str, Any]) -> None:
    assert tool["strict"] is True
    for each in objects_in(tool["parameters"]):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])


class Track(Arguments):
    order_id: str = Field(description="Which order.")
    parcel: int | None


def test_the_schema_of_a_new_tool_follows_from_its_arguments() -> None:
    schema = schema_of(Tool("track", Track, "Say where a parcel is.", run=None))
    assert (schema["name"], schema["strict"]) == ("track", True)
    assert schema["parameters"] == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "Which order."},
            "parcel": {"type": ["integer", "null"]},
        },
        "required": ["order_id", "parcel"],
        "additionalProperties": False,
    }


def test_no_tool_lets_the_model_name_a_customer_an_amount_or_a_recipient() -> None:
    assert NAMES == [
        "find_my_orders",
        "look_at_order",
        "propose_refund",
        "request_change",
        "cancel_order",
        "withdraw_refund",
        "hand_over",
        "offer_goodwill",
        "accept_offer",
    ]
    fields = {
        field
        for tool in ALL_SCHEMAS
        for each in objects_in(tool["parameters"])
        for field in each["properties"]
    }
    # A percentage is held against the policy's cap; an amount would be the model's word. A wish is the
    # customer's own words.
    names = "order_id items item_id quantity reason summary percent kind wish"
    assert fields == set(names.split())


def test_discounts_are_a_tool_only_where_the_policy_gives_them() -> None:
    assert "offer_goodwill" not in {tool["name"] for tool in SCHEMAS}
    misfit = parse("offer_goodwill", '{"order_id": "W1001", "percent": 5}', WITHOUT_GOODWILL)
    assert isinstance(misfit, Misfit)
    assert misfit.output["error"] == "unknown_tool"
    assert "offer_goodwill" not in str(misfit.output)


@pytest.mark.parametrize(
    ("percent", "fits"),
    [
        ("1", True),
        ("100", True),
        ("0", False),
        ("101", False),
        ("-5", False),
        ("5.0", False),
        ('"5"', False),
        ("true", False),
        ("null", False),
    ],
)
def test_a_percentage_is_a_whole_number_up_to_a_hundred(percent: str, fits: bool) -> None:
    call = parse("offer_goodwill", f'{{"order_id": "W1001", "percent": {percent}}}')
    assert isinstance(call, OfferGoodwill) is fits


def test_the_reasons_of_the_schema_are_those_of_the_domain() -> None:
    (propose,) = (tool for tool in SCHEMAS if tool["name"] == "propose_refund")
    reasons = propose["parameters"]["properties"]["reason"]["enum"]
    assert reasons == [reason.value for reason in RefundReason]


@pytest.mark.parametrize(
    ("name", "arguments", "call"),
    [
        ("find_my_orders", "{}", FindMyOrders()),
        ("find_my_orders", "", FindMyOrders()),  # what some local servers send
        ("look_at_order", '{"order_id": " W1001 "}', LookAtOrder(order_id="W1001")),
        (
            "propose_refund",
            '{"order_id": "W1001", "items": [{"item_id": "K1", "quantity": null},'
            ' {"item_id": "M1", "quantity": 2}], "reason": "damaged"}',
            ProposeRefund(
                order_id="W1001",
                items=[Item(item_id="K1", quantity=None), Item(item_id="M1", quantity=2)],
                reason=RefundReason.DAMAGED,
            ),
        ),
        ("withdraw_refund", '{"order_id": "W1001"}', WithdrawRefund(order_id="W1001")),
        (
            "hand_over",
            '{"reason": "customer_asked", "summary": "Wants a person.\\nIs angry."}',
            HandOver(reason="customer_asked", summary="Wants a person.\nIs angry."),
        ),
        (
            "hand_over",
            '{"reason": "cannot_help", "summary": "Wants a new address."}',
            HandOver(reason="cannot_help", summary="Wants a new address."),
        ),
    ],
)
def test_a_call_that_fits_the_schema_is_parsed(name: str, arguments: str, call: object) -> None:
    assert parse(name, arguments) == call


def proposal(**changes: Any) -> str:
    arguments: dict[str, Any] = {
        "order_id": "W1001",
        "items": [{"item_id": "K1", "quantity": 1}],
        "reason": "damaged",
    }
    return json.dumps(arguments | changes)


def item(**changes: Any) -> str:
    return proposal(items=[{"item_id": "K1", "quantity": 1} | changes])


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (proposal(amount="1000.00"), "'amount' is not known"),
        (proposal(customer="mallory@evil.example"), "'customer' is not known"),
        (item(price=1), "items[0]: 'price' is not known"),
        ('{"order_id": "W1001", "reason": "damaged"}', "'items' is missing"),
        (proposal(order_id=1001), "order_id"),
        (proposal(order_id=""), "order_id"),
        (proposal(order_id="  "), "order_id"),
        (proposal(order_id="W\u00001"), "order_id"),
        (proposal(order_id="W\ud800"), "not valid JSON"),
        (proposal(order_id=["W1001"]), "order_id"),
        (proposal(reason="because"), "reason"),
        (proposal(reason=None), "reason"),
        (proposal(reason=["damaged"]), "reason"),
        (proposal(items=[]), "items"),
        (proposal(items=None), "items"),
        (proposal(items={"item_id": "K1"}), "items"),
        (proposal(items=["K1"]), "items[0]"),
        (item(item_id=1), "items[0].item_id"),
        (item(quantity=0), "items[0].quantity"),
        (item(quantity=-1), "items[0].quantity"),
        (item(quantity=1.0), "items[0].quantity"),
        (item(quantity="1"), "items[0].quantity"),
        (item(quantity=True), "items[0].quantity"),
        ("[]", "an object is needed"),
        ("null", "an object is needed"),
        ('"W1001"', "an object is needed"),
        ("{", "not valid JSON"),
        ("order W1001", "not valid JSON"),
        ('{"order_id": NaN}', "order_id"),
        ('{"order_id": "W1", "order_id": "W2"}', "stands twice"),
        ("[" * 20_000, "not valid JSON"),
        ("9" * 10_000, "not valid JSON"),
        (" " * (ARGUMENTS_MAX_LENGTH + 1), "over"),
    ],
)
def test_arguments_that_do_not_fit_get_an_answer_that_names_the_place(
    arguments: str, place: str
) -> None:
    call = parse("propose_refund", arguments)
    assert isinstance(call, Misfit)
    assert call.output["error"] == "bad_arguments"
    assert place in call.output["say"]
    assert len(call.output["say"]) < 300


@pytest.mark.parametrize(
    ("make", "longest"),
    [
        (lambda n: proposal(order_id="W" * n), ID_MAX_LENGTH),
        (lambda n: item(item_id="K" * n), ID_MAX_LENGTH),
        (lambda n: item(quantity=n), QUANTITY_MAX),
        (lambda n: proposal(items=[{"item_id": "K1", "quantity": 1}] * n), ITEMS_MAX),
    ],
)
def test_lengths_are_bounded_on_both_sides(make: Any, longest: int) -> None:
    for fits in (1, longest):
        assert isinstance(parse("propose_refund", make(fits)), ProposeRefund)
    for misfits in (0, longest + 1):
        assert isinstance(parse("propose_refund", make(misfits)), Misfit)


@pytest.mark.parametrize(
    ("length", "fits"), [(SUMMARY_MAX_LENGTH, True), (SUMMARY_MAX_LENGTH + 1, False)]
)
def test_a_summary_is_bounded(length: int, fits: bool) -> None:
    arguments = json.dumps({"reason": "cannot_help", "summary": "x" * length})
    assert isinstance(parse("hand_over", arguments), HandOver) is fits


@pytest.mark.parametrize(
    "name", ["", "issue_refund", "find_my_orders ", "FIND_MY_ORDERS", "x" * 9999]
)
def test_an_unknown_tool_gets_an_inert_answer(name: str) -> None:
    call = parse(name, "{}")
    assert isinstance(call, Misfit)
    assert call.output["error"] == "unknown_tool"
    assert len(call.output["say"]) < 300


@given(st.sampled_from([*NAMES, "other"]), st.text() | st.from_type(dict).map(repr))
def test_any_arguments_get_an_answer(name: str, arguments: str) -> None:
    json.dumps(getattr(parse(name, arguments), "output", None))
