"""Goods first, then money: approved now, paid when they are back, lapsed when they do not come."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mailagent import handback, services
from mailagent.domain.deadline import end_of_day
from mailagent.domain.money import Money
from mailagent.domain.orders.source import SourceProblem
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.payment import GatewayRefund, RefundRequest, RefundState
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.domain.remedies.remedy import RemedyKind, RemedyStatus
from mailagent.domain.text import NeedsOperatorError
from mailagent.mailers.fact import sentence
from mailagent.mailers.values import list_remedies
from mailagent.remedies import close, finish
from mailagent.store.privacy import erasure
from mailagent.store.refunds import external_refunds, refunds, remedies
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.tools.request_change import request_change
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import ADA, OLGA, TESS, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, open_shop, pass_time, post_form
from tests.programs.money.bank import Bank
from tests.tool_use import use
from tests.workflows.camera import click, later_batch, page_of, reject
from tests.workflows.cancelling import PlayedSource, with_source
from tests.workflows.paying import look, pay, tell
from tests.workflows.proposals import propose, write

MUGS = {"item_id": "M1", "name": "Mug", "quantity": 3, "unit_price": "10.00"}
PAID = {"payment_id": "p", "method": "card", "amount": "30.00"}
RULES = ReturnFirst(frozenset({RefundReason.CHANGED_MIND}), "Send it to 1 Shop Street.", days=14)


@pytest.fixture
def batch(shop: Harness) -> Batch:
    services.bind(replace(shop.live, policy=Policy(return_first=RULES)))
    shop.stock(order(), big_order())
    return write(shop, text="I do not want the kettle of W1001.")


def ask(batch: Batch, reason: str = "changed_mind") -> dict[str, Any]:
    return propose(batch, "W1001", reason=reason)


def states(shop: Harness) -> list[tuple[str, str]]:
    rows = shop.rows(
        "SELECT f.status AS refund, coalesce(r.status, '') AS goods FROM refunds f"
        " LEFT JOIN remedies r ON r.refund_id = f.refund_id ORDER BY f.refund_id"
    )
    return [(row.refund, row.goods) for row in rows]


def refund_id(shop: Harness) -> str:
    return shop.refunds()[-1].refund_id


def mails(shop: Harness) -> list[str]:
    rows = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'remedy' ORDER BY created_at")
    return [row.text for row in rows]


def day(moment: Any) -> int:
    return datetime.fromisoformat(str(moment)).toordinal()


def due_at(shop: Harness) -> datetime:
    with shop.live.database.snapshot() as connection:
        remedy = remedies.find_of_refund(connection, refund_id(shop))
    assert remedy is not None
    return remedy.due_at


def go_to(moment: datetime, **delta: float) -> None:
    services.bind(replace(services.current(), now=lambda: moment + timedelta(**delta)))


def remedy_id(shop: Harness) -> str:
    return str(shop.rows("SELECT remedy_id FROM remedies")[0].remedy_id)


def test_a_refund_is_approved_and_paid_when_the_goods_are_back(shop: Harness, batch: Batch) -> None:
    told = ask(batch)
    assert told["outcome"] == "approved"
    assert states(shop) == [("approved", "awaiting_goods")]
    state = pay(refund_id(shop))
    assert (state["status"], state["wait_seconds"]) == ("approved", 6 * 3600)
    assert pay(refund_id(shop))["status"] == "approved"
    (mail,) = mails(shop)
    assert "- 1 × Kettle\nSend it to 1 Shop Street." in mail
    page = shop.log_in(TESS).get(f"/ops/refunds/{refund_id(shop)}").text
    assert "No mail about the refund itself yet. Others are in the" in page
    with shop.live.database.transaction() as connection:
        fact = batch_reader(connection, batch).find("refund/W1001")
        assert fact is not None
        assert "It is paid when the goods are back with us; they must be back" in sentence(fact)
        assert finish(connection, remedy_id(shop), TESS, True, None)
    assert pay(refund_id(shop))["status"] == "paid"
    assert states(shop) == [("paid", "done")]
    assert len(mails(shop)) == 1  # the receipt tells the rest


@ONE_DATABASE
def test_a_refund_is_beyond_withdrawal_once_the_goods_are_back(shop: Harness, batch: Batch) -> None:
    ask(batch)
    for is_back in (False, True):
        with shop.live.database.transaction() as connection:
            assert not is_back or finish(connection, remedy_id(shop), TESS, True, None)
            fact = batch_reader(connection, batch).find("not_withdrawn/W1001")
        assert (fact is not None) is is_back
    assert use(withdraw_refund, batch, {"order_id": "W1001"})["outcome"] == "too_late"


@ONE_DATABASE
def test_goods_on_their_way_to_the_customer_come_back_first(shop: Harness, batch: Batch) -> None:
    shop.stock(order("W3", status="shipped", delivered_at=None))
    propose(batch, "W3", reason="changed_mind")
    assert states(shop) == [("awaiting_approval", "awaiting_goods")]


def test_no_goods_are_asked_for_before_a_manager_has_decided(shop: Harness, batch: Batch) -> None:
    services.bind(replace(services.current(), policy=Policy({"USD": 1}, return_first=RULES)))
    ask(batch)
    assert states(shop) == [("awaiting_approval", "awaiting_goods")]

    def told() -> str | None:
        with shop.live.database.transaction() as connection:
            fact = batch_reader(connection, batch).find("remedy/W1001")
        return sentence(fact) if fact else None

    assert told() is None
    click(shop, "approve")
    assert "please send these goods back" in str(told())


@ONE_DATABASE
@pytest.mark.parametrize("reason", ["damaged", "wrong_item", "other"])
def test_other_reasons_are_paid_at_once(shop: Harness, batch: Batch, reason: str) -> None:
    ask(batch, reason)
    assert pay(refund_id(shop))["status"] == "paid"
    assert states(shop) == [("paid", "")]


@pytest.mark.parametrize("was_asked", [False, True])
def test_no_goods_are_asked_for_once_the_bank_has_the_money(
    shop: Harness, batch: Batch, was_asked: bool
) -> None:
    ask(batch)
    if was_asked:
        pay(refund_id(shop))
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}
    shop.stock(order(payments=[paid | {"charged_back_at": shop.live.now().isoformat()}]))
    go_to(due_at(shop), days=-3)
    assert pay(refund_id(shop))["status"] == "failed"
    assert states(shop) == [("failed", "not_possible")]
    assert len(mails(shop)) == was_asked
    (case,) = [row.text for row in outcomes(shop) if row.purpose == "hand_over"]
    assert "chargeback" in case


def outcomes(shop: Harness) -> Any:
    """Tell of the refund; return the mails about it."""
    tell(refund_id(shop))
    return shop.rows("SELECT purpose, text FROM outbound_mails")


def test_what_does_not_come_back_lapses_and_the_customer_is_told_before(
    shop: Harness, batch: Batch
) -> None:
    ask(batch)
    pay(refund_id(shop))
    due = due_at(shop)
    go_to(due, days=-3, seconds=-1)
    pay(refund_id(shop))
    assert len(mails(shop)) == 1
    go_to(due, days=-3)
    assert [pay(refund_id(shop))["status"] for _ in range(2)] == ["approved", "approved"]
    assert len(mails(shop)) == 2
    go_to(due)
    assert [pay(refund_id(shop))["status"] for _ in range(2)] == ["withdrawn", "withdrawn"]
    assert "did not come back in time, so nothing is refunded" in mails(shop)[2]
    assert "State: lapsed, because what it depended on did not happen" in mails(shop)[2]
    page = shop.log_in(TESS).get(f"/ops/refunds/{refund_id(shop)}").text
    assert "the request is expired" in page
    assert "withdrawn by the customer" not in page
    assert states(shop) == [("withdrawn", "expired")]
    assert shop.rows("SELECT 1 FROM refund_payments") == []
    assert shop.rows("SELECT 1 FROM orders WHERE held_minor > 0") == []


def test_goods_may_come_back_until_the_end_of_the_day_that_was_told(
    shop: Harness, batch: Batch
) -> None:
    ask(batch)
    pay(refund_id(shop))
    due = due_at(shop)
    assert due == end_of_day(services.current().now() + timedelta(days=14))
    assert f"They must be with us by {due.day} {due:%B %Y};" in mails(shop)[0]
    go_to(due, days=-3)
    pay(refund_id(shop))
    go_to(due, seconds=-1)
    assert pay(refund_id(shop))["status"] == "approved"
    with shop.live.database.transaction() as connection:
        assert finish(connection, remedy_id(shop), TESS, True, None)
    assert pay(refund_id(shop))["status"] == "paid"


def test_nothing_lapses_before_the_customer_was_reminded(shop: Harness, batch: Batch) -> None:
    ask(batch)
    pay(refund_id(shop))
    pass_time(shop, days=20)  # no worker ran
    assert pay(refund_id(shop))["status"] == "approved"
    assert len(mails(shop)) == 2
    (row,) = shop.rows("SELECT reminded_at, due_at FROM remedies")
    assert day(row.due_at) - day(row.reminded_at) == 3
    go_to(due_at(shop), seconds=-1)
    assert pay(refund_id(shop))["status"] == "approved"
    go_to(due_at(shop))
    assert pay(refund_id(shop))["status"] == "withdrawn"
    assert len(mails(shop)) == 3


@ONE_DATABASE
def test_a_short_time_is_reminded_of_in_its_middle(shop: Harness, batch: Batch) -> None:
    services.bind(replace(services.current(), policy=Policy(return_first=replace(RULES, days=2))))
    ask(batch)
    assert [pay(refund_id(shop))["status"] for _ in range(2)] == ["approved", "approved"]
    assert len(mails(shop)) == 1
    go_to(due_at(shop), days=-1)
    pay(refund_id(shop))
    assert len(mails(shop)) == 2


@ONE_DATABASE
def test_only_what_was_approved_is_asked_back(shop: Harness, batch: Batch) -> None:
    shop.stock(order("W3", items=[MUGS], payments=[PAID]))
    services.bind(replace(services.current(), policy=Policy({"USD": 1}, return_first=RULES)))
    propose(batch, "W3", ("M1", 3), reason="changed_mind")
    with shop.live.database.transaction() as connection:
        refund = refunds.lock(connection, refund_id(shop))
        refunds.lower(connection, refund, Money(10_00, "USD"), {refund.lines[0].line_no: 1})
        refunds.move(connection, refund, RefundStatus.APPROVED)
    pay(refund_id(shop))
    assert "- 1 × Mug\n" in mails(shop)[0]


@ONE_DATABASE
def test_words_of_the_person_who_got_the_goods_reach_the_customer(
    shop: Harness, batch: Batch
) -> None:
    ask(batch)
    pay(refund_id(shop))
    with shop.live.database.transaction() as connection:
        finish(connection, remedy_id(shop), TESS, True, "Thank you for the box.")
    assert "are back with us." in mails(shop)[-1]
    assert "> Thank you for the box." in mails(shop)[-1]


@ONE_DATABASE
def test_a_customer_is_not_erased_while_goods_are_awaited(shop: Harness, batch: Batch) -> None:
    ask(batch)
    with (
        shop.live.database.transaction() as connection,
        pytest.raises(erasure.ErasureRefusedError, match="Goods are to come back"),
    ):
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())


def test_goods_that_are_not_taken_back_are_not_paid(shop: Harness, batch: Batch) -> None:
    ask(batch)
    pay(refund_id(shop))
    with shop.live.database.transaction() as connection:
        finish(connection, remedy_id(shop), TESS, False, "It was used.")
    assert pay(refund_id(shop))["status"] == "withdrawn"
    assert "> It was used." in mails(shop)[-1]


@ONE_DATABASE
def test_a_manager_decides_before_the_customer_sends_anything(shop: Harness, batch: Batch) -> None:
    propose(batch, "W2001", ("D1", None), reason="changed_mind")
    assert look(refund_id(shop))["status"] == "awaiting_approval"
    assert mails(shop) == []
    assert "It is paid when the goods are back." in page_of(shop)
    reject(shop)
    pass_time(shop, hours=1)
    assert look(refund_id(shop))["status"] == "rejected"
    tell(refund_id(shop))
    assert states(shop) == [("rejected", "not_possible")]


SENT = {"shipment_id": "S1", "status": "in_transit"}


@ONE_DATABASE
@pytest.mark.parametrize(
    ("meanwhile", "state"),
    [
        ({"status": "shipped"}, "awaiting_goods"),
        ({"shipments": [SENT]}, "awaiting_goods"),
        ({"shipments": [SENT | {"items": [{"item_id": "K1", "quantity": 1}]}]}, "awaiting_goods"),
        ({"shipments": [SENT | {"status": "label_created"}]}, ""),
        ({"shipments": [SENT | {"status": "returned"}]}, ""),
        ({}, ""),
    ],
    ids=["order", "parcel", "its parcel", "label only", "came back", "nothing"],
)
def test_goods_that_leave_while_a_manager_thinks_come_back_first(
    shop: Harness, batch: Batch, meanwhile: dict[str, Any], state: str
) -> None:
    pending: dict[str, Any] = {"status": "pending", "delivered_at": None}
    shop.stock(order(**pending))
    ask(batch)
    assert states(shop) == [("awaiting_approval", "")]
    shop.stock(order(**(pending | meanwhile)))
    click(shop, "approve")
    assert states(shop) == [("approved", state)]
    assert pay(refund_id(shop))["status"] == ("approved" if state else "paid")
    assert len(mails(shop)) == bool(state)


@ONE_DATABASE
@pytest.mark.parametrize(
    ("item_id", "units", "state"), [("M1", 3, "awaiting_goods"), ("M1", 2, ""), ("K1", 3, "")]
)
def test_of_an_order_that_is_sent_in_parts_only_what_has_left_comes_back(
    shop: Harness, batch: Batch, item_id: str, units: int, state: str
) -> None:
    sent = SENT | {"items": [{"item_id": "M1", "quantity": units}]}
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
    shop.stock(
        order(
            "W3",
            status="pending",
            delivered_at=None,
            items=[MUGS, kettle],
            shipments=[sent],
            payments=[PAID | {"amount": "79.99"}],
        )
    )
    propose(batch, "W3", (item_id, None), reason="changed_mind")
    assert states(shop) == [("awaiting_approval", state)]


@ONE_DATABASE
def test_a_return_stands_although_the_policy_has_none_any_more(shop: Harness, batch: Batch) -> None:
    propose(batch, "W2001", ("D1", None), reason="changed_mind")
    look(refund_id(shop))
    services.bind(replace(services.current(), policy=Policy()))
    pass_time(shop, days=5)
    click(shop, "approve")
    assert pay(refund_id(shop))["status"] == "approved"
    assert "Send it to 1 Shop Street." in mails(shop)[0]
    (row,) = shop.rows("SELECT due_at FROM remedies")
    assert day(row.due_at) - services.current().now().toordinal() == 14


@ONE_DATABASE
def test_never_mind_keeps_the_goods(shop: Harness, batch: Batch) -> None:
    ask(batch)
    pay(refund_id(shop))
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert (told["outcome"], told["requests"]) == ("withdrawn", ["return"])
    assert states(shop) == [("withdrawn", "withdrawn")]
    assert pay(refund_id(shop))["status"] == "withdrawn"


# --- goods come back once -------------------------------------------------------------------------


def finish_return(shop: Harness, number: int = 0) -> None:
    rows = shop.rows("SELECT remedy_id FROM remedies ORDER BY remedy_id")
    with shop.live.database.transaction() as connection:
        assert finish(connection, rows[number].remedy_id, TESS, True, None)


def approve_a_part(shop: Harness, batch: Batch) -> str:
    """Have Mona approve 30.00 of the kettle's price, and ask for the kettle."""
    services.bind(replace(services.current(), policy=Policy({"USD": 1}, return_first=RULES)))
    ask(batch)
    click(shop, "approve", amount="30.00")
    assert pay(refund_id(shop))["status"] == "approved"
    return refund_id(shop)


