"""A call of the order source, whatever comes of it: the run goes on, and the next probe is free."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mailagent import services
from mailagent.adapters.http import seconds_left
from mailagent.domain.operations.circuit_breaker import FAILURES_TO_OPEN, Breaker
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.orders.shipment import Shipment, ShipmentStatus
from mailagent.domain.orders.source import (
    LOOK_UP_SECONDS,
    AddressOutcome,
    CancelOutcome,
    CancelRequest,
    NotYet,
    OrderPage,
    OutOfTime,
    SourceProblem,
)
from mailagent.domain.refunds.order import Order, OrderProblem
from mailagent.domain.refunds.payment import (
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    Pending,
    RefundRequest,
)
from mailagent.domain.refunds.policy import LateParcels, Policy
from mailagent.domain.remedies.address import NewAddress
from mailagent.domain.text import NeedsOperatorError
from mailagent.store import schema
from mailagent.store.mail import conversations
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.refunds import external_refunds, stops
from mailagent.workflows.steps import order_source
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.orders import look_up_for, look_up_orders
from mailagent.workflows.steps.maintenance.incidents import update_incidents
from mailagent.workflows.steps.refund import gateway_call
from mailagent.workflows.steps.refund.gateway_call import Intent
from mailagent.workflows.tools.tool import OrderUse
from tests.cast import ADA, GRACE, OLGA, order
from tests.cli.commands import flask
from tests.harness import Harness, open_shop, pass_time
from tests.workflows.paying import MoodyGateway, ledger, pay
from tests.workflows.proposals import propose, write

pytestmark = pytest.mark.both_databases


class Source:
    """Answers as it is told to."""

    name = "http"

    def __init__(self, answer: Callable[[], Order | None]) -> None:
        self.answer = answer

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        raise NotImplementedError

    def load_order(self, order_id: str) -> Order | None:
        return self.answer()

    def cancel_order(self, request: CancelRequest) -> CancelOutcome:
        raise NotImplementedError

    def change_address(self, order_id: str, wanted: NewAddress) -> AddressOutcome:
        raise NotImplementedError


def breaks() -> Order | None:
    raise KeyError(f"no such field for {ADA}")


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    settings = {
        "ORDER_SOURCE": "http",
        "ORDER_SOURCE_URL": "http://127.0.0.1:9",
        "ORDER_SOURCE_TOKEN": "t",
    }
    with open_shop(tmp_path, database_url, settings) as opened:
        yield opened


@pytest.fixture
def source(shop: Harness) -> Source:
    source = Source(order)
    shop.live = replace(shop.live, order_source=source)
    services.bind(shop.live)
    return source


def pass_until(shop: Harness, moment: datetime) -> None:
    services.bind(replace(shop.live, now=lambda: moment))


def test_an_answer_that_breaks_the_adapter_is_a_problem_of_the_source(
    shop: Harness, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.answer = breaks
    with pytest.raises(SourceProblem, match="KeyError") as problem:
        order_source.ask(lambda each: each.load_order("W1001"))
    assert ADA not in f"{problem.value!r}{problem.value.__cause__!r}{caplog.text}"
    assert "test_order_source_calls.py" in caplog.text


def test_a_probe_that_breaks_the_adapter_is_over_and_another_may_follow(
    shop: Harness, source: Source
) -> None:
    source.answer = breaks
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(SourceProblem, match="KeyError"):
            order_source.ask(lambda each: each.load_order("W1001"))
    provider = shop.live.providers.orders
    assert provider
    for answer in (breaks, order):
        with shop.live.database.snapshot() as connection:
            breaker = circuit_breakers.find(connection, provider)
        assert breaker
        assert breaker.until_at
        source.answer = answer
        pass_until(shop, breaker.until_at + timedelta(seconds=1))
        try:
            found = order_source.ask(lambda each: each.load_order("W1001"))
        except SourceProblem:
            found = None
    assert found == order()
    with shop.live.database.snapshot() as connection:
        assert circuit_breakers.find(connection, provider) is None


def test_a_source_that_has_not_finished_yet_is_not_away(shop: Harness, source: Source) -> None:
    def cancels() -> Order | None:
        raise NotYet("the platform has not yet cancelled it", 30)

    source.answer = breaks
    with pytest.raises(SourceProblem, match="KeyError"):
        order_source.ask(lambda each: each.load_order("W1001"))
    source.answer = cancels
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(NotYet):
            order_source.ask(lambda each: each.load_order("W1001"))
    provider = shop.live.providers.orders
    assert provider
    with shop.live.database.snapshot() as connection:
        assert circuit_breakers.find(connection, provider) is None


def test_a_run_that_was_to_ask_the_source_goes_on_once_the_shop_imports_its_orders(
    shop: Harness, source: Source
) -> None:
    batch = write(shop)
    assert batch["looks_up"]
    live = shop.live
    services.bind(replace(live, order_source=None, providers=replace(live.providers, orders=None)))
    assert look_up_orders(batch) == {"outcome": "imported", "versions": {}}


def wrong_record_of(email: str | None) -> Callable[[], Order | None]:
    def answer() -> Order | None:
        problem = OrderProblem("payments[1].amount: is below 0")
        problem.customer_email = email
        raise problem

    return answer


def look_up(shop: Harness, batch: Batch, use: OrderUse = OrderUse.LOOK) -> Freshness:
    with shop.live.database.snapshot() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
    return look_up_for(use, batch, conversation, {"order_id": "W1001"})


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("use", [OrderUse.LOOK, OrderUse.DECIDE])
@pytest.mark.parametrize(
    ("answer", "end", "requests"),
    [
        (breaks, Freshness.AWAY, 1),
        (lambda: None, Freshness.ABSENT, 2),
        (lambda: order(customer={"email": GRACE}), Freshness.ABSENT, 2),
        (wrong_record_of(GRACE), Freshness.ABSENT, 2),
        (wrong_record_of(None), Freshness.ABSENT, 2),
    ],
    ids=["away", "does not exist", "another's", "another's, wrong", "wrong"],
)
def test_a_look_up_does_not_tell_whether_a_number_is_another_customers(
    shop: Harness,
    source: Source,
    answer: Callable[[], Order | None],
    end: Freshness,
    requests: int,
    use: OrderUse,
    is_stored: bool,
) -> None:
    if is_stored:
        shop.stock(order(customer={"email": GRACE}))
    batch, asked = write(shop), 0

    def counted() -> Order | None:
        nonlocal asked
        asked += 1
        return answer()

    source.answer = counted
    assert (look_up(shop, batch, use), asked) == (end, requests)
    found = shop.rows("SELECT order_id, complete FROM order_lookups")
    assert [each.order_id for each in found] == (["W1001"] if end is Freshness.ABSENT else [])
    stored = shop.rows("SELECT customer_email FROM orders")
    assert [each.customer_email for each in stored] == ([GRACE] if is_stored else [])


def test_a_wrong_record_of_the_customers_own_is_not_denied(shop: Harness, source: Source) -> None:
    source.answer = wrong_record_of(ADA)
    assert look_up(shop, write(shop)) is Freshness.UNUSABLE
    assert open_kinds(shop) == ["order_records"]


@pytest.mark.parametrize("was_from_source", [True, False])
def test_an_order_that_has_moved_to_this_customer_is_found(
    shop: Harness, source: Source, was_from_source: bool
) -> None:
    shop.stock(order(customer={"email": GRACE}))
    if was_from_source:
        source.answer = lambda: order(customer={"email": GRACE})
        assert order_source.refresh("W1001") is Freshness.FRESH
    source.answer = order
    assert look_up(shop, write(shop), OrderUse.DECIDE) is Freshness.FRESH
    (stored,) = shop.rows("SELECT customer_email FROM orders")
    assert stored.customer_email == ADA


def test_an_order_that_has_moved_to_this_customer_and_contradicts_its_refunds_is_not_denied(
    shop: Harness, source: Source
) -> None:
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    source.answer = lambda: replace(cheaper(), customer_email=GRACE)
    assert look_up(shop, write(shop, GRACE)) is Freshness.UNUSABLE


class Slow(Source):
    """Each answer takes 6 seconds. `left`: how many were left at each request."""

    def __init__(self, shop: Harness) -> None:
        super().__init__(lambda: self._take_time(order("OLD")))
        self.shop, self.left = shop, list[float]()

    def _take_time(self, answer: Order) -> Order:
        self.left.append(seconds_left())
        pass_time(self.shop, seconds=6 * len(self.left))
        return answer

    def find_orders(self, email: str, cursor: str | None = None) -> OrderPage:
        return OrderPage((self._take_time(order()),), is_cut=True)


def test_each_request_of_a_look_up_has_what_is_left_of_its_time(shop: Harness) -> None:
    shop.stock(order("OLD"))
    batch, slow = write(shop), Slow(shop)
    services.bind(replace(services.current(), order_source=slow))
    assert look_up_orders(batch)["outcome"] == "found"
    assert slow.left == [pytest.approx(LOOK_UP_SECONDS - spent, abs=2) for spent in (0, 6)]
    assert [bool(row.complete) for row in shop.rows("SELECT complete FROM order_lookups")] == [
        False
    ]
    assert seconds_left() == math.inf


def test_a_source_that_never_answers_in_time_is_away(shop: Harness, source: Source) -> None:
    def hangs() -> Order | None:
        raise OutOfTime("no answer within what is left of the look-up")

    source.answer = hangs
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(OutOfTime):
            order_source.ask(lambda each: each.load_order("W1001"))
    breaker = find_breaker(shop)
    assert breaker
    assert breaker.until_at
    pass_until(shop, breaker.until_at + timedelta(seconds=1))
    source.answer = order
    with pytest.raises(OutOfTime, match="no time is left"):  # the probe is still free
        order_source.ask(lambda each: each.load_order("W1001"), services.current().now())
    assert find_breaker(shop) == breaker
    assert order_source.ask(lambda each: each.load_order("W1001")) == order()
    assert find_breaker(shop) is None


def find_breaker(shop: Harness) -> Breaker | None:
    provider = shop.live.providers.orders
    assert provider
    with shop.live.database.snapshot() as connection:
        return circuit_breakers.find(connection, provider)


def cheaper() -> Order:
    return order(payments=[{"payment_id": "pay_W1001", "method": "card", "amount": "9.99"}])


def test_operators_hear_once_of_a_change_that_refunds_forbid_and_its_end_ends_the_incident(
    shop: Harness, source: Source
) -> None:
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    source.answer = cheaper
    assert order_source.refresh("W1001") is Freshness.REFUSED
    assert open_kinds(shop) == ["order_records"]
    (mail,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :olga", olga=OLGA)
    assert "contradicts refunds of the order: `flask orders show ID`" in " ".join(mail.text.split())
    assert json.loads(flask(shop, "orders", "show", "W1001").output)["paid"] == "49.99"
    pass_until(shop, shop.live.now() + timedelta(days=2))
    update_incidents()
    assert order_source.refresh("W1001") is Freshness.REFUSED
    assert open_kinds(shop) == []  # people decide on its refunds: it is no news
    source.answer = lambda: None
    assert order_source.refresh("W1001") is Freshness.GONE
    assert open_kinds(shop) == ["order_records"]
    source.answer = order
    assert order_source.refresh("W1001") is Freshness.FRESH
    assert open_kinds(shop) == []


def open_kinds(shop: Harness) -> list[str]:
    with shop.live.database.snapshot() as connection:
        return [each.incident.value for each in incidents.list_open(connection)]


def test_a_refund_whose_order_alone_cannot_be_looked_up_does_not_wait_for_ever(
    shop: Harness, source: Source
) -> None:
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    source.answer = breaks
    assert pay(refund_id)["status"] == "approved"
    with shop.live.database.transaction() as connection:
        connection.execute(schema.breakers.delete())  # other orders are found
    pass_until(shop, shop.live.now() + timedelta(hours=37))
    with pytest.raises(NeedsOperatorError, match="could not be looked up since"):
        pay(refund_id)
    assert shop.rows("SELECT 1 FROM ledger_entries") == []


@pytest.mark.parametrize("answer", [breaks, lambda: None], ids=["away", "gone"])
def test_an_old_problem_of_the_order_is_new_to_a_refund_that_waited_for_goods(
    shop: Harness, source: Source, answer: Callable[[], Order | None]
) -> None:
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    source.answer = answer
    order_source.refresh("W1001")  # for a page
    for day in (10, 20):
        pass_until(shop, shop.live.now() + timedelta(days=day))
        source.answer = answer
        state = pay(refund_id)
        assert state["status"] == "approved"
        assert state["wait_seconds"] < 5
        with shop.live.database.transaction() as connection:
            connection.execute(schema.breakers.delete())
        source.answer = order
        order_source.refresh("W1001")
    assert pay(refund_id)["status"] == "paid"


@pytest.mark.parametrize("others", [1, 9], ids=["once", "all the time"])
def test_an_answer_that_another_look_up_has_overtaken_does_not_replace_it(
    shop: Harness, source: Source, others: int
) -> None:
    """While our question is on its way, the shop gives the money back, and another worker sees that."""
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    assert order_source.refresh("W1001") is Freshness.FRESH
    left = others

    def old_answer() -> Order:
        nonlocal left
        if not left:
            return given_back_by_shop("49.99")
        left -= 1
        source.answer = lambda: given_back_by_shop(f"49.{90 + left}")
        assert order_source.refresh("W1001") is Freshness.FRESH
        source.answer = old_answer
        return order()

    source.answer = old_answer
    pass_time(shop, minutes=1)
    refund_id = shop.refunds()[0].refund_id
    end = pay(refund_id)["status"]
    assert (end, left) == (("failed", 0) if others == 1 else ("approved", 4))
    with shop.live.database.snapshot() as connection:
        assert external_refunds.given_back_minor(connection, "W1001") >= 49_90
    assert ledger(shop) == {}


def test_an_order_is_not_asked_for_again_if_another_look_up_has_said_the_same(
    shop: Harness, source: Source
) -> None:
    shop.stock(order())
    asked = 0

    def answer() -> Order:
        nonlocal asked
        asked += 1
        if asked == 1:
            assert order_source.refresh("W1001") is Freshness.FRESH
        return order(status="cancelled")

    source.answer = answer
    assert order_source.refresh("W1001") is Freshness.FRESH
    assert asked == 2


class FarGateway(MoodyGateway):
    """A gateway that is not the ledger."""

    def is_remote(self, request: RefundRequest) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "given_back", "is_ours", "end"),
    [
        (NotDone("busy", 1), "49.99", False, "failed"),
        (OutcomeUnknown("no answer"), "49.99", False, "failed"),
        (OutcomeUnknown("no answer"), "20.00", False, "failed"),
        (OutcomeUnknown("no answer"), "49.99", True, "paid"),
    ],
    ids=["not made", "answer lost", "a part", "made"],
)
def test_what_the_shop_gave_back_is_not_taken_for_a_payment_that_the_gateway_did_not_make(
    shop: Harness, source: Source, answer: PaymentOutcome, given_back: str, is_ours: bool, end: str
) -> None:
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    moved = frozenset({"pay_W1001"}) if is_ours else frozenset()
    gateway = FarGateway(shop.live.gateway, {"pay_W1001": [answer]}, moved)
    services.bind(replace(shop.live, gateway=gateway))
    assert pay(refund_id)["status"] == "approved"
    source.answer = lambda: given_back_by_shop(given_back)
    pass_time(shop, minutes=6)  # until then the call may be under way
    assert pay(refund_id)["status"] == end
    assert ledger(shop) == ({"pay_W1001": 49_99} if is_ours else {})


def kettle_and_lamp(refunded: str = "0.00") -> Order:
    lamp = {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "60.00"}
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "109.99", "refunded": refunded}
    return order(items=[kettle, lamp], payments=[paid])


@pytest.mark.parametrize("is_ours", [False, True])
def test_as_much_given_back_by_the_shop_stops_a_payment_that_was_not_made_though_more_is_left(
    shop: Harness, source: Source, is_ours: bool
) -> None:
    source.answer = kettle_and_lamp
    shop.stock(kettle_and_lamp())
    assert propose(write(shop), "W1001", ("K1", 1))["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    moved = frozenset({"pay_W1001"}) if is_ours else frozenset()
    answers: dict[str, list[PaymentOutcome]] = {"pay_W1001": [OutcomeUnknown("no answer")]}
    services.bind(replace(shop.live, gateway=FarGateway(shop.live.gateway, answers, moved)))
    assert pay(refund_id)["status"] == "approved"
    source.answer = lambda: kettle_and_lamp("49.99")
    pass_time(shop, minutes=6)
    assert pay(refund_id)["status"] == ("paid" if is_ours else "failed")
    assert ledger(shop) == ({"pay_W1001": 49_99} if is_ours else {})


@pytest.mark.parametrize(
    "parcel",
    [
        Shipment("S1", ShipmentStatus.IN_TRANSIT, items=(("K1", 2),)),
        Shipment("S1", ShipmentStatus.IN_TRANSIT, tracking_url="http://post.example/D17"),
        Shipment("S1", ShipmentStatus.DELIVERED),
    ],
    ids=["units that the shop took back", "plain link", "no day"],
)
def test_a_lost_answer_is_looked_up_although_no_orders_file_could_have_the_parcel(
    shop: Harness, source: Source, parcel: Shipment
) -> None:
    """Shopify and WooCommerce return such parcels."""
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    source.answer = lambda: replace(order(), shipments=(parcel,))
    lost = OutcomeUnknown("no answer")
    gateway = FarGateway(shop.live.gateway, {"pay_W1001": [lost]}, frozenset({"pay_W1001"}))
    services.bind(replace(shop.live, gateway=gateway))
    refund_id = shop.refunds()[0].refund_id
    assert pay(refund_id)["status"] == "approved"
    pass_time(shop, minutes=2)
    assert pay(refund_id)["status"] == "paid"
    assert ledger(shop) == {"pay_W1001": 49_99}


def given_back_by_shop(amount: str) -> Order:
    payment = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99", "refunded": amount}
    return order(payments=[payment])


@pytest.mark.parametrize(
    "changed",
    [lambda: given_back_by_shop("49.99"), lambda: order(status="cancelled")],
    ids=["given back", "cancelled"],
)
def test_a_payment_is_not_given_up_while_another_worker_asks_for_it(
    shop: Harness, source: Source, changed: Callable[[], Order]
) -> None:
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    gateway = FarGateway(shop.live.gateway)

    def other_worker() -> None:
        gateway.before = lambda: None
        source.answer = changed
        assert pay(refund_id)["status"] == "approved"

    gateway.before = other_worker
    services.bind(replace(shop.live, gateway=gateway))
    assert pay(refund_id)["status"] == "paid"
    assert ledger(shop) == {"pay_W1001": 49_99}


def test_a_worker_that_stops_a_payment_keeps_another_one_from_asking(
    shop: Harness, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has read the order before it was cancelled, and asks after that."""
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    real = gateway_call._begin

    def late(intent: Intent, now: datetime) -> bool:
        monkeypatch.setattr(gateway_call, "_begin", real)
        source.answer = lambda: order(status="cancelled")
        assert pay(refund_id)["status"] == "failed"
        return real(intent, now)

    monkeypatch.setattr(gateway_call, "_begin", late)
    assert pay(refund_id)["status"] == "failed"
    assert ledger(shop) == {}


