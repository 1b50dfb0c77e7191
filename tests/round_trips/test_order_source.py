"""A shop whose orders are in a system of its own, played over HTTP: asked when mail comes in, before anything
is decided and before money moves. The source may be away, slow or wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.order_sources.http.source import HttpOrderSource
from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.demo.scripted_model import Fact, Phrase
from mailagent.domain.operations.circuit_breaker import FAILURES_TO_OPEN, LONGEST_WISH_SECONDS
from mailagent.domain.orders.freshness import Freshness
from mailagent.store.ids import new_id
from mailagent.store.operations import circuit_breakers
from mailagent.store.operations import incidents as open_incidents
from mailagent.web.console.conversations.refunding import LOOK_UP_SECONDS
from mailagent.workflows.steps import order_source
from mailagent.workflows.steps.conversation.batch import take_batch
from mailagent.workflows.steps.conversation.orders import look_up_orders
from mailagent.workflows.steps.maintenance.sweep import enqueue_mail
from tests.cast import (
    ADA,
    DESK_WISH,
    GRACE,
    KETTLE_WISH,
    MONA,
    OLGA,
    TESS,
    big_order,
    order,
    order_record,
)
from tests.handed_over import thread
from tests.harness import Harness, open_shop, pass_time, post_form, running, wait_until
from tests.order_server import NONE, TOKEN, OrderServer, source_settings
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import facts, runs_of, wait_for_quiet
from tests.tool_calls import calls, says

pytestmark = pytest.mark.both_databases

ABOUT_ORDER = says(Fact("order/W1001"))
WITH_REFUND = [
    {"payment_id": "pay_W1001", "method": "card", "amount": "49.99", "refunded": "30.00"}
]
ASKED_FOR_REFUNDS = calls("look_at_order", order_id="W1001"), says(Fact("refund/W1001"))


def down(_request: Request) -> Answer:
    return Answer(503)


def at_look(number: int, answer: Callable[[], Answer]) -> Callable[[Request], Answer | None]:
    """Return a lie: the look-up of this number of one order, from 1, is answered so."""
    seen: list[Request] = []

    def lie(request: Request) -> Answer | None:
        if request.path == "/orders":
            return None
        seen.append(request)
        return answer() if len(seen) == number else None

    return lie


@pytest.fixture
def server() -> Iterator[OrderServer]:
    played = OrderServer()
    played.start()
    yield played
    played.stop()


@pytest.fixture
def still_shop(tmp_path: Path, database_url: str, server: OrderServer) -> Iterator[Harness]:
    with open_shop(tmp_path, database_url, source_settings(server)) as opened:
        yield opened


@pytest.fixture
def source_shop(still_shop: Harness) -> Iterator[Harness]:
    with running(still_shop) as opened:
        yield opened


def versions_of(shop: Harness, order_id: str) -> list[Mapping[str, Any]]:
    rows = shop.rows(
        "SELECT record FROM order_versions WHERE order_id = :id ORDER BY version", id=order_id
    )
    return [row.record if isinstance(row.record, dict) else json.loads(row.record) for row in rows]


def steps_of(shop: Harness, name: str) -> list[str]:
    """Return the recorded outputs of the steps of a name, as text."""
    runs = shop.live.workflow_client.runs
    found = shop.rows("SELECT run_id FROM inbound_mails WHERE run_id IS NOT NULL")
    known = [runs.find_run(row.run_id, with_steps=True) for row in found]
    return [str(step.output) for run in known if run for step in run.steps if step.name == name]


def at_rest(shop: Harness) -> None:
    wait_until(shop.at_rest, 40, "the mail to be answered")


def incidents(shop: Harness) -> set[str]:
    with shop.live.database.snapshot() as connection:
        return {each.incident.value for each in open_incidents.list_open(connection)}


# --- it works -------------------------------------------------------------------------------------


def test_an_order_that_only_the_shops_system_has_is_refunded(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order(), order("W1002", customer={"email": GRACE}))
    source_shop.write(KETTLE_WISH)
    paid = source_shop.wait_for_refund("paid")
    assert str(paid.amount) == "49.99 USD"
    at_rest(source_shop)
    assert server.asked("/orders") == 1
    # Once before it was decided, once before it was paid.
    assert server.asked("/orders/W1001") == 2
    assert [each["order_id"] for each in versions_of(source_shop, "W1001")] == ["W1001"]
    assert source_shop.rows("SELECT 1 FROM orders WHERE order_id = 'W1002'") == []


def test_the_look_up_is_on_record_with_ids_and_versions_only(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    source_shop.faults.openai += [ABOUT_ORDER]
    source_shop.write("When did my order W1001 arrive?")
    at_rest(source_shop)
    (told,) = source_shop.mails_to(ADA)
    assert "Order W1001 was delivered on" in told.text
    assert "As of" not in told.text
    (output,) = steps_of(source_shop, "look_up_orders")
    assert "W1001" in output
    assert ADA not in output
    assert "Kettle" not in output


def test_stored_orders_are_not_read_again_if_the_source_lists_them(
    still_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    still_shop.write("When did my order W1001 arrive?")
    batch, asked = take_batch(thread(still_shop).conversation_id), list[str]()
    assert batch is not None
    assert look_up_orders(batch) == {"outcome": "found", "versions": {"W1001": 1}}
    engine = still_shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    assert look_up_orders(batch) == {"outcome": "found", "versions": {"W1001": 1}}
    assert "order_lines" not in " ".join(asked)


def test_nobody_is_looked_up_before_they_have_proved_who_they_are(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    source_shop.write(KETTLE_WISH, aligned=False)
    at_rest(source_shop)
    assert server.requests == []
    assert source_shop.refunds() == ()


def test_an_order_beyond_the_newest_is_looked_up_by_its_number(
    source_shop: Harness, server: OrderServer
) -> None:
    newest = [order(f"N{number}", placed_at="2026-11-01T00:00:00Z") for number in range(120)]
    server.stock(order(placed_at="2020-01-01T00:00:00Z"), *newest)
    source_shop.faults.openai += [calls("look_at_order", order_id="W1001"), ABOUT_ORDER]
    source_shop.write("Where is my order W1001?")
    at_rest(source_shop)
    assert "Order W1001 was delivered on" in source_shop.mails_to(ADA)[0].text
    assert server.asked("/orders") == 1  # 50 are enough
    assert len(source_shop.rows("SELECT 1 FROM orders")) == 51


def test_an_order_that_was_given_to_this_customer_is_found_by_its_number(
    source_shop: Harness, server: OrderServer
) -> None:
    source_shop.stock(order(customer={"email": GRACE}))
    server.stock(order())
    server.always = lambda request: down(request) if request.path == "/orders" else None
    source_shop.faults.openai += [calls("look_at_order", order_id="W1001"), ABOUT_ORDER]
    source_shop.write("Where is my order W1001?")
    at_rest(source_shop)
    assert "Order W1001 was delivered on" in source_shop.mails_to(ADA)[0].text


def test_a_number_that_the_system_does_not_know_is_said_to_be_none(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    source_shop.faults.openai += [
        calls("look_at_order", order_id="W9999"),
        says(Fact("no_order/W9999")),
    ]
    source_shop.write("Where is my order W9999?")
    at_rest(source_shop)
    assert "We cannot find order W9999" in source_shop.mails_to(ADA)[0].text
    assert server.asked("/orders/W9999") == 0  # the list was whole


def test_a_manager_decides_by_the_newest_version(source_shop: Harness, server: OrderServer) -> None:
    server.stock(big_order())
    source_shop.write(DESK_WISH)
    (request,) = source_shop.wait_for_mails(MONA)
    link = link_in(request.text)
    assert "Order as of" in source_shop.client.get(link).text
    decide(source_shop, link, "approve")
    source_shop.wait_for_refund("paid")
    assert server.asked("/orders/W2001") == 2


def refund_page(shop: Harness) -> str:
    return f"/ops/conversations/{thread(shop).conversation_id}/refund/W1001"


def test_the_teams_refund_page_shows_the_order_as_it_is_now(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    source_shop.write("When did my order W1001 arrive?")
    at_rest(source_shop)
    tess, asked = source_shop.log_in(TESS), server.asked("/orders/W1001")
    for _ in range(2):
        page = tess.get(refund_page(source_shop)).text
        assert ("$49.99" in page, "could not be looked up" in page) == (True, False)
    assert server.asked("/orders/W1001") == asked  # it was looked up a moment ago
    payment = {"payment_id": "pay_1001", "method": "card", "amount": "30.00"}
    item = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "30.00"}
    server.change("W1001", items=[item], payments=[payment])
    pass_time(source_shop, minutes=10)
    page = tess.get(refund_page(source_shop)).text
    assert ("$30.00" in page, "could not be looked up" in page) == (True, False)
    assert server.asked("/orders/W1001") == asked + 1
    assert len(versions_of(source_shop, "W1001")) == 2
    # A form that was open for long, too.
    server.change("W1001", payments=[payment | {"amount": "49.99"}], items=order_record()["items"])
    pass_time(source_shop, minutes=20)
    form = {"once": new_id("once"), "reason": "damaged", "units:K1": "1", "amount": "$30.00"}
    told = post_form(tess, refund_page(source_shop), page="/ops", **form)
    assert (told.status_code, "$49.99" in told.text) == (409, True)
    assert source_shop.refunds() == ()


def test_what_the_shop_has_cancelled_is_not_sent_again(
    source_shop: Harness, server: OrderServer
) -> None:
    """The person says that it is done, on a page from before the change."""
    server.stock(order())
    source_shop.write("Can I exchange the kettle of W1001 for another colour?")
    at_rest(source_shop)
    (task,) = source_shop.rows("SELECT remedy_id FROM remedies WHERE status = 'task'")
    server.change("W1001", status="cancelled")
    pass_time(source_shop, minutes=10)
    tess = source_shop.log_in(TESS)
    told = post_form(tess, f"/ops/tasks/{task.remedy_id}", page="/ops", done="yes")
    assert (told.status_code, "The order is cancelled" in told.text) == (422, True)


def test_the_sweep_sees_that_the_shop_has_cancelled_the_order_of_a_task(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    source_shop.write("Can I exchange the kettle of W1001 for another colour?")
    at_rest(source_shop)
    server.change("W1001", status="cancelled")
    pass_time(source_shop, minutes=61)

    def is_told() -> bool:
        enqueue_mail()
        return any("it is stopped" in mail.subject for mail in source_shop.mails_to(MONA))

    wait_until(is_told, 40, "the manager to be told")
    assert server.asked("/orders/W1001") == 2


# --- the source is away ---------------------------------------------------------------------------


def test_the_teams_refund_page_shows_the_last_version_if_the_source_is_away_or_slow(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    source_shop.write("When did my order W1001 arrive?")
    at_rest(source_shop)
    pass_time(source_shop, minutes=10)
    tess, wakes = source_shop.log_in(TESS), Event()

    def slow(_request: Request) -> Answer | None:
        wakes.wait(30)
        return None

    def is_old(most_seconds: float) -> bool:
        began = time.monotonic()
        page = tess.get(refund_page(source_shop)).text
        assert time.monotonic() - began < most_seconds
        assert ("Order as of" in page, "$49.99" in page) == (True, True)
        return "could not be looked up" in page

    server.always = slow
    assert is_old(LOOK_UP_SECONDS + 2)
    wakes.set()  # what took too long is shown the next time
    wait_until(lambda: not is_old(LOOK_UP_SECONDS + 2), 20, "the slow look-up to be saved")
    server.always = down
    moment = (source_shop.live.now() + timedelta(minutes=20)).replace(second=55)
    for _ in range(FAILURES_TO_OPEN):
        moment += timedelta(minutes=1)
        set_time(moment)
        asked = server.asked("/orders/W1001")
        assert is_old(LOOK_UP_SECONDS + 2)
        assert is_old(1)  # all pages of a minute have one look-up
        assert server.asked("/orders/W1001") == asked + 1
    set_time(moment + timedelta(seconds=6))  # another minute
    asked = server.asked("/orders/W1001")
    assert is_old(1)  # the circuit breaker is open
    assert server.asked("/orders/W1001") == asked


def set_time(moment: datetime) -> None:
    services.bind(replace(services.current(), now=lambda: moment))


def look_once(shop: Harness, server: OrderServer) -> None:
    """Let the shop learn of W1001."""
    server.stock(order())
    shop.faults.openai += [ABOUT_ORDER]
    shop.write("Where is W1001?")
    at_rest(shop)


def test_the_last_version_is_told_with_its_time(source_shop: Harness, server: OrderServer) -> None:
    look_once(source_shop, server)
    server.always = down
    pass_time(source_shop, hours=3)
    source_shop.faults.openai += [calls("look_at_order", order_id="W1001"), ABOUT_ORDER]
    source_shop.write("And now, where is W1001?")
    wait_until(lambda: len(source_shop.mails_to(ADA)) == 2, 30, "the answer")
    assert "(As of " in source_shop.mails_to(ADA)[1].text
    assert " UTC.)" in source_shop.mails_to(ADA)[1].text


def test_the_record_tells_where_a_parcel_is_and_of_an_old_state_the_time(
    source_shop: Harness, server: OrderServer
) -> None:
    parcel = {"shipment_id": "S1", "status": "in_transit", "carrier": "DHL", "tracking_number": "1"}
    server.stock(order(status="shipped", delivered_at=None, shipments=[parcel]))
    source_shop.faults.openai += [says(Fact("parcels/W1001"))]
    source_shop.write("Where is W1001?")
    at_rest(source_shop)
    server.always = down
    pass_time(source_shop, hours=72)
    source_shop.faults.openai += [calls("hand_over", reason="cannot_help", summary="Angry.")]
    source_shop.write("W1001 is still not here!")
    at_rest(source_shop)
    fresh, old = (mail.text for mail in source_shop.mails_to(ADA))
    state = "On record for order W1001\nParcel: DHL 1, on its way\nRefunded: nothing\n"
    assert f"{state}\nOnly what stands here" in fresh
    assert f"{state}(As of " in old


def test_that_nothing_was_refunded_is_told_with_the_time_of_the_last_version(
    source_shop: Harness, server: OrderServer
) -> None:
    look_once(source_shop, server)
    fresh = ask_what_was_refunded(source_shop, hours=1)
    server.change("W1001", payments=WITH_REFUND)
    server.always = down
    old = ask_what_was_refunded(source_shop)
    for said in ("Nothing has been refunded for order W1001.\n", "Refunded: nothing\n"):
        assert said in fresh
        assert f"{said}(As of " in old
    assert "As of" not in fresh


def test_what_was_paid_back_elsewhere_is_told_with_the_time_of_the_last_version(
    source_shop: Harness, server: OrderServer
) -> None:
    look_once(source_shop, server)
    server.change("W1001", payments=WITH_REFUND)
    fresh = ask_what_was_refunded(source_shop, hours=1)
    server.always = down
    old = ask_what_was_refunded(source_shop)
    said = "Paid back in another way: $30.00\n"
    assert fresh.count(said) == 2
    assert "As of" not in fresh
    assert old.count(f"{said}(As of ") == 2


def test_what_we_refunded_needs_no_time(source_shop: Harness, server: OrderServer) -> None:
    server.stock(order())
    source_shop.write(KETTLE_WISH)
    source_shop.wait_for_refund("paid")
    wait_until(lambda: len(source_shop.mails_to(ADA)) == 2, 30, "the receipt")
    at_rest(source_shop)
    server.always = down
    told = ask_what_was_refunded(source_shop)
    assert "was paid on" in told
    assert "As of" not in told


def ask_what_was_refunded(shop: Harness, hours: int = 72) -> str:
    """Let the customer ask some hours later what was refunded of W1001, and return the answer."""
    pass_time(shop, hours=hours)
    shop.faults.openai += ASKED_FOR_REFUNDS
    before = len(shop.mails_to(ADA))
    shop.write("Have you refunded something for W1001 already?")
    wait_until(lambda: len(shop.mails_to(ADA)) > before, 30, "the answer")
    return shop.mails_to(ADA)[-1].text


def test_an_old_list_has_its_time_although_one_of_its_orders_is_fresh(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order("W1002"))
    look_once(source_shop, server)
    pass_time(source_shop, hours=3)
    server.always = lambda request: down(request) if request.path == "/orders" else None
    source_shop.faults.openai += [
        calls("look_at_order", order_id="W1001"),
        calls("find_my_orders"),
        says(Fact("my_orders")),
    ]
    source_shop.write("Where is W1001, and which orders do I have?")
    wait_until(lambda: len(source_shop.mails_to(ADA)) == 2, 30, "the answer")
    assert server.asked("/orders/W1001") == 1
    assert "W1002" in source_shop.mails_to(ADA)[1].text
    assert "(As of " in source_shop.mails_to(ADA)[1].text


def test_a_wish_for_money_waits_and_is_then_paid_once(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    server.always = at_look(1, lambda: Answer(503))
    source_shop.write(KETTLE_WISH)
    source_shop.wait_for_refund("paid")
    at_rest(source_shop)
    assert len(source_shop.refunds()) == 1
    assert server.asked("/orders/W1001") == 3


def test_mail_about_an_unknown_order_is_put_off_until_the_source_is_back(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    server.always = down
    source_shop.write(KETTLE_WISH)
    put_off = "SELECT 1 FROM inbound_mails WHERE put_off > 0"
    wait_until(lambda: bool(source_shop.rows(put_off)), 30, "the mail to be put off")
    assert source_shop.refunds() == ()
    assert source_shop.mails_to(ADA) == []
    server.always = None
    pass_time(source_shop, minutes=2)

    def paid() -> bool:
        enqueue_mail()
        return any(refund.status == "paid" for refund in source_shop.refunds())

    wait_until(paid, 40, "the refund to be paid")
    assert len(source_shop.refunds()) == 1


def test_mail_that_waits_for_the_source_asks_the_model_only_once(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())
    server.always = down
    source_shop.write(KETTLE_WISH)
    put_off = "SELECT 1 FROM inbound_mails WHERE put_off > :n"
    wait_until(lambda: bool(source_shop.rows(put_off, n=0)), 30, "the mail to be put off")
    asked = len(source_shop.rows("SELECT 1 FROM model_calls"))
    pass_time(source_shop, minutes=2)

    def put_off_again() -> bool:
        enqueue_mail()
        return bool(source_shop.rows(put_off, n=1))

    wait_until(put_off_again, 30, "the mail to be put off again")
    assert len(source_shop.rows("SELECT 1 FROM model_calls")) == asked


def test_a_payment_waits_for_the_source(source_shop: Harness, server: OrderServer) -> None:
    server.stock(order())
    server.always = at_look(2, lambda: Answer(503))
    source_shop.write(KETTLE_WISH)
    source_shop.wait_for_refund("paid")
    assert server.asked("/orders/W1001") == 3
    assert len(source_shop.rows("SELECT 1 FROM ledger_entries")) == 1


def test_operators_see_a_source_that_refuses_our_token(
    source_shop: Harness, server: OrderServer
) -> None:
    look_once(source_shop, server)
    server.always = lambda _request: Answer(401)
    source_shop.write("Where is W1001?")
    at_rest(source_shop)
    assert incidents(source_shop) == {"provider:orders"}
    page = source_shop.log_in(OLGA).get("/ops").text
    assert "The order server refuses us" in page
    assert "ORDER_SOURCE_TOKEN" in page
    assert any("The order server refuses us" in mail.subject for mail in source_shop.mails_to(OLGA))


# --- the source fails before the payment ----------------------------------------------------------

DEADLINE_SECONDS = 1.0
ANOTHERS = order_record(
    "W2001",
    customer={"email": GRACE, "name": "Grace Example"},
    items=[{"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "77.00"}],
    payments=[{"payment_id": "pay_W2001", "method": "card", "amount": "77.00"}],
)
NOT_THEIRS = "We cannot find order W2001 among the orders of your mail address."
LEFT_ALONE = "The order server does not answer as it should"
TAKEN_FOR_WRONG = "The order server sends orders that cannot be taken"


def slow(_request: Request) -> Answer:
    time.sleep(DEADLINE_SECONDS * 2)
    return Answer(200, order_record())


def limited(_request: Request) -> Answer:
    return Answer(429, headers={"Retry-After": "600"})


def half(_request: Request) -> Answer:
    return Answer(200, json.dumps(order_record()).encode()[:-20])


def anothers(_request: Request) -> Answer:
    return Answer(200, ANOTHERS)


def from_look(
    number: int, fault: Callable[[Request], Answer]
) -> Callable[[Request], Answer | None]:
    """Return a lie: from the look-up of this number of one order on, every request is answered so."""
    seen: list[Request] = []

    def lie(request: Request) -> Answer | None:
        if request.path != "/orders":
            seen.append(request)
        return fault(request) if len(seen) >= number else None

    return lie


def hurry(shop: Harness, server: OrderServer) -> None:
    """Have the shop wait for its order server only DEADLINE_SECONDS."""
    source = HttpOrderSource(server.url, TOKEN, DEADLINE_SECONDS)
    shop.live = replace(shop.live, order_source=source)
    services.bind(shop.live)


def sleeps_on(shop: Harness) -> bool:
    """Whether the refund's run sleeps for a second more, or longer."""
    (run_id,) = runs_of(shop, "refund")
    run = shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
    assert run is not None
    last = run.steps[-1]
    return last.name == "DBOS.sleep" and float(str(last.output)) > time.time() + 1