@pytest.mark.both_databases
def test_the_rest_of_the_price_of_goods_that_are_back_is_paid_at_once(
    shop: Harness, batch: Batch
) -> None:
    first = approve_a_part(shop, batch)
    finish_return(shop)
    assert pay(first)["status"] == "paid"
    ask(later_batch(shop, batch))
    click(shop, "approve")
    assert pay(refund_id(shop))["status"] == "paid"
    assert states(shop) == [("paid", "done"), ("paid", "")]
    assert len(mails(shop)) == 1


def test_goods_that_come_back_for_a_part_of_the_price_are_back_for_the_rest(
    shop: Harness, batch: Batch
) -> None:
    first = approve_a_part(shop, batch)
    ask(later_batch(shop, batch))
    click(shop, "approve")
    assert pay(refund_id(shop))["status"] == "approved"
    finish_return(shop)
    assert states(shop) == [("approved", "done"), ("approved", "done")]
    assert [pay(each)["status"] for each in (first, refund_id(shop))] == ["paid", "paid"]


@ONE_DATABASE
def test_goods_that_are_back_for_a_refund_that_was_not_paid_are_not_asked_for_again(
    shop: Harness, batch: Batch
) -> None:
    shop.stock(order("W3", items=[MUGS | {"quantity": 2}], payments=[PAID | {"amount": "20.00"}]))
    propose(batch, "W3", ("M1", 1), reason="changed_mind")
    finish_return(shop)
    with shop.live.database.transaction() as connection:
        refund = refunds.lock(connection, refund_id(shop))
        refunds.move(connection, refund, RefundStatus.FAILED, failure="a closed account")
    again = later_batch(shop, batch)
    propose(again, "W3", ("M1", 1), reason="changed_mind")
    assert states(shop) == [("failed", "done"), ("approved", "")]
    assert pay(refund_id(shop))["status"] == "paid"
    propose(later_batch(shop, again), "W3", ("M1", 1), reason="changed_mind")  # the other mug
    click(shop, "approve")
    assert states(shop)[2] == ("approved", "awaiting_goods")


