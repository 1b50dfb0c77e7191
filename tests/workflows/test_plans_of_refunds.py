"""The plan of a replay says what its run does with a refund whose order has changed since it was approved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mailagent import services
from mailagent.domain.operations.replay import tell_rows
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.orders.source import Cancelled, NotSupported, SourceProblem
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.payment import OutcomeUnknown
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from mailagent.remedies import finish
from mailagent.store.console import run_subjects
from mailagent.store.refunds import order_import, remedies, stops
from mailagent.workflows.steps import order_source
from mailagent.workflows.tools.cancel_order import cancel_order
from tests.cast import TESS, order
from tests.harness import Harness, pass_time
from tests.tool_use import use
from tests.workflows.cancelling import keep_version, with_source
from tests.workflows.paying import CARD, GIFT, approved, ledger, look, moody, pay, two_payments
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases

PAYMENT: dict[str, Any] = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}
OTHER_ITEM = {"item_id": "X9", "name": "Cup", "quantity": 1, "unit_price": "49.99"}
NOT_PAID = "as its order is now, a replay does not pay it: "
NO_MORE = "as its order is now, no more of it is paid: "
LOOKED_UP = "the last look-up of its order found: "


def facts_of(shop: Harness) -> tuple[str, ...]:
    """Return what the plan tells of the refund, without its mails."""
    refund_id = shop.refunds()[0].refund_id
    source = services.current().order_source
    with shop.live.database.snapshot() as connection:
        name = source.name if source else None
        rows = run_subjects.look(connection, [refund_id], source_name=name)[refund_id]
    return tell_rows(replace(rows, mails=()))


def told_of(shop: Harness) -> str:
    return facts_of(shop)[0]


def change(shop: Harness, found: Order) -> None:
    with shop.live.database.transaction() as connection:
        known = order_import.without_known_refunds(connection, found)
        order_import.save(connection, known, shop.live.now())


def to_pay(shop: Harness) -> str:
    """Return Ada's approved refund of all that she paid."""
    shop.stock(order(payments=[PAYMENT]))
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    assert "it will be paid, once" in told_of(shop)
    return shop.refunds()[0].refund_id


@pytest.mark.parametrize("looks_up", [True, False])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": "cancelled"}, stops.CANCELLED),
        ({"customer": {"email": "x@shop.example"}}, stops.NEW_CUSTOMER),
        (
            {"payments": [PAYMENT | {"charged_back_at": "2026-11-26T09:00:00Z"}]},
            stops.CHARGED_BACK,
        ),
        ({"payments": [PAYMENT | {"refunded": "20.00"}]}, stops.ELSEWHERE),
    ],
    ids=["cancelled", "of another customer", "charged back", "refunded elsewhere"],
)
def test_a_refund_that_a_replay_fails_is_not_told_to_be_paid(
    shop: Harness, changes: dict[str, Any], why: str, looks_up: bool
) -> None:
    if looks_up:
        with_source(shop)
    refund_id = to_pay(shop)
    change(shop, order(**({"payments": [PAYMENT]} | changes)))
    told = told_of(shop)
    assert NOT_PAID + why in told
    assert told.endswith("It ends as failed, and the customer is told.")
    assert shop.refunds()[0].status == "approved"  # to look changes nothing
    assert pay(refund_id)["status"] == "failed"
    assert ledger(shop) == {}


@pytest.mark.parametrize("is_repaired", [True, False])
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: None, stops.GONE),
        (lambda: order("W8"), stops.UNUSABLE),
        (lambda: order(items=[OTHER_ITEM]), stops.REFUSED),
    ],
    ids=["gone", "unusable", "refused"],
)
def test_a_problem_of_the_order_at_its_source_may_be_over(
    shop: Harness, answer: Callable[[], Order | None], why: str, is_repaired: bool
) -> None:
    source = with_source(shop)
    refund_id = to_pay(shop)
    source.orders = lambda _order_id: answer()
    order_source.refresh("W1001")
    told = told_of(shop)
    assert f"{LOOKED_UP}{why}. " in told
    assert "If that stays so, the refund ends as failed" in told
    assert told.endswith("If not, it may be paid.")
    if is_repaired:
        source.orders = lambda _order_id: order(payments=[PAYMENT])
    elif why != stops.REFUSED:
        assert pay(refund_id)["status"] == "approved"
        pass_time(shop, hours=37)
    assert pay(refund_id)["status"] == ("paid" if is_repaired else "failed")
    assert shop.refunds()[0].failure == (None if is_repaired else why)


def test_a_problem_at_the_source_hides_no_stop_that_we_know_of(shop: Harness) -> None:
    source = with_source(shop)
    to_pay(shop)
    change(shop, order(status="cancelled", payments=[PAYMENT]))
    source.orders = lambda _order_id: None
    assert order_source.refresh("W1001") is Freshness.GONE
    assert NOT_PAID + stops.CANCELLED in told_of(shop)


def given_back(refunded: str = "49.99") -> Order:
    """What the shop's system says after the shop has given so much back on the card itself."""
    gift = {"payment_id": GIFT, "method": "gift_card", "amount": "20.00"}
    card = {"payment_id": CARD, "method": "card", "amount": "59.99", "refunded": refunded}
    found: Order = two_payments(payments=[gift, card])
    return found


