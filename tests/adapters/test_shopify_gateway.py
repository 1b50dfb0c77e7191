"""Refunds of payments that Shopify took, against Shopify's schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mailagent.adapters.shopify.client import ShopifyClient
from mailagent.adapters.shopify.gateway import ShopifyGateway
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import (
    ListingProblem,
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    Pending,
    Refunded,
    RefundRequest,
    RefundState,
    Refused,
)
from tests.cast import order
from tests.platforms import shopify_server
from tests.platforms.shopify_server import TOKEN, ShopifyServer


@pytest.fixture
def store() -> Iterator[ShopifyServer]:
    server = ShopifyServer()
    server.stock(order("#1001"), order("#1002"))
    yield server
    server.stop()


@pytest.fixture
def gateway(store: ShopifyServer) -> ShopifyGateway:
    return ShopifyGateway(ShopifyClient(store.url, TOKEN, deadline_seconds=5))


@pytest.fixture
def asked(store: ShopifyServer) -> RefundRequest:
    (payment_id,) = store.payment_ids("#1001")
    return RefundRequest("r_17", "r_17", "#1001", payment_id, Money(4000, "USD"))


def until_final(gateway: ShopifyGateway, request: RefundRequest) -> PaymentOutcome:
    outcome = gateway.refund(request)
    for _ in range(5):
        if isinstance(outcome, Refunded | Refused | Pending):
            break
        outcome = gateway.refund(request)
    return outcome


def test_shopify_is_told_all_of_a_refund(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    outcome = gateway.refund(asked)
    (moved,) = store.moved()
    assert outcome == Refunded(f"shopify:{moved['id'].rpartition('/')[2]}")
    assert store.keys_used == ["r_17"]
    assert [each["note"] for each in store.refunds] == ["Refund r_17 by mailagent"]
    assert gateway.refund(asked) == gateway.look_up(asked) == outcome
    assert len(store.moved()) == 1


def test_a_refund_is_listed_with_what_we_know_of_it(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    gateway.refund(asked)
    store.refund_in_admin("#1001", 100)
    ours, other = gateway.list_refunds(asked.payment_id)
    assert (ours.idempotency_key, ours.order_id, ours.amount) == ("r_17", "#1001", asked.amount)
    assert (ours.state, ours.payment_ids) == (RefundState.SETTLED, (asked.payment_id,))
    assert (other.idempotency_key, other.order_id, other.amount.minor) == (None, None, 100)
    assert list(gateway.list_refunds(*store.payment_ids("#1002"))) == []


FAULTS: dict[str, tuple[Any, type]] = {
    "lost before": (shopify_server.lost_before, OutcomeUnknown),
    "lost after": (shopify_server.lost_after, OutcomeUnknown),
    "made, but 500": (shopify_server.made_but_500, OutcomeUnknown),
    "made, but an error": (shopify_server.made_but_error, OutcomeUnknown),
    "throttled": (shopify_server.throttled, NotDone),
    "in use": (shopify_server.in_use, OutcomeUnknown),
    "denied": (shopify_server.denied, NotDone),
    "key refused": (shopify_server.no_key, NotDone),
    "redirected": (shopify_server.moved_away, OutcomeUnknown),
}


@pytest.mark.parametrize("days", ["the same day", "days later"])
@pytest.mark.parametrize("name", FAULTS)
def test_whatever_goes_wrong_the_money_moves_once(
    name: str, days: str, store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    fault, first = FAULTS[name]
    store.refund_faults.append(fault)
    assert isinstance(gateway.refund(asked), first)
    if days == "days later":
        store.forget_keys()
    assert isinstance(until_final(gateway, asked), Refunded)
    assert len(store.moved()) == 1


def test_points_say_how_long_to_wait(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    store.refund_faults.append(shopify_server.throttled)
    outcome = gateway.refund(asked)
    assert isinstance(outcome, NotDone)
    assert (outcome.retry_after_seconds, outcome.for_people, outcome.operator) == (7, False, False)


@pytest.mark.parametrize("fault", [shopify_server.no_key, shopify_server.denied])
def test_a_refused_key_is_for_an_operator(
    fault: Any, store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    store.refund_faults.append(fault)
    outcome = gateway.refund(asked)
    assert isinstance(outcome, NotDone)
    assert outcome.operator


def test_a_look_up_that_fails_is_not_taken_for_nothing_there(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    gateway.refund(asked)
    store.faults.append(shopify_server.error("INTERNAL_SERVER_ERROR", "down"))
    assert isinstance(gateway.look_up(asked), OutcomeUnknown)
    store.faults.append(shopify_server.error("INTERNAL_SERVER_ERROR", "down"))
    with pytest.raises(ListingProblem, match="INTERNAL_SERVER_ERROR"):
        gateway.list_refunds(asked.payment_id)


def test_what_was_refunded_in_the_admin_is_no_longer_there(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    store.refund_in_admin("#1001", 1000)
    outcome = gateway.refund(asked)
    assert isinstance(outcome, Refused)
    assert "39.99 USD" in outcome.why
    assert store.keys_used == []


def test_another_currency_is_for_people(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    outcome = gateway.refund(replace(asked, amount=Money(4000, "EUR")))
    assert isinstance(outcome, NotDone)
    assert outcome.for_people
    assert store.keys_used == []


@pytest.mark.parametrize("payment_id", ["shopify:999999", "shopify:"])
def test_a_payment_that_shopify_does_not_know_is_for_people(
    payment_id: str, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    outcome = gateway.refund(replace(asked, payment_id=payment_id))
    assert isinstance(outcome, NotDone)
    assert outcome.for_people


def test_what_shopify_refuses_waits_for_people_and_is_paid_once_afterwards(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    store.refusal = "The payment gateway is not available"
    for _ in range(2):
        outcome = gateway.refund(asked)
        assert isinstance(outcome, NotDone)
        assert outcome.for_people
        assert "not available" in outcome.why
    store.refusal = None
    assert isinstance(gateway.refund(asked), Refunded)
    assert len(store.moved()) == 1


def test_a_refund_may_take_its_time(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    store.statuses.append("PENDING")
    assert isinstance(gateway.refund(asked), Pending)
    (listed,) = gateway.list_refunds(asked.payment_id)
    assert listed.state is RefundState.PENDING
    store.settle("SUCCESS")
    assert isinstance(gateway.look_up(asked), Refunded)


def test_a_refund_that_fails_is_for_people_and_the_next_one_pays_once(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    store.statuses += ["PENDING", "FAILURE"]
    gateway.refund(asked)
    store.settle("FAILURE")
    first = gateway.look_up(asked)
    assert isinstance(first, NotDone)
    assert first.for_people
    second = gateway.refund(asked)
    assert isinstance(second, NotDone)
    assert {first.failed, second.failed} == {
        each.reference for each in gateway.list_refunds(asked.payment_id)
    }
    third = gateway.refund(asked)
    assert isinstance(third, Refunded)
    assert gateway.refund(asked) == gateway.look_up(asked) == third
    assert store.keys_used == ["r_17", "r_17:2", "r_17:3"]
    assert len(store.moved()) == 1


def test_a_refund_of_another_amount_under_our_note_is_for_people(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    store.refund_in_admin("#1001", 17, "Refund r_17 by mailagent")
    outcome = gateway.refund(asked)
    assert isinstance(outcome, OutcomeUnknown)
    assert outcome.for_people


@pytest.mark.parametrize("lost", ["no transaction", "another payment's"])
def test_a_refund_of_ours_without_money_is_never_made_again(
    lost: str, store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    made = store.refund_in_admin("#1001", 4000, "Refund r_17 by mailagent")
    transactions = made["transactions"].all.copy()
    if lost == "no transaction":
        made["transactions"].all.clear()
    else:
        made["transactions"].all[:] = [{**transactions[0], "parentTransaction": None}]
    store.forget_keys()
    for outcome in (gateway.look_up(asked), gateway.refund(asked)):
        assert isinstance(outcome, OutcomeUnknown)
        assert outcome.answered
        assert made["id"] in outcome.why
    assert store.keys_used == []
    made["transactions"].all[:] = transactions
    assert isinstance(gateway.refund(asked), Refunded)


def test_an_order_with_more_refunds_than_we_read_is_for_people(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    for _ in range(40):
        store.refund_in_admin("#1001", 1)
    outcome = gateway.refund(asked)
    assert isinstance(outcome, NotDone)
    assert outcome.for_people
    assert store.keys_used == []


# --- restocking -----------------------------------------------------------------------------------


def test_nothing_is_restocked_unless_it_is_asked_for(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    assert isinstance(gateway.refund(asked), Refunded)
    assert not store.in_stock


@pytest.mark.parametrize("fault", [None, shopify_server.lost_before, shopify_server.lost_after])
def test_units_that_came_back_are_restocked_once(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest, fault: Any
) -> None:
    store.refund_faults = [fault] if fault else []
    back = replace(asked, restocks=(("K1", 1),))
    assert isinstance(until_final(gateway, back), Refunded)
    assert isinstance(gateway.refund(back), Refunded)
    assert store.in_stock == {("K1", "RETURN"): 1}
    assert len(store.moved()) == 1


def test_a_second_refund_after_one_that_failed_restocks_nothing_more(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    line = store.named("#1001")["lineItems"].all[0]
    line["quantity"] = line["currentQuantity"] = 2
    store.statuses.append("FAILURE")
    back = replace(asked, restocks=(("K1", 1),))
    assert isinstance(gateway.refund(back), NotDone)
    assert isinstance(gateway.refund(back), Refunded)
    assert store.in_stock == {("K1", "RETURN"): 1}


def test_units_that_others_have_taken_back_are_not_restocked_again(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    store.named("#1001")["lineItems"].all[0]["currentQuantity"] = 0
    assert isinstance(gateway.refund(replace(asked, restocks=(("K1", 1),))), Refunded)
    assert not store.in_stock


def test_without_the_scope_people_hear_what_to_do_and_the_refund_is_paid_afterwards(
    store: ShopifyServer, gateway: ShopifyGateway, asked: RefundRequest
) -> None:
    back = replace(asked, restocks=(("K1", 1),))
    store.denies_locations = True
    outcome = gateway.refund(back)
    assert isinstance(outcome, NotDone)
    assert (outcome.for_people, outcome.operator) == (True, False)
    assert "read_locations" in outcome.why
    assert isinstance(gateway.refund(asked), Refunded)  # the policy restocks no more
    assert len(store.moved()) == 1