@ONE_DATABASE
@pytest.mark.parametrize("first_is_cut", [False, True])
def test_the_rest_of_a_price_waits_for_the_unit_that_it_is_for(
    shop: Harness, batch: Batch, first_is_cut: bool
) -> None:
    def ask_for_a_mug(**approved: str) -> str:
        propose(later_batch(shop, batch), "W3", ("M1", 1), reason="changed_mind")
        click(shop, "approve", **approved)
        pay(refund_id(shop))
        return refund_id(shop)

    services.bind(replace(services.current(), policy=Policy({"USD": 1}, return_first=RULES)))
    shop.stock(order("W3", items=[MUGS | {"quantity": 2}], payments=[PAID | {"amount": "20.00"}]))
    cut = {"amount": "6.00"}
    ask_for_a_mug(**(cut if first_is_cut else {}))
    finish_return(shop)
    ask_for_a_mug(**({} if first_is_cut else cut))
    rest = ask_for_a_mug()
    assert shop.refunds()[-1].lines[0].is_rest
    assert pay(rest)["status"] == ("paid" if first_is_cut else "approved")
    if not first_is_cut:
        finish_return(shop, 1)
        assert pay(rest)["status"] == "paid"


@ONE_DATABASE
def test_a_rest_that_is_approved_alone_awaits_no_goods(shop: Harness, batch: Batch) -> None:
    mug = MUGS | {"quantity": 1}
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
    shop.stock(order(items=[kettle, mug], payments=[PAID | {"amount": "59.99"}]))
    first = approve_a_part(shop, batch)
    finish_return(shop)
    pay(first)
    both = ("K1", None), ("M1", None)
    propose(later_batch(shop, batch), "W1001", *both, reason="changed_mind")
    assert states(shop)[1] == ("awaiting_approval", "awaiting_goods")
    click(shop, "approve", quantity_2="0")
    assert pay(refund_id(shop))["status"] == "paid"
    assert len(mails(shop)) == 1
    assert [row.status for row in shop.rows("SELECT status FROM remedies")] == [
        "done",
        "not_possible",
    ]


