"""Each remedy from the customer's letter to the mail that says what became of it, and the money behind it. No
mail says that something is so before it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import remedies, services
from mailagent.demo.fakes.http_server import Answer
from mailagent.demo.scripted_model import Fact
from mailagent.domain.refunds.policy import KeepOffers, LateParcels, Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from mailagent.store.privacy import erasure
from mailagent.workflows.steps.maintenance.unfinished import enqueue_refunds
from tests.cast import ADA, KETTLE_WISH, MONA, OLGA, TESS, order
from tests.harness import Harness, open_shop, pass_time, post_form, running, wait_until
from tests.order_server import OrderServer, source_settings
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.cells import cells
from tests.round_trips.replays import wait_for_quiet
from tests.tool_calls import calls, says

pytestmark = pytest.mark.both_databases

PENDING: dict[str, Any] = {"status": "pending", "delivered_at": None}
DAMAGED = RefundReason.DAMAGED
TOKEN = "a-token-of-the-shop-for-tests-only"
CANCEL = "Please cancel my order W1001."
ADDRESS = "Please change the delivery address of W1001 to:\n12 Canary Road, Springfield 12345"
SWAP = "Can I exchange the kettle of W1001 for another colour?"
REPLACEMENT = "Please send a replacement for the kettle of W1001, it is damaged."


def told(shop: Harness, count: int) -> str:
    return shop.wait_for_mails(ADA, count)[-1].text


def tick(shop: Harness, **fields: str) -> None:
    """Have Tess press a button at the one task there is."""
    (row,) = shop.rows("SELECT remedy_id FROM remedies WHERE status IN ('task', 'awaiting_goods')")
    done = post_form(shop.log_in(TESS), f"/ops/tasks/{row.remedy_id}", "/ops", **fields)
    assert done.status_code == 303


def books(shop: Harness) -> list[int]:
    return [row.amount_minor for row in shop.rows("SELECT amount_minor FROM ledger_entries")]


def bind_policy(shop: Harness, policy: Policy) -> None:
    shop.live = replace(shop.live, policy=policy)
    services.bind(shop.live)


@pytest.mark.both_databases(every_case=True)
@pytest.mark.parametrize(
    ("letter", "changes", "end"),
    [
        (SWAP, {}, "The exchange for order W1001 is arranged."),
        (REPLACEMENT, {}, "The replacement for order W1001 is arranged."),
        (ADDRESS, PENDING, "The delivery address of order W1001 is changed."),
    ],
    ids=["exchange", "replacement", "address"],
)
def test_what_people_do_is_told_once_when_it_is_done(
    busy_shop: Harness, letter: str, changes: dict[str, Any], end: str
) -> None:
    busy_shop.stock(order(**changes))
    busy_shop.write(letter)
    assert "our team has your request" in told(busy_shop, 1)
    tick(busy_shop, done="yes")
    assert end in told(busy_shop, 2)
    wait_for_quiet(busy_shop)
    assert (len(busy_shop.mails_to(ADA)), books(busy_shop)) == (2, [])


def test_an_address_in_a_task_is_erased_with_its_customer(busy_shop: Harness) -> None:
    busy_shop.stock(order(**PENDING))
    busy_shop.write(ADDRESS)
    told(busy_shop, 1)
    tick(busy_shop, done="yes", note="Canary Road it is.")
    told(busy_shop, 2)
    wait_for_quiet(busy_shop)
    assert any("Canary Road" in text for _, _, text in cells(busy_shop))
    page = f"/ops/customers/{ADA}/erase"
    erased = post_form(busy_shop.log_in(OLGA), page, page, address=ADA)
    assert erased.status_code in (200, 303), erased.text
    found = {
        (table, column) for table, column, text in cells(busy_shop) if "canary" in text.lower()
    }
    assert found == set()
    assert erasure.ERASED in {row.action for row in busy_shop.rows("SELECT action FROM audit")}


def test_an_order_is_cancelled_by_people_and_then_refunded(busy_shop: Harness) -> None:
    busy_shop.stock(order(**PENDING))
    busy_shop.write(CANCEL)
    assert "is cancelled" not in told(busy_shop, 1)
    assert books(busy_shop) == []
    tick(busy_shop, done="yes")
    texts = "\n".join(mail.text for mail in busy_shop.wait_for_mails(ADA, 3)[1:])
    assert "Order W1001 is cancelled." in texts
    assert "We have refunded $49.99" in texts
    assert books(busy_shop) == [49_99]


# --- parcels --------------------------------------------------------------------------------------

NEVER_CAME = "The kettle of order W1001 never arrived. I want my money back."
LATE = LateParcels(ask_after_days=5, refund_after_days=14)


def stock_parcel(shop: Harness, days: int) -> None:
    """Have an order whose parcel has not moved for so many days."""
    moved = (shop.live.now() - timedelta(days=days)).isoformat()
    parcel = {"shipment_id": "S1", "status": "in_transit", "last_event_at": moved}
    sent: dict[str, Any] = {"status": "shipped", "delivered_at": None, "shipments": [parcel]}
    shop.stock(order(placed_at="2026-01-02T00:00:00Z", **sent))


def test_a_parcel_that_is_late_enough_is_refunded_without_asking(busy_shop: Harness) -> None:
    bind_policy(busy_shop, Policy(late_parcels=LATE))
    stock_parcel(busy_shop, days=15)
    busy_shop.write(NEVER_CAME)
    assert "We have refunded $49.99" in told(busy_shop, 2)
    wait_for_quiet(busy_shop)
    assert (books(busy_shop), busy_shop.mails_to(MONA)) == ([49_99], [])


def test_a_manager_decides_on_a_parcel_that_is_late(busy_shop: Harness) -> None:
    bind_policy(busy_shop, Policy(late_parcels=LATE))
    stock_parcel(busy_shop, days=6)
    busy_shop.write(NEVER_CAME)
    (request,) = busy_shop.wait_for_mails(MONA)
    link = link_in(request.text)
    assert "Parcels" in busy_shop.client.get(link.removeprefix(busy_shop.live.shop.public_url)).text
    assert books(busy_shop) == []
    decide(busy_shop, link, "approve")
    assert "We have refunded $49.99" in told(busy_shop, 2)


def test_a_parcel_on_its_way_is_told_and_nothing_is_refunded(busy_shop: Harness) -> None:
    bind_policy(busy_shop, Policy(late_parcels=LATE))
    stock_parcel(busy_shop, days=1)
    busy_shop.write(NEVER_CAME)
    assert "on its way" in told(busy_shop, 1)
    wait_for_quiet(busy_shop)
    assert (busy_shop.refunds(), books(busy_shop)) == ((), [])


# --- the shop's own system ------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[OrderServer]:
    with_orders = OrderServer()
    with_orders.start()
    yield with_orders
    with_orders.stop()


@pytest.fixture
def sourced(tmp_path: Path, database_url: str, server: OrderServer) -> Iterator[Harness]:
    with open_shop(tmp_path, database_url, source_settings(server)) as shop, running(shop):
        yield shop


def test_the_shops_system_cancels_an_order_once(sourced: Harness, server: OrderServer) -> None:
    server.stock(order(**PENDING))
    sourced.write(CANCEL)
    texts = "\n".join(mail.text for mail in sourced.wait_for_mails(ADA, 3))
    assert "We are cancelling order W1001." in texts
    assert "Order W1001 is cancelled." in texts
    assert (len(server.cancelled_under), books(sourced)) == (1, [49_99])


SEVERAL: dict[str, Any] = {
    "items": [
        {"item_id": "K1", "name": "Kettle", "quantity": 2, "unit_price": "20.00"},
        {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "9.99"},
    ],
}


def test_the_shops_system_cancels_units_and_the_order_goes_on(
    sourced: Harness, server: OrderServer
) -> None:
    server.stock(order(**PENDING, **SEVERAL))
    sourced.write("Please cancel 1 kettle of order W1001.")
    assert sourced.wait_for_refund("paid").amount.minor == 20_00
    sourced.write("Please cancel the lamp of order W1001, too.")
    wait_until(lambda: sorted(books(sourced)) == [9_99, 20_00], 30, "the lamp to be refunded")


def test_items_that_are_all_there_is_are_cancelled_as_the_whole_order(
    sourced: Harness, server: OrderServer
) -> None:
    server.stock(order(**PENDING))
    sourced.write("Please cancel the kettle of order W1001.")
    sourced.wait_for_refund("paid")
    (asked,) = (each for each in server.requests if each.path.endswith("/cancel"))
    assert json.loads(asked.body)["items"] is None


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "another item": {"items": SEVERAL["items"][:1]},
    "more units": {"items": SEVERAL["items"][1:]},
    "more items": {"items": [SEVERAL["items"][0] | {"quantity": 1}]},
    "the whole order": {"status": "cancelled"},
    "of another order": {"order_id": "W1002", "items": [{**SEVERAL["items"][0], "quantity": 1}]},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_what_is_cancelled_otherwise_than_asked_pays_nothing_and_people_are_told(
    sourced: Harness, server: OrderServer, changes: dict[str, Any]
) -> None:
    server.stock(order(**PENDING, **SEVERAL))

    def lie(request: Any) -> Answer | None:
        if not request.path.endswith("/cancel"):
            return None
        server.records["W1001"] |= changes
        return Answer(200, server.records["W1001"])

    server.always = lie
    sourced.write("Please cancel 1 kettle of order W1001.")
    (mail,) = sourced.wait_for_mails(TESS)
    assert "says that it is cancelled, but" in mail.text
    assert sourced.rows("SELECT status FROM remedies") == [("task",)]
    assert [each.status for each in sourced.refunds()] == ["approved"]
    assert (len(sourced.wait_for_mails(ADA)), books(sourced)) == (1, [])


def test_an_order_that_is_shipped_meanwhile_is_not_refunded(
    sourced: Harness, server: OrderServer
) -> None:
    server.stock(order(**PENDING))

    def ships(request: Any) -> None:
        if request.path.endswith("/cancel"):
            server.change("W1001", status="shipped")

    server.always = ships
    sourced.write(CANCEL)
    texts = [mail.text for mail in sourced.wait_for_mails(ADA, 2)]
    assert "Order W1001 can no longer be cancelled." in texts[1]
    wait_for_quiet(sourced)
    assert not any("W1001 is cancelled" in text for text in texts)
    assert (len(sourced.mails_to(ADA)), server.cancelled_under, books(sourced)) == (2, [], [])


ALL_GIVEN_BACK = {
    "payments": [
        {"payment_id": "pay_W1001", "method": "card", "amount": "49.99", "refunded": "49.99"}
    ]
}


def test_a_shop_that_refunds_when_it_cancels_pays_once_and_the_customer_reads_that(
    sourced: Harness, server: OrderServer
) -> None:
    server.stock(order(**PENDING))

    def refunds_too(request: Any) -> None:
        if request.path.endswith("/cancel"):
            server.change("W1001", **ALL_GIVEN_BACK)

    server.always = refunds_too
    sourced.write(CANCEL)
    texts = "\n".join(mail.text for mail in sourced.wait_for_mails(ADA, 3))
    assert "all that you paid for the order had already been paid back" in texts
    assert "could not be completed" not in texts
    assert books(sourced) == []


@pytest.mark.parametrize(
    ("letter", "before", "after", "end"),
    [
        (CANCEL, PENDING, {"status": "shipped"}, "W1001 can no longer be cancelled"),
        (REPLACEMENT, {}, ALL_GIVEN_BACK, "is left to refund"),
        ("Yes, please.", {}, ALL_GIVEN_BACK, "does not stand any more"),
    ],
    ids=["cancellation", "replacement", "offer"],
)
def test_nothing_is_promised_on_an_old_order_while_the_source_is_away(
    sourced: Harness,
    server: OrderServer,
    letter: str,
    before: dict[str, Any],
    after: dict[str, Any],
    end: str,
) -> None:
    bind_policy(sourced, Policy(keep_offers=KeepOffers({DAMAGED: 30})))
    server.stock(order(**before))
    answers, changes = [], {}
    if letter.startswith("Yes"):
        sourced.write(KETTLE_WISH)
        answers = sourced.wait_for_mails(ADA)
        changes = {"in_reply_to": answers[0].message_id, "subject": "Re: My kettle"}

    def goes_away_once(request: Any) -> Answer | None:
        if request.path != "/orders/W1001":
            return None
        server.change("W1001", **after)
        server.always = None
        return Answer(503)

    server.always = goes_away_once
    sourced.write(letter, **changes)
    assert end in told(sourced, len(answers) + 1)
    assert sourced.refunds() == ()
    assert sourced.rows("SELECT 1 FROM remedies") == []


def test_an_order_beyond_the_newest_is_looked_up_before_it_is_cancelled(
    sourced: Harness, server: OrderServer
) -> None:
    newest = [order(f"N{number}", placed_at="2026-11-01T00:00:00Z") for number in range(60)]
    server.stock(order(**PENDING, placed_at="2026-10-01T00:00:00Z"), *newest)
    sourced.faults.openai += [
        calls("cancel_order", order_id="W1001", items=[]),
        says(Fact("remedy/W1001")),
    ]
    sourced.write(CANCEL)
    sourced.wait_for_refund("paid")
    assert server.count_cancelled("W1001") == 1


# --- goods first ----------------------------------------------------------------------------------


@pytest.fixture
def careful(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop that wants damaged goods back first."""
    with open_shop(tmp_path, database_url, {"ORDERS_API_TOKEN": TOKEN}) as shop:
        bind_policy(shop, Policy(return_first=ReturnFirst(frozenset({DAMAGED}), "Send it back.")))
        shop.stock(order())
        with running(shop):
            yield shop