def seen_by_operators(shop: Harness) -> str:
    subjects = [mail.subject for mail in shop.mails_to(OLGA)]
    return "\n".join([shop.log_in(OLGA).get("/ops").text, *subjects])


def look_ups_fail(shop: Harness) -> None:
    """Have other runs look W1001 up, too, until the circuit breaker must be open."""
    with ThreadPoolExecutor(FAILURES_TO_OPEN) as pool:
        found = list(pool.map(order_source.refresh, ["W1001"] * FAILURES_TO_OPEN))
    assert Freshness.FRESH not in found


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (down, LEFT_ALONE),
        (slow, LEFT_ALONE),
        (limited, LEFT_ALONE),
        (half, LEFT_ALONE),
        (anothers, TAKEN_FOR_WRONG),
    ],
    ids=["down", "slow", "rate limit", "half JSON", "another's order"],
)
def test_a_source_that_fails_before_the_payment_delays_it_and_operators_see_that(
    source_shop: Harness, server: OrderServer, fault: Callable[[Request], Answer], seen: str
) -> None:
    hurry(source_shop, server)
    server.stock(order())
    server.always = from_look(2, fault)
    source_shop.write(KETTLE_WISH)
    wait_until(lambda: server.asked("/orders/W1001") >= 2, 30, "the look-up before the payment")
    look_ups_fail(source_shop)
    wait_until(lambda: seen in seen_by_operators(source_shop), 10, "operators to see it")
    assert (LEFT_ALONE in seen_by_operators(source_shop)) == (seen is LEFT_ALONE)
    assert incidents(source_shop) == ({"order_records"} if seen is TAKEN_FOR_WRONG else set())
    at_rest(source_shop)
    assert [each.status for each in source_shop.refunds()] == ["approved"]
    assert ledger(source_shop) == []
    (promise,) = source_shop.mails_to(ADA)
    assert "We have refunded" not in promise.text

    wait_until(lambda: sleeps_on(source_shop), 20, "the run to sleep")
    server.always = None
    pass_time(source_shop, seconds=LONGEST_WISH_SECONDS)
    source_shop.wait_for_refund("paid")
    wait_for_quiet(source_shop)
    _, receipt = source_shop.mails_to(ADA)
    assert "We have refunded $49.99" in receipt.text
    assert ledger(source_shop) == [49_99]
    assert len(source_shop.refunds()) == 1
    assert source_shop.mails_to(TESS) == source_shop.mails_to(GRACE) == []
    assert source_shop.rows("SELECT 1 FROM orders WHERE order_id <> 'W1001'") == []
    assert "W2001" not in promise.text + receipt.text
    assert LEFT_ALONE not in source_shop.log_in(OLGA).get("/ops").text
    assert incidents(source_shop) == set()