@ONE_DATABASE
def test_goods_that_are_back_and_not_paid_for_are_a_case_for_the_team(
    shop: Harness, batch: Batch
) -> None:
    shop.stock(order("W3", items=[MUGS], payments=[PAID]))
    services.bind(replace(services.current(), policy=Policy({"USD": 1}, return_first=RULES)))
    propose(batch, "W3", ("M1", 3), reason="changed_mind")
    finish_return(shop)
    click(shop, "approve", quantity_1="1")
    assert pay(refund_id(shop))["status"] == "paid"
    tell(refund_id(shop))
    (case,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :t", t=TESS)
    assert "more items are cancelled or back than were approved" in " ".join(case.text.split())


CHANGED_MIND, OTHER = RefundReason.CHANGED_MIND, RefundReason.OTHER


def wants_back(*reasons: RefundReason) -> None:
    """Have the policy file changed: from now on, goods of these reasons come back first."""
    rules = replace(RULES, reasons=frozenset(reasons)) if reasons else None
    services.bind(replace(services.current(), policy=Policy(return_first=rules)))


@pytest.fixture
def first_mug(shop: Harness, batch: Batch) -> str:
    """A refund of one of two mugs, for a reason that later needs no goods any more."""
    wants_back(CHANGED_MIND, OTHER)
    shop.stock(order("W3", items=[MUGS | {"quantity": 2}], payments=[PAID | {"amount": "20.00"}]))
    propose(batch, "W3", ("M1", 1), reason="other")
    assert pay(refund_id(shop))["status"] == "approved"
    return refund_id(shop)


def ask_for_another_mug(shop: Harness, batch: Batch) -> str:
    told = propose(later_batch(shop, batch), "W3", ("M1", 1), reason="changed_mind")
    if told["outcome"] == "needs_manager":
        click(shop, "approve")
    return refund_id(shop)


@pytest.mark.both_databases
@pytest.mark.parametrize("reasons", [[CHANGED_MIND], [OTHER], []], ids=["first", "second", "all"])
@pytest.mark.parametrize("came", [0, 1])
def test_one_unit_that_is_back_pays_for_one_though_the_policy_has_changed(
    shop: Harness, batch: Batch, first_mug: str, reasons: list[RefundReason], came: int
) -> None:
    both = first_mug, ask_for_another_mug(shop, batch)
    assert pay(both[1])["status"] == "approved"
    wants_back(*reasons)
    finish_return(shop, came)
    expected = ["paid" if number == came else "approved" for number in range(2)]
    assert [pay(each)["status"] for each in both] == expected
    finish_return(shop, 1 - came)
    assert [pay(each)["status"] for each in both] == ["paid", "paid"]


@ONE_DATABASE
def test_a_unit_that_was_paid_under_other_rules_is_not_back_for_the_next(
    shop: Harness, batch: Batch, first_mug: str
) -> None:
    finish_return(shop)
    assert pay(first_mug)["status"] == "paid"
    wants_back(CHANGED_MIND)
    second = ask_for_another_mug(shop, batch)
    assert pay(second)["status"] == "approved"
    assert states(shop) == [("paid", "done"), ("approved", "awaiting_goods")]


@ONE_DATABASE
@pytest.mark.parametrize("end", [RemedyStatus.EXPIRED, RemedyStatus.WITHDRAWN])
def test_a_return_that_ended_without_goods_leaves_its_unit_to_the_next(
    shop: Harness, batch: Batch, first_mug: str, end: RemedyStatus
) -> None:
    wants_back(CHANGED_MIND)
    with shop.live.database.transaction() as connection:
        remedy = remedies.find_of_refund(connection, first_mug)
        assert remedy is not None
        close(connection, remedy, end, ADA)
    second = ask_for_another_mug(shop, batch)
    finish_return(shop, 1)
    assert pay(second)["status"] == "paid"
    third = ask_for_another_mug(shop, batch)
    assert pay(third)["status"] == "approved"  # one mug is back, and is paid for


@ONE_DATABASE
def test_a_unit_that_is_back_for_a_refund_that_failed_is_back_under_other_rules(
    shop: Harness, batch: Batch, first_mug: str
) -> None:
    finish_return(shop)
    with shop.live.database.transaction() as connection:
        refund = refunds.lock(connection, first_mug)
        refunds.move(connection, refund, RefundStatus.FAILED, failure="a closed account")
    wants_back(CHANGED_MIND)
    second = ask_for_another_mug(shop, batch)
    assert pay(second)["status"] == "paid"
    third = ask_for_another_mug(shop, batch)
    assert pay(third)["status"] == "approved"


# --- POST /api/returns/…/received -----------------------------------------------------------------

TOKEN = "a-token-of-the-shop-for-tests-only"


@pytest.fixture
def api_shop(tmp_path: Any, database_url: str) -> Any:
    with open_shop(tmp_path, database_url, {"ORDERS_API_TOKEN": TOKEN}) as shop:
        services.bind(replace(shop.live, policy=Policy(return_first=RULES)))
        shop.stock(order())
        ask(write(shop, text="I do not want the kettle of W1001."))
        yield shop


def request_received(shop: Harness, row_id: str, token: str = TOKEN) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return shop.client.post(f"/api/returns/{row_id}/received", headers=headers)


def post(shop: Harness, row_id: str, token: str = TOKEN) -> int:
    status: int = request_received(shop, row_id, token).status_code
    return status


def test_the_shop_says_that_goods_are_back(api_shop: Harness) -> None:
    refund = refund_id(api_shop)
    assert post(api_shop, refund, "another") == 401
    assert post(api_shop, "refund_none") == 404
    assert post(api_shop, "%00") == 404
    assert states(api_shop) == [("approved", "awaiting_goods")]
    assert [post(api_shop, refund), post(api_shop, refund)] == [201, 200]
    assert post(api_shop, remedy_id(api_shop)) == 200
    assert pay(refund)["status"] == "paid"


@pytest.mark.both_databases
@pytest.mark.parametrize("number", ["W1001", "%23w1001"])
def test_the_order_number_in_the_parcel_is_enough(api_shop: Harness, number: str) -> None:
    api_shop.stock(big_order())
    assert [post(api_shop, "W9999"), post(api_shop, "W2001")] == [404, 404]
    assert [post(api_shop, number), post(api_shop, number)] == [201, 200]
    assert pay(refund_id(api_shop))["status"] == "paid"


@pytest.mark.parametrize("number", ["2026/0815", "2026%2F0815"])
def test_an_order_number_may_have_a_slash(api_shop: Harness, number: str) -> None:
    api_shop.stock(order("2026/0815", items=[MUGS], payments=[PAID]))
    mug = write(api_shop, text="I do not want one mug of 2026/0815.")
    propose(mug, "2026/0815", ("M1", 1), reason="changed_mind")
    assert [post(api_shop, number), post(api_shop, number)] == [201, 200]
    assert states(api_shop)[1] == ("approved", "done")


@pytest.mark.both_databases
def test_of_several_returns_of_an_order_one_is_named_by_its_id(api_shop: Harness) -> None:
    api_shop.stock(order("W3", items=[MUGS], payments=[PAID]))
    for day in ("today", "tomorrow"):
        mug = write(api_shop, subject=day, text="I do not want one mug of W3.")
        propose(mug, "W3", ("M1", 1), reason="changed_mind")
    ids = [row.remedy_id for row in api_shop.rows("SELECT remedy_id FROM remedies")][1:]
    page = api_shop.log_in(TESS).get("/ops/tasks").text
    assert all(f"The return's id: {each}" in page for each in ids)
    for first_is in ("awaiting goods", "done"):
        got = request_received(api_shop, "W3")
        assert got.status_code == 409
        told = f"{ids[0]} (return, {first_is}), {ids[1]} (return, awaiting goods)"
        assert told in got.json["error"]
        assert request_received(api_shop, "W3").status_code == 409  # the shop's system asks again
        post(api_shop, ids[0])
    assert states(api_shop)[1:] == [("approved", "done"), ("awaiting_approval", "awaiting_goods")]
    notices = api_shop.rows("SELECT text FROM outbound_mails WHERE subject LIKE 'Goods are back%'")
    for (notice,), first_is in zip(notices, ("awaiting goods", "done"), strict=True):
        assert f"{ids[0]} (return, {first_is})" in notice
        assert "If the team does not tick off a return, it lapses." in notice


KETTLE = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "5.00"}