@pytest.mark.parametrize(
    ("changed", "why"),
    [(lambda: two_payments(status="cancelled"), stops.CANCELLED), (given_back, stops.ELSEWHERE)],
    ids=["cancelled", "refunded elsewhere"],
)
def test_the_rest_of_a_refund_that_is_partly_paid_is_told(
    shop: Harness, changed: Callable[[], Order], why: str
) -> None:
    refund_id = approved(shop).refund_id
    keep_version(shop, two_payments())
    moody(shop, {CARD: [OutcomeUnknown("no answer")]})
    source = with_source(shop)
    assert pay(refund_id)["status"] == "approved"
    assert "it is looked up first, and paid only if" in told_of(shop)
    source.orders = lambda _order_id: changed()
    assert order_source.refresh("W1001") is Freshness.FRESH
    told = told_of(shop)
    assert NO_MORE + why in told
    assert "unless it has made the payment, or is making it, the refund ends as failed" in told
    pass_time(shop, minutes=6)  # until then the call may be under way
    assert pay(refund_id)["status"] == "failed"
    assert ledger(shop) == {GIFT: 20_00}


@pytest.mark.parametrize(("refunded", "is_stopped"), [("20.00", False), ("30.00", True)])
def test_that_the_same_items_may_have_been_refunded_elsewhere_is_told(
    shop: Harness, refunded: str, is_stopped: bool
) -> None:
    shop.stock(two_payments())
    assert propose(write(shop), "W1001", ("L1", 1))["outcome"] == "approved"
    change(shop, given_back(refunded))
    told = told_of(shop)
    assert (NO_MORE + stops.TWICE in told) is is_stopped
    assert ("it will be paid, once" in told) is not is_stopped
    assert pay(shop.refunds()[0].refund_id)["status"] == ("failed" if is_stopped else "paid")


def test_a_refund_that_waits_for_goods_in_vain_is_told(shop: Harness) -> None:
    rules = ReturnFirst(frozenset({RefundReason.CHANGED_MIND}), "Send it to us.", days=14)
    services.bind(replace(shop.live, policy=Policy(return_first=rules)))
    shop.stock(order(payments=[PAYMENT]))
    propose(write(shop), "W1001", reason="changed_mind")
    refund_id = shop.refunds()[0].refund_id
    assert pay(refund_id)["status"] == "approved"
    assert "waits for goods or a cancellation: it will be paid after that" in told_of(shop)
    change(shop, order(status="cancelled", payments=[PAYMENT]))
    assert f"it is not paid after that: {stops.CANCELLED}." in told_of(shop)
    with shop.live.database.transaction() as connection:
        remedy = remedies.find_of_refund(connection, refund_id)
        assert remedy is not None
        assert finish(connection, remedy.remedy_id, TESS, True, None)
    assert pay(refund_id)["status"] == "failed"


def test_a_cancellation_that_a_replay_asks_the_shops_system_for_is_told(shop: Harness) -> None:
    away = SourceProblem("no answer", not_done=True)
    source = with_source(shop, away, Cancelled(order(status="cancelled")))
    services.bind(replace(services.current(), policy=Policy(limits={})))
    shop.stock(order(status="pending", delivered_at=None))
    asked = {"order_id": "W1001", "items": []}
    assert use(cancel_order, write(shop), asked)["outcome"] == "asked"
    refund_id = shop.refunds()[0].refund_id
    told = "a replay asks the shop's system for that, even if no manager has decided yet."
    assert look(refund_id)["status"] == "awaiting_approval"
    assert facts_of(shop)[1].endswith(told)
    assert facts_of(shop)[1].startswith("Order W1001, or items of it, are to be cancelled")
    assert len(source.asked) == 1  # to look asks nothing
    assert look(refund_id)["status"] == "awaiting_approval"
    assert len(source.asked) == 2
    assert len(facts_of(shop)) == 1


@pytest.mark.parametrize(("mugs_sent", "is_stopped"), [(1, False), (2, True)])
def test_that_cancelled_units_were_sent_anyway_is_told(
    shop: Harness, mugs_sent: int, is_stopped: bool
) -> None:
    mugs = {"item_id": "M1", "quantity": 2, "name": "Mug", "unit_price": "10.00"}
    pending: dict[str, Any] = {"status": "pending", "delivered_at": None, "items": [mugs]}
    shop.stock(order(**pending))
    keep_version(shop, order(**pending))
    source = with_source(shop, NotSupported("it cancels whole orders only"))
    one = [{"item_id": "M1", "quantity": 1}]
    assert use(cancel_order, write(shop), {"order_id": "W1001", "items": one})["outcome"] == "asked"
    refund_id = shop.refunds()[0].refund_id
    assert pay(refund_id)["status"] == "approved"
    with shop.live.database.transaction() as connection:
        remedy = remedies.find_of_refund(connection, refund_id)
        assert remedy is not None
        assert finish(connection, remedy.remedy_id, TESS, True, None)
    sent = {"item_id": "M1", "quantity": mugs_sent}
    parcel = {"shipment_id": "S1", "status": "in_transit", "items": [sent]}
    source.orders = lambda _order_id: order(**pending, shipments=[parcel])
    assert order_source.refresh("W1001") is Freshness.FRESH
    told = told_of(shop)
    assert (NOT_PAID + stops.UNITS_BACK in told) is is_stopped
    assert ("it will be paid, once" in told) is not is_stopped
    assert pay(refund_id)["status"] == ("failed" if is_stopped else "paid")