def ledger(shop: Harness) -> list[int]:
    return [row.amount_minor for row in shop.rows("SELECT amount_minor FROM ledger_entries")]


# --- the order changes ----------------------------------------------------------------------------

CHEAPER = [{"payment_id": "pay_W1001", "method": "card", "amount": "9.99"}]


@pytest.mark.parametrize(
    "changes",
    [
        {"payments": WITH_REFUND},
        {"payments": CHEAPER},
        {"status": "cancelled"},
        {"customer": {"email": GRACE}},
        {"currency": "EUR"},
        {"items": [{"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "1.00"}]},
    ],
    ids=["refunded elsewhere", "less paid", "cancelled", "moved", "currency", "items"],
)
def test_an_order_that_changed_before_the_payment_pays_nothing_and_goes_to_the_team(
    source_shop: Harness, server: OrderServer, changes: dict[str, Any]
) -> None:
    server.stock(order())

    def change() -> Answer:
        server.change("W1001", **changes)
        return Answer(200, server.records["W1001"])

    server.always = at_look(2, change)
    source_shop.write(KETTLE_WISH)
    source_shop.wait_for_refund("failed")
    assert source_shop.rows("SELECT 1 FROM ledger_entries") == []
    source_shop.wait_for_mails(TESS)
    at_rest(source_shop)
    assert any("could not" in mail.text for mail in source_shop.mails_to(ADA))


@pytest.mark.parametrize("comes_back", [True, False])
def test_an_order_that_is_suddenly_gone_is_asked_for_again_before_its_refund_fails(
    source_shop: Harness, server: OrderServer, comes_back: bool
) -> None:
    server.stock(order())

    def vanish() -> Answer:
        del server.records["W1001"]
        return NONE

    server.always = at_look(2, vanish)
    source_shop.write(KETTLE_WISH)
    wait_until(lambda: incidents(source_shop) == {"order_records"}, 30, "operators to be told")
    assert source_shop.refunds()[0].status == "approved"
    assert any(
        "order W1001: is not in the shop's system any more" in mail.text
        for mail in source_shop.wait_for_mails(OLGA)
    )
    if comes_back:
        server.stock(order())
        source_shop.wait_for_refund("paid")
        assert incidents(source_shop) == set()
        return
    pass_time(source_shop, hours=37)
    source_shop.wait_for_refund("failed")
    assert source_shop.rows("SELECT 1 FROM ledger_entries") == []
    source_shop.wait_for_mails(TESS)


def test_less_is_refunded_if_the_shop_has_given_some_back_before_it_is_decided(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order())

    def change() -> Answer:
        server.change("W1001", payments=WITH_REFUND)
        return Answer(200, server.records["W1001"])

    server.always = at_look(1, change)
    source_shop.write(KETTLE_WISH)
    wait_until(lambda: bool(source_shop.refunds()), 30, "the refund")
    assert str(source_shop.refunds()[0].amount) == "19.99 USD"


@pytest.mark.parametrize("source", ["changed", "away"])
def test_a_replay_of_every_step_changes_nothing(
    source_shop: Harness, server: OrderServer, source: str
) -> None:
    server.stock(order())
    source_shop.write(KETTLE_WISH)
    source_shop.wait_for_refund("paid")
    source_shop.wait_for_mails(ADA, 2)
    wait_for_quiet(source_shop)
    before = facts(source_shop)
    server.change("W1001", status="cancelled")
    server.always = down if source == "away" else None
    client = source_shop.live.workflow_client
    for run_id in (*runs_of(source_shop, "conversation"), *runs_of(source_shop, "refund")):
        run = client.runs.find_run(run_id, with_steps=True)
        assert run is not None
        for step in reversed(run.steps):
            client.replays.replay_run(run_id, step.number)
            wait_for_quiet(source_shop)
            again = client.runs.find_run(run_id)
            assert again is not None
            assert again.status == "SUCCESS", (step, again.error)
            assert facts(source_shop) == before, step


def ask_for_list(shop: Harness) -> str:
    """Let the customer ask for their orders an hour after W1001 was looked up, and return the answer."""
    pass_time(shop, hours=1)
    shop.faults.openai += [calls("find_my_orders"), says(Fact("my_orders"))]
    shop.write("Which orders do I have?")
    wait_until(lambda: len(shop.mails_to(ADA)) == 2, 30, "the list")
    return shop.mails_to(ADA)[1].text


def test_an_order_that_was_given_to_another_customer_is_not_listed(
    source_shop: Harness, server: OrderServer
) -> None:
    moved = [order(f"M{number}") for number in range(10)]  # as many as a list shows
    server.stock(*moved)
    look_once(source_shop, server)
    for each in moved:
        server.change(each.order_id, customer={"email": GRACE})
    told = ask_for_list(source_shop)
    assert [each.order_id for each in moved if each.order_id in told] == []
    assert "W1001" in told
    assert "As of" not in told


def test_an_order_that_was_deleted_is_not_listed_and_looked_up_once(
    source_shop: Harness, server: OrderServer
) -> None:
    server.stock(order("W1002"))
    look_once(source_shop, server)
    del server.records["W1002"]
    told = ask_for_list(source_shop)
    assert "W1001" in told
    assert "W1002" not in told
    source_shop.faults.openai += [says(Phrase("happy_to_help"))]
    source_shop.write("Thanks")
    at_rest(source_shop)
    assert server.asked("/orders") == 3
    assert server.asked("/orders/W1002") == 1


def test_a_list_has_its_time_if_the_source_does_not_say_where_one_of_its_orders_is(
    source_shop: Harness, server: OrderServer
) -> None:
    look_once(source_shop, server)
    server.stock(order(customer={"email": GRACE}))
    server.always = lambda request: down(request) if request.path == "/orders/W1001" else None
    assert "(As of " in ask_for_list(source_shop)


def test_of_orders_that_the_source_does_not_list_only_as_many_as_a_list_shows_are_looked_up(
    source_shop: Harness, server: OrderServer
) -> None:
    source_shop.stock(*[order(f"OLD{number:02}") for number in range(25)])
    pass_time(source_shop, hours=1)
    source_shop.faults.openai += [calls("find_my_orders"), says(Fact("my_orders"))]
    source_shop.write("Which orders do I have?")
    at_rest(source_shop)
    assert len(server.requests) == 1 + 10
    assert "(As of " in source_shop.mails_to(ADA)[0].text


def test_a_look_up_of_a_slow_source_ends_and_the_list_has_its_time(
    source_shop: Harness, server: OrderServer
) -> None:
    source_shop.stock(*[order(f"OLD{number:02}") for number in range(5)])
    pass_time(source_shop, hours=1)
    server.always = lambda _request: pass_time(
        source_shop, hours=1, seconds=6 * len(server.requests)
    )
    source_shop.faults.openai += [calls("find_my_orders"), says(Fact("my_orders"))]
    source_shop.write("Which orders do I have?")
    at_rest(source_shop)
    assert len(server.requests) == 1 + 2  # 18 seconds
    assert "(As of " in source_shop.mails_to(ADA)[0].text


@pytest.mark.parametrize(("number", "is_whole"), [(12, False), (10, True)])
def test_a_list_says_if_the_source_may_have_other_orders(
    source_shop: Harness, server: OrderServer, number: int, is_whole: bool
) -> None:
    server.page_size = 5  # two pages are read
    server.stock(*(order(f"W{1000 + each}") for each in range(number)))
    source_shop.faults.openai += [calls("find_my_orders"), says(Fact("my_orders"))]
    source_shop.write("Which orders do I have?")
    at_rest(source_shop)
    (told,) = (mail.text for mail in source_shop.mails_to(ADA))
    assert told.count("\n- W1") == 10
    assert ("You may have other orders that are not listed here." in told) is not is_whole


def test_a_customer_whose_only_order_cannot_be_read_is_not_told_that_there_is_none(
    source_shop: Harness, server: OrderServer
) -> None:
    server.always = lambda _request: records(order_record(surprise=1))
    source_shop.faults.openai += [calls("find_my_orders"), says(Fact("my_orders"))]
    source_shop.write("Which orders do I have?")
    at_rest(source_shop)
    (told,) = (mail.text for mail in source_shop.mails_to(ADA))
    assert "We find no order of your mail address" not in told


# --- a source that lies ---------------------------------------------------------------------------


def records(*found: dict[str, Any], following: object = None) -> Answer:
    return Answer(200, {"orders": list(found), "next": following})


NEGATIVE = order_record(payments=[{"payment_id": "p", "method": "card", "amount": "-49.99"}])


@pytest.mark.parametrize(
    ("listed", "alone"),
    [
        (records(order_record(customer={"email": GRACE})), None),
        (records(NEGATIVE), Answer(200, NEGATIVE)),
        (records(order_record(surprise=1)), Answer(200, order_record(surprise=1))),
        (records(), Answer(200, order_record("W1002"))),
        (records(), Answer(200, order_record(customer={"email": GRACE}))),
    ],
    ids=["another's", "negative", "unknown key", "another order", "another's alone"],
)
def test_a_wrong_record_is_never_saved_or_refunded(
    source_shop: Harness, server: OrderServer, listed: Answer, alone: Answer | None
) -> None:
    server.always = lambda request: listed if request.path == "/orders" else alone
    source_shop.write(KETTLE_WISH)
    at_rest(source_shop)
    assert source_shop.refunds() == ()
    assert source_shop.rows("SELECT 1 FROM orders") == []
    assert len(source_shop.mails_to(ADA)) == 1
    assert "49.99" not in source_shop.mails_to(ADA)[0].text


@pytest.mark.parametrize(
    ("letter", "answers", "end"),
    [
        ("Which orders do I have?", [calls("find_my_orders"), says(Fact("my_orders"))], "- W1001,"),
        ("Where is my order W2001?", [calls("look_at_order", order_id="W2001")], NOT_THEIRS),
        ("The lamp of order W2001 is damaged, please refund it.", [], NOT_THEIRS),
    ],
    ids=["list", "look", "refund"],
)
def test_another_customers_order_in_a_list_is_neither_told_nor_paid_and_operators_hear_of_it(
    source_shop: Harness,
    server: OrderServer,
    letter: str,
    answers: list[Callable[[], Answer]],
    end: str,
) -> None:
    server.stock(order())
    lists = records(order_record(), ANOTHERS)
    server.always = lambda request: lists if request.path == "/orders" else Answer(200, ANOTHERS)
    source_shop.faults.openai += answers
    source_shop.write(letter)
    at_rest(source_shop)
    (told,) = source_shop.mails_to(ADA)
    assert end in told.text
    assert [each for each in ("Grace", GRACE, "Lamp", "77.00") if each in told.text] == []
    assert (source_shop.refunds(), ledger(source_shop)) == ((), [])
    assert source_shop.rows("SELECT order_id FROM orders") == [("W1001",)]
    assert incidents(source_shop) == {"order_records"}
    (alert,) = source_shop.wait_for_mails(OLGA)
    assert TAKEN_FOR_WRONG in alert.subject
    assert "orders of other customers in the list of one: 1" in alert.text


def test_operators_hear_of_records_that_cannot_be_taken(
    source_shop: Harness, server: OrderServer
) -> None:
    server.always = lambda _request: records(NEGATIVE)
    source_shop.faults.openai += [says(Phrase("happy_to_help"))]
    source_shop.write("Hello")
    at_rest(source_shop)
    assert incidents(source_shop) == {"order_records"}
    (told,) = source_shop.wait_for_mails(OLGA)
    assert "The order server sends orders that cannot be taken" in told.subject
    assert "payments" in told.text


def test_pages_that_loop_end_and_are_told(source_shop: Harness, server: OrderServer) -> None:
    server.endless = True
    server.stock(order())
    source_shop.write(KETTLE_WISH)
    source_shop.wait_for_refund("paid")
    assert server.asked("/orders") == 2
    assert any("repeats" in mail.text for mail in source_shop.wait_for_mails(OLGA))


def test_of_a_million_orders_fifty_are_taken(source_shop: Harness, server: OrderServer) -> None:
    server.endless = True
    server.stock(*(order(f"M{number}") for number in range(600)))
    source_shop.faults.openai += [says(Phrase("happy_to_help"))]
    source_shop.write("Hello")
    at_rest(source_shop)
    assert len(source_shop.rows("SELECT 1 FROM orders")) == 50
    assert any("orders has 600" in mail.text for mail in source_shop.wait_for_mails(OLGA))


def test_a_rate_limit_is_kept(source_shop: Harness, server: OrderServer) -> None:
    server.always = lambda _request: Answer(429, headers={"Retry-After": "600"})
    source_shop.faults.openai += [says(Phrase("happy_to_help"))]
    source_shop.write("Hello")
    at_rest(source_shop)
    with source_shop.live.database.snapshot() as connection:
        provider = source_shop.live.providers.orders
        assert provider
        breaker = circuit_breakers.find(connection, provider)
    assert breaker
    assert breaker.until_at
    assert breaker.until_at - source_shop.live.now() > timedelta(minutes=9)
    source_shop.faults.openai += [says(Phrase("happy_to_help"))]
    source_shop.write("Hello again")
    wait_until(lambda: len(source_shop.mails_to(ADA)) == 2, 30, "the second answer")
    assert len(server.requests) == 1