def refund_elsewhere(shop: Harness, minor: int) -> None:
    """Have so much of W3 be refunded at the gateway, in one refund more."""
    amount = Money(minor, "USD")
    with shop.live.database.transaction() as connection:
        number = external_refunds.given_back_minor(connection, "W3")
        made = GatewayRefund(f"re_{number}", "stripe", ("p",), amount, RefundState.SETTLED)
        external_refunds.record(connection, made, "W3", "p", shop.live.now())


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("before", "after", "paid_before", "expected"),
    [
        (0, 999, False, "paid"),
        (0, 1000, False, "failed"),
        (1000, 0, False, "paid"),  # a manager has approved it all the same
        (1000, 1, False, "paid"),  # too little for the mug
        (1000, 1000, False, "failed"),
        (0, 1000, True, "paid"),  # after a restored backup, what looks like another one is ours
    ],
)
def test_what_was_refunded_elsewhere_since_its_approval_is_not_paid_when_it_is_back(
    api_shop: Harness, before: int, after: int, paid_before: bool, expected: str
) -> None:
    api_shop.stock(order("W3", items=[MUGS, KETTLE], payments=[PAID | {"amount": "35.00"}]))
    if before:
        services.bind(replace(services.current(), policy=Policy({"USD": 1}, return_first=RULES)))
    mug = write(api_shop, text="I do not want one mug of W3.")
    propose(mug, "W3", ("M1", 1), reason="changed_mind")
    refund = refund_id(api_shop)
    if before:
        refund_elsewhere(api_shop, before)
        click(api_shop, "approve")
    pay(refund)  # asks for the goods
    if after:
        refund_elsewhere(api_shop, after)
    if paid_before:
        request = RefundRequest(refund, refund, "W3", "p", Money(10_00, "USD"))
        api_shop.live.gateway.refund(request)
    assert post(api_shop, "W3") == 201
    assert pay(refund)["status"] == expected


