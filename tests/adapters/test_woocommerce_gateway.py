"""Refunds that WooCommerce asks of its payment plugins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from mailagent.adapters.platforms.calls import REFUND_SECONDS
from mailagent.adapters.woocommerce.client import WooCommerceClient
from mailagent.adapters.woocommerce.gateway import WooCommerceGateway
from mailagent.demo.fakes.http_server import Answer, LineCut
from mailagent.domain.money import Money
from mailagent.domain.refunds.payment import (
    CALL_IS_UNDER_WAY_FOR,
    ListingProblem,
    NotDone,
    OutcomeUnknown,
    Refunded,
    RefundRequest,
    RefundState,
    Refused,
)
from tests.cast import order
from tests.platforms import woocommerce_server
from tests.platforms.woocommerce_server import TOKEN, WooCommerceServer, error


@pytest.fixture
def shop() -> Iterator[WooCommerceServer]:
    server = WooCommerceServer()
    server.stock(order("1001"), order("1002"))
    yield server
    server.stop()
    assert server.wrong_requests == []


@pytest.fixture
def gateway(shop: WooCommerceServer) -> WooCommerceGateway:
    return WooCommerceGateway(WooCommerceClient(shop.url, TOKEN, deadline_seconds=5))


ASKED = RefundRequest("r_17", "r_17", "1001", "woocommerce:1001", Money(4000, "USD"))


AGAIN = replace(ASKED, may_be_made=True)


def test_the_plugin_is_asked_once_and_nothing_is_restocked(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    outcome = gateway.refund(ASKED)
    (made,) = shop.moved()
    assert outcome == Refunded(f"woocommerce:{made['id']}")
    assert (made["amount"], made["reason"]) == ("40.00", "Refund r_17 by mailagent")
    assert gateway.refund(ASKED) == gateway.look_up(ASKED) == outcome
    (posted,) = [json.loads(each.body) for each in shop.requests if each.method == "POST"]
    assert (posted["api_refund"], posted["api_restock"]) == (True, False)
    assert len(shop.moved()) == 1


def test_the_longest_call_ends_before_it_counts_as_lost(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    assert isinstance(gateway.refund(replace(ASKED, restocks=(("K1", 1),))), Refunded)
    assert len(shop.requests) * REFUND_SECONDS < CALL_IS_UNDER_WAY_FOR.total_seconds()


def made_and_forgotten(create: woocommerce_server.Create) -> Answer:
    """The plugin paid, and WordPress deleted the refund and died."""
    create()
    raise LineCut


FAULTS: dict[str, tuple[Any, bool]] = {
    "lost after": (woocommerce_server.lost_after, True),
    "made, but 500": (woocommerce_server.made_but_500, True),
    "too many": (woocommerce_server.limited, False),
    "key refused": (woocommerce_server.no_key, False),
}


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_goes_wrong_the_money_moves_once(
    name: str, shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    fault, may_be_made = FAULTS[name]
    shop.refund_faults.append(fault)
    outcome = gateway.refund(ASKED)
    assert isinstance(outcome, OutcomeUnknown if may_be_made else NotDone)
    again = replace(ASKED, may_be_made=may_be_made)
    assert isinstance(gateway.refund(again), Refunded)
    assert gateway.look_up(again) == gateway.refund(again)
    assert len(shop.moved()) == 1


@pytest.mark.parametrize("name", ["lost_before", "moved_away", "made_and_forgotten"])
def test_after_a_call_that_may_have_arrived_none_is_for_people(
    name: str, shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    fault = getattr(woocommerce_server, name, made_and_forgotten)
    shop.refund_faults.append(fault)
    assert isinstance(gateway.refund(ASKED), OutcomeUnknown)
    if fault is made_and_forgotten:
        shop.delete(shop.numbered("1001"), shop.moved()[0])
    for outcome in (gateway.look_up(AGAIN), gateway.refund(AGAIN)):
        assert isinstance(outcome, OutcomeUnknown)
        assert outcome.for_people
        assert "r_17" in outcome.why
    posts = [each for each in shop.requests if each.method == "POST"]
    assert len(posts) == 1


def test_a_shop_that_cannot_be_reached_was_certainly_not_asked(shop: WooCommerceServer) -> None:
    gone = WooCommerceServer()
    gone.stop()
    outcome = WooCommerceGateway(WooCommerceClient(gone.url, TOKEN)).refund(ASKED)
    assert isinstance(outcome, NotDone)
    assert (outcome.for_people, outcome.operator) == (False, False)


def test_a_refund_that_was_made_is_not_called_undone_when_the_look_after_it_fails(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    def then_limited(create: woocommerce_server.Create) -> Answer:
        shop.faults.append(Answer(429))
        return create()

    shop.refund_faults.append(then_limited)
    assert isinstance(gateway.refund(ASKED), OutcomeUnknown)
    assert isinstance(gateway.look_up(AGAIN), Refunded)


def test_threads_that_ask_at_once_ask_the_plugin_once(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _number: gateway.refund(ASKED), range(8)))
    assert len(set(outcomes)) == 1
    assert len(shop.moved()) == 1


def test_two_processes_that_asked_at_once_are_noticed(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    def rival(create: woocommerce_server.Create) -> Answer:
        create()
        return create()

    shop.refund_faults.append(rival)
    some = replace(ASKED, amount=Money(1000, "USD"))
    for outcome in (gateway.refund(some), gateway.look_up(some), gateway.refund(some)):
        assert isinstance(outcome, OutcomeUnknown)
        assert outcome.for_people
    assert len(shop.moved()) == 2


def test_a_refund_that_wordpress_died_of_stays_unknown_until_it_is_known(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    shop.plugin_dies = True
    assert isinstance(gateway.refund(ASKED), OutcomeUnknown)
    shop.plugin_dies = False
    for _ in range(2):
        outcome = gateway.refund(ASKED)
        assert isinstance(outcome, OutcomeUnknown)
        assert "plugin" in outcome.why
    (listed,) = gateway.list_refunds(ASKED.payment_id)
    assert listed.state is RefundState.PENDING
    shop.refunds[1001][0]["refunded_payment"] = True
    assert isinstance(gateway.refund(ASKED), Refunded)
    assert len(shop.refunds[1001]) == 1


def test_a_plugin_that_fails_is_for_people_and_the_next_call_pays_once(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    shop.plugin_failure = "Le remboursement a échoué."
    outcome = gateway.refund(ASKED)
    assert isinstance(outcome, OutcomeUnknown)
    assert (outcome.for_people, outcome.answered) == (True, True)
    assert "échoué" in outcome.why
    assert isinstance(gateway.look_up(AGAIN), OutcomeUnknown)
    shop.plugin_failure = None  # and a person has seen that it did not pay
    assert isinstance(gateway.refund(ASKED), Refunded)
    assert len(shop.moved()) == 1


def test_what_the_shop_refunded_is_no_longer_there(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    shop.refund_in_admin("1001", "10.00")
    outcome = gateway.refund(ASKED)
    assert isinstance(outcome, Refused)
    assert "39.99 USD" in outcome.why
    assert shop.moved() == []


def test_another_currency_is_for_people(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    outcome = gateway.refund(replace(ASKED, amount=Money(4000, "EUR")))
    assert isinstance(outcome, NotDone)
    assert outcome.for_people
    assert shop.moved() == []


def test_an_order_that_is_gone_is_for_people(gateway: WooCommerceGateway) -> None:
    outcome = gateway.refund(replace(ASKED, payment_id="woocommerce:9999"))
    assert isinstance(outcome, NotDone)
    assert outcome.for_people


def test_a_refund_of_another_amount_or_made_twice_is_for_people(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    for _ in range(2):
        shop.refund_in_admin("1001", "0.17", "Refund r_17 by mailagent")
        outcome = gateway.refund(ASKED)
        assert isinstance(outcome, OutcomeUnknown)
        assert outcome.for_people
    assert shop.moved() == []


def test_all_refunds_are_listed(shop: WooCommerceServer, gateway: WooCommerceGateway) -> None:
    gateway.refund(ASKED)
    shop.refund_in_admin("1001", "1.00")
    other, ours = gateway.list_refunds("woocommerce:1001")
    assert (ours.idempotency_key, ours.order_id, ours.amount) == ("r_17", "1001", ASKED.amount)
    assert (ours.state, ours.gateway) == (RefundState.SETTLED, "woocommerce")
    assert (other.idempotency_key, other.amount.minor, other.state) == (
        None,
        100,
        RefundState.SETTLED,
    )
    assert list(gateway.list_refunds("woocommerce:1002")) == []


@pytest.mark.parametrize("answer", [Answer(500), Answer(200, [7]), Answer(200, {"a": 1})])
def test_a_list_that_cannot_be_read_is_no_empty_list(
    answer: Answer, shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    shop.faults.append(answer)
    assert isinstance(gateway.look_up(ASKED), OutcomeUnknown)
    shop.faults.append(answer)
    with pytest.raises(ListingProblem):
        gateway.list_refunds(ASKED.payment_id)
    shop.faults.append(answer)
    assert not isinstance(gateway.refund(ASKED), Refunded)
    assert shop.moved() == []


def test_a_firewall_before_wordpress_is_for_an_operator(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    shop.faults.append(error(403, "forbidden_by_security_plugin"))
    outcome = gateway.look_up(ASKED)
    assert isinstance(outcome, OutcomeUnknown)
    assert outcome.operator


@pytest.mark.parametrize("answer", [Answer(500), Answer(503, b"<html>"), Answer(200, b'[{"id": 5')])
def test_a_look_that_fails_before_the_plugin_is_asked_needs_no_person(
    shop: WooCommerceServer, gateway: WooCommerceGateway, answer: Answer
) -> None:
    shop.faults.append(answer)
    outcome = gateway.refund(ASKED)
    assert isinstance(outcome, NotDone)
    assert not outcome.for_people
    assert isinstance(gateway.refund(ASKED), Refunded)
    shop.faults.append(answer)
    assert isinstance(gateway.look_up(AGAIN), OutcomeUnknown)


# --- restocking -----------------------------------------------------------------------------------

BACK = replace(ASKED, restocks=(("K1", 1),))


@pytest.mark.parametrize("fault", [None, woocommerce_server.lost_after])
def test_units_that_came_back_are_restocked_once(
    shop: WooCommerceServer, gateway: WooCommerceGateway, fault: Any
) -> None:
    shop.refund_faults = [fault] if fault else []
    gateway.refund(BACK)
    assert isinstance(gateway.refund(BACK), Refunded)
    assert shop.in_stock == {"K1": 1}
    (made,) = shop.moved()
    assert made["amount"] == "40.00"


def test_units_that_others_have_taken_back_are_not_restocked_again(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    line = shop.numbered("1001")["line_items"][0]["id"]
    taken = shop.refund_in_admin("1001", "1.00")
    taken["line_items"] = [
        {"quantity": -1, "meta_data": [{"key": "_refunded_item_id", "value": str(line)}]}
    ]
    assert isinstance(gateway.refund(BACK), Refunded)
    assert not shop.in_stock


def test_of_variations_that_share_an_sku_the_right_one_is_restocked(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    (line,) = shop.numbered("1001")["line_items"]
    plain = line | {"id": 10012, "name": "Kettle - small", "subtotal": "5.00", "total": "5.00"}
    shop.numbered("1001")["line_items"].append(plain)
    back = replace(ASKED, restocks=(("K1 (line 10012)", 1),))
    assert isinstance(gateway.refund(back), Refunded)
    (posted,) = [json.loads(each.body) for each in shop.requests if each.method == "POST"]
    assert [each["id"] for each in posted["line_items"]] == [10012]


def test_nothing_is_restocked_if_the_plugin_refuses(
    shop: WooCommerceServer, gateway: WooCommerceGateway
) -> None:
    shop.plugin_failure = "declined"
    assert isinstance(gateway.refund(BACK), OutcomeUnknown)
    assert not shop.in_stock