def test_a_refund_is_paid_once_when_the_warehouse_has_the_goods(careful: Harness) -> None:
    careful.write(KETTLE_WISH)
    assert "Send it back." in told(careful, 2)
    assert books(careful) == []
    (refund,) = careful.refunds()
    path, headers = (
        f"/api/returns/{refund.refund_id}/received",
        {"Authorization": f"Bearer {TOKEN}"},
    )
    assert careful.client.post(path).status_code == 401
    assert [careful.client.post(path, headers=headers).status_code for _ in range(2)] == [201, 200]
    assert "We have refunded $49.99" in told(careful, 3)
    wait_for_quiet(careful)
    assert (len(careful.mails_to(ADA)), books(careful)) == (3, [49_99])


def test_the_sweep_wakes_who_missed_that_the_goods_are_back_and_nobody_before(
    careful: Harness,
) -> None:
    careful.write(KETTLE_WISH)
    told(careful, 2)
    live = services.current()
    services.bind(replace(live, waits=replace(live.waits, sweep_after_seconds=0)))
    assert [enqueue_refunds() for _ in range(2)] == [0, 0]
    with careful.live.database.transaction() as connection:
        # As after a rewind, which loses messages.
        done = "UPDATE remedies SET status = 'done', decided_at = :now"
        connection.execute(sa.text(done), {"now": live.now()})
    assert enqueue_refunds() == 1
    careful.wait_for_refund("paid")