@pytest.mark.both_databases
def test_a_late_parcel_of_a_return_that_lapsed_does_not_pay_another(api_shop: Harness) -> None:
    api_shop.stock(order("W3", items=[MUGS, KETTLE], payments=[PAID | {"amount": "35.00"}]))
    for item_id in ("K1", "M1"):
        batch = write(api_shop, subject=item_id, text="I do not want these of W3.")
        propose(batch, "W3", (item_id, None), reason="changed_mind")
        if item_id == "K1":
            lapse(api_shop)
    got = request_received(api_shop, "W3")
    assert got.status_code == 409
    assert "(return, expired)" in got.json["error"]
    assert states(api_shop)[2][1] == "awaiting_goods"


@pytest.mark.both_databases
@pytest.mark.parametrize("status", ["task", "not_possible", "expired", "withdrawn"])
def test_goods_that_are_exchanged_do_not_pay_a_return(api_shop: Harness, status: str) -> None:
    """Nor if the exchange has ended: the team may have asked the customer before to send the goods."""
    api_shop.stock(order("W3", items=[MUGS, KETTLE], payments=[PAID | {"amount": "35.00"}]))
    batch = write(api_shop, text="I do not want the kettle of W3. Please swap a mug for a red one.")
    propose(batch, "W3", ("K1", None), reason="changed_mind")
    asked = {"order_id": "W3", "kind": "exchange", "wish": "a red one", "reason": "other"}
    use(request_change, batch, asked | {"items": [{"item_id": "M1", "quantity": 1}]})
    if status != "task":
        with api_shop.live.database.transaction() as connection:
            (exchange,) = (
                each
                for each in remedies.list_of_order(connection, "W3")
                if each.kind is RemedyKind.EXCHANGE
            )
            close(connection, exchange, RemedyStatus(status), TESS)
    got = request_received(api_shop, "W3")
    assert got.status_code == 409
    assert f"(exchange, {status.replace('_', ' ')})" in got.json["error"]
    assert states(api_shop)[1] == ("approved", "awaiting_goods")