def test_our_own_refund_that_failed_is_not_taken_for_the_shops(
    shop: Harness, source: Source
) -> None:
    """The shop's record counts the refund that was pending at the gateway."""
    shop.stock(order())
    assert propose(write(shop), "W1001")["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    failed = NotDone("re_1 is failed: insufficient_funds", 0, for_people=True, failed="re_1")

    class FailingGateway(FarGateway):
        def look_up(self, request: RefundRequest) -> PaymentOutcome:
            return failed

    gateway = FailingGateway(shop.live.gateway, {"pay_W1001": [Pending("re_1", 3600.0)]})
    services.bind(replace(shop.live, gateway=gateway))
    assert pay(refund_id)["status"] == "approved"
    source.answer = lambda: given_back_by_shop("49.99")
    with pytest.raises(NeedsOperatorError, match="insufficient_funds"):
        pay(refund_id)
    assert shop.rows("SELECT status FROM refunds")[0].status == "approved"


@pytest.mark.parametrize(("status", "end"), [("in_transit", "paid"), ("delivered", "failed")])
def test_a_parcel_that_has_come_after_all_is_not_refunded_without_a_person(
    shop: Harness, source: Source, status: str, end: str
) -> None:
    days = LateParcels(ask_after_days=5, refund_after_days=14)
    services.bind(replace(shop.live, policy=Policy(late_parcels=days)))
    moved = (shop.live.now() - timedelta(days=15)).isoformat()
    parcel = {"shipment_id": "S1", "status": "in_transit", "last_event_at": moved}
    sent: dict[str, Any] = {"status": "shipped", "delivered_at": None}
    sent["placed_at"] = "2026-01-02T00:00:00Z"
    shop.stock(order(**sent, shipments=[parcel]))
    told = propose(write(shop), "W1001", reason="not_delivered")
    assert told["outcome"] == "approved"
    newest = parcel | {"status": status}
    if status == "delivered":
        newest["delivered_at"] = shop.live.now().isoformat()
    source.answer = lambda: order(**sent, shipments=[newest])
    assert pay(shop.refunds()[0].refund_id)["status"] == end
    assert shop.refunds()[0].failure == (stops.ARRIVED if end == "failed" else None)
    assert ledger(shop) == ({} if end == "failed" else {"pay_W1001": 49_99})