def test_who_keeps_the_goods_is_reminded_and_then_not_paid(careful: Harness) -> None:
    careful.write(KETTLE_WISH)
    told(careful, 2)
    for days, mails in ((12, 3), (16, 4)):
        pass_time(careful, days=days)
        wake(careful)
        last = told(careful, mails)
    assert "did not come back in time, so nothing is refunded" in last
    assert [each.status for each in careful.refunds()] == ["withdrawn"]
    assert books(careful) == []


def wake(shop: Harness) -> None:
    """Wake the refund's run, which looks at its rows every six hours."""
    (refund,) = shop.refunds()
    with shop.live.database.transaction() as connection:
        remedies.wake(connection, refund, str(services.current().now()))


@pytest.mark.parametrize("is_left", [True, False])
def test_goods_are_asked_for_only_once_the_order_was_looked_up(
    sourced: Harness, server: OrderServer, is_left: bool
) -> None:
    """The source is away when a manager approves. Meanwhile the shop refunds the order, or not."""
    rules = ReturnFirst(frozenset({DAMAGED}), "Send it back.")
    bind_policy(sourced, Policy({"USD": 1}, return_first=rules))
    server.stock(order())
    sourced.write(KETTLE_WISH)
    (request,) = sourced.wait_for_mails(MONA)
    server.always = lambda _request: Answer(503)
    decide(sourced, link_in(request.text), "approve")
    noted = "SELECT 1 FROM refunds WHERE look_up_problem_met_at IS NOT NULL"
    wait_until(lambda: bool(sourced.rows(noted)), 30, "the refund to wait for the source")
    before = len(sourced.mails_to(ADA))
    if not is_left:
        paid = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}
        server.change("W1001", payments=[paid | {"refunded": "49.99"}])
    server.always = None
    if is_left:
        assert "Send it back." in told(sourced, before + 1)
        tick(sourced, done="yes")
        sourced.wait_for_refund("paid")
    else:
        assert "could not" in told(sourced, before + 1)
        sourced.wait_for_mails(TESS)
    wait_for_quiet(sourced)
    assert sum("Send it back." in mail.text for mail in sourced.mails_to(ADA)) == is_left
    assert books(sourced) == [49_99] * is_left


# --- part of the price ----------------------------------------------------------------------------


@pytest.fixture
def offering(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    with open_shop(tmp_path, database_url) as shop:
        bind_policy(shop, Policy(keep_offers=KeepOffers({DAMAGED: 30})))
        shop.stock(order())
        with running(shop):
            yield shop


@pytest.mark.both_databases(every_case=True)
@pytest.mark.parametrize(
    ("answer", "paid"),
    [("Yes, please.", 14_99), ("No, please refund the kettle of W1001, it is broken.", 49_99)],
)
def test_an_offer_is_accepted_by_an_answer_or_declined_by_asking_again(
    offering: Harness, answer: str, paid: int
) -> None:
    offering.write(KETTLE_WISH)
    (offer,) = offering.wait_for_mails(ADA)
    assert "Then we refund $14.99, which is 30%." in offer.text
    assert books(offering) == []
    offering.write(answer, in_reply_to=offer.message_id, subject="Re: My kettle")
    offering.wait_for_refund("paid")
    wait_until(lambda: len(offering.mails_to(ADA)) == 3, 30, "answer and receipt")
    assert books(offering) == [paid]