@pytest.mark.both_databases
@pytest.mark.parametrize("how", ["rejected", "withdrawn", "asked"])
def test_goods_come_only_if_the_customer_was_asked_for_them(api_shop: Harness, how: str) -> None:
    api_shop.stock(order("W3", items=[MUGS, KETTLE], payments=[PAID | {"amount": "35.00"}]))
    batch = write(api_shop, subject="The kettle", text="I do not want the kettle of W3.")
    always = Policy({"USD": 1 if how == "rejected" else 100_00}, return_first=RULES)
    services.bind(replace(services.current(), policy=always))
    propose(batch, "W3", ("K1", None), reason="changed_mind")
    if how == "asked":
        pay(refund_id(api_shop))
    if how == "rejected":
        reject(api_shop)
        pass_time(api_shop, hours=1)
        look(refund_id(api_shop))
        tell(refund_id(api_shop))
    else:
        use(withdraw_refund, later_batch(api_shop, batch), {"order_id": "W3"})
    mugs = write(api_shop, subject="The mugs", text="I do not want the mugs of W3.")
    propose(mugs, "W3", ("M1", None), reason="changed_mind")
    assert post(api_shop, "W3") == (409 if how == "asked" else 201)
    assert states(api_shop)[-1][1] == ("awaiting_goods" if how == "asked" else "done")


@ONE_DATABASE
def test_goods_of_a_return_that_ended_before_they_were_asked_for_are_the_teams(
    api_shop: Harness,
) -> None:
    with api_shop.live.database.transaction() as connection:
        remedy = remedies.lock(connection, remedy_id(api_shop))
        assert remedy is not None
        close(connection, remedy, RemedyStatus.WITHDRAWN, ADA)
    assert post(api_shop, "W1001") == 409
    (case,) = api_shop.rows("SELECT text FROM outbound_mails WHERE to_address = :t", t=TESS)
    assert "goods came back after their return had ended" in " ".join(case.text.split())


def lapse(shop: Harness) -> None:
    pay(refund_id(shop))
    for days in (-3, 0):
        go_to(due_at(shop), days=days)
        pay(refund_id(shop))


def test_goods_that_come_after_their_return_lapsed_are_a_case_for_the_team_once(
    api_shop: Harness,
) -> None:
    lapse(api_shop)
    assert [post(api_shop, refund_id(api_shop)) for _ in range(2)] == [409, 409]
    (case,) = api_shop.rows("SELECT text FROM outbound_mails WHERE to_address = :t", t=TESS)
    assert "goods came back after their return had ended" in " ".join(case.text.split())
    with api_shop.live.database.transaction() as connection:
        (row,) = api_shop.rows("SELECT conversation_id, status FROM conversations")
        assert row.status == "handed_over"
        assert handback.give_back(connection, row.conversation_id)
    assert post(api_shop, remedy_id(api_shop)) == 409
    assert api_shop.rows("SELECT status FROM conversations")[0].status == "open"
    (act,) = api_shop.rows("SELECT actor, subject FROM audit WHERE action = 'goods back too late'")
    assert (act.actor, act.subject) == ("shop", remedy_id(api_shop))
    (act,) = api_shop.rows("SELECT actor FROM audit WHERE action = 'conversation handed over'")
    assert act.actor == "shop"
    assert states(api_shop) == [("withdrawn", "expired")]


@pytest.mark.both_databases
@pytest.mark.parametrize("was_asked", [False, True])
def test_goods_that_come_after_their_refund_was_stopped_are_a_case_for_the_team(
    api_shop: Harness, was_asked: bool
) -> None:
    """They may be in the post when it stops."""
    refund = refund_id(api_shop)
    if was_asked:
        pay(refund)
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}
    charged_back = paid | {"charged_back_at": api_shop.live.now().isoformat()}
    api_shop.stock(order(payments=[charged_back]))
    go_to(due_at(api_shop), days=-3)
    assert pay(refund)["status"] == "failed"
    assert [post(api_shop, refund) for _ in range(2)] == [409, 409]
    late = api_shop.rows("SELECT 1 FROM audit WHERE action = 'goods back too late'")
    assert len(late) == was_asked


@ONE_DATABASE
def test_goods_that_the_team_does_not_take_back_are_no_new_case(api_shop: Harness) -> None:
    pay(refund_id(api_shop))
    with api_shop.live.database.transaction() as connection:
        finish(connection, remedy_id(api_shop), TESS, False, "It was used.")
    assert post(api_shop, refund_id(api_shop)) == 409
    assert api_shop.rows("SELECT 1 FROM outbound_mails WHERE to_address = :t", t=TESS) == []


@ONE_DATABASE
def test_a_person_who_ticks_a_lapsed_return_reads_that_it_lapsed(api_shop: Harness) -> None:
    lapse(api_shop)
    go_to(api_shop.live.now())  # for a login that has not expired
    tess, path = api_shop.log_in(TESS), f"/ops/tasks/{remedy_id(api_shop)}"
    page = post_form(tess, path, "/ops", done="yes")
    assert page.status_code == 422
    assert "the return lapsed, because the goods did not come in time" in page.text


# --- the order source -----------------------------------------------------------------------------


@pytest.fixture
def source(shop: Harness, batch: Batch) -> PlayedSource:
    """A live source. A manager has approved a return of one of its orders."""
    played = with_source(shop)
    services.bind(replace(services.current(), policy=Policy({"USD": 1}, return_first=RULES)))
    ask(batch)
    click(shop, "approve")
    return played


def away(_order_id: str) -> Order | None:
    raise SourceProblem("no answer")


def refunded_by_shop(_order_id: str) -> Order:
    payment = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}
    return order(payments=[payment | {"refunded": "49.99"}])


@pytest.mark.both_databases
@pytest.mark.parametrize("was_asked", [False, True])
@pytest.mark.parametrize("end", ["refunded", "gone"])
def test_no_goods_are_asked_for_if_the_source_shows_that_nothing_will_be_paid(
    shop: Harness, source: PlayedSource, end: str, was_asked: bool
) -> None:
    if was_asked:
        pay(refund_id(shop))
        go_to(due_at(shop), days=-3)
    source.orders = refunded_by_shop if end == "refunded" else lambda _order_id: None
    if end == "gone":  # perhaps by mistake, so it waits
        assert pay(refund_id(shop))["wakes"] is False
        go_to(services.current().now(), hours=37)
    assert pay(refund_id(shop))["status"] == "failed"
    assert states(shop) == [("failed", "not_possible")]
    assert len(mails(shop)) == was_asked
    assert {"refund_outcome", "hand_over"} <= {row.purpose for row in outcomes(shop)}


@pytest.mark.both_databases
@pytest.mark.parametrize("was_asked", [False, True])
def test_goods_are_asked_for_once_when_the_source_is_back(
    shop: Harness, source: PlayedSource, was_asked: bool
) -> None:
    if was_asked:
        pay(refund_id(shop))
        go_to(due_at(shop), days=-3)
    known, source.orders = source.orders, away
    state = pay(refund_id(shop))
    assert (state["status"], state["wakes"]) == ("approved", False)
    assert 2 <= state["wait_seconds"] < 5
    assert len(mails(shop)) == was_asked
    source.orders = known
    assert [pay(refund_id(shop))["wakes"] for _ in range(2)] == [True, True]
    assert len(mails(shop)) == was_asked + 1


def test_no_reply_asks_for_goods_while_their_first_request_waits_for_the_source(
    shop: Harness, source: PlayedSource
) -> None:
    def told() -> list[str]:
        with services.current().database.snapshot() as connection:
            known = refunds.list_of_order(connection, "W1001")
            return [each["kind"] for each in list_remedies(connection, "W1001", known)]

    known, source.orders = source.orders, away
    pay(refund_id(shop))
    assert told() == []
    source.orders = known
    pay(refund_id(shop))
    assert told() == ["return"]
    source.orders = away
    go_to(due_at(shop), days=-3)
    pay(refund_id(shop))
    assert told() == ["return"]  # they were asked before


def test_an_operator_acts_if_the_source_is_away_for_too_long_to_ask_for_goods(
    shop: Harness, source: PlayedSource
) -> None:
    source.orders = away
    pay(refund_id(shop))
    go_to(services.current().now(), hours=37)
    with pytest.raises(NeedsOperatorError, match="could not be looked up since"):
        pay(refund_id(shop))
    assert mails(shop) == []


def test_the_source_is_not_asked_while_no_mail_about_the_goods_is_due(
    shop: Harness, source: PlayedSource
) -> None:
    pay(refund_id(shop))
    source.orders = away
    for delta in ({"days": -4}, {"days": -3, "seconds": -1}):
        go_to(due_at(shop), **delta)
        assert pay(refund_id(shop))["wakes"] is True


# --- restocking -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reasons", [RULES.reasons, frozenset()], ids=["restocked", "not"])
def test_a_gateway_is_told_once_what_is_back_whatever_payments_give_it_back(
    shop: Harness, reasons: frozenset[RefundReason]
) -> None:
    rules, bank = replace(RULES, restock_reasons=reasons), RemoteBank(shop.live.now)
    services.bind(replace(shop.live, policy=Policy(return_first=rules), gateway=bank))
    halves = [PAID | {"payment_id": each, "amount": "24.99"} for each in ("p1", "p2")]
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.98"}
    shop.stock(bank.open_order(order(items=[kettle], payments=halves)))
    ask(write(shop, text="I do not want the kettle of W1001."))
    assert pay(refund_id(shop))["status"] == "approved"
    (task,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        finish(connection, task.remedy_id, TESS, True, None)
    assert pay(refund_id(shop))["status"] == "paid"
    told = [entry.request.restocks for entry in bank.entries]
    assert told == [(("K1", 1),) if reasons else (), ()]


@ONE_DATABASE
def test_the_rest_of_a_price_puts_nothing_in_stock_again(shop: Harness, batch: Batch) -> None:
    rules, bank = replace(RULES, restock_reasons=RULES.reasons), RemoteBank(shop.live.now)
    policy = Policy({"USD": 1}, return_first=rules)
    services.bind(replace(services.current(), policy=policy, gateway=bank))
    shop.stock(bank.open_order(order()))
    ask(batch)
    click(shop, "approve", amount="30.00")
    first = refund_id(shop)
    ask(later_batch(shop, batch))
    click(shop, "approve")
    finish_return(shop)
    for each in (first, refund_id(shop)):
        assert pay(each)["status"] == "paid"
    assert [entry.request.restocks for entry in bank.entries] == [(("K1", 1),), ()]


class RemoteBank(Bank):
    def is_remote(self, _request: RefundRequest) -> bool:
        return True
