"""A cancellation: done by the shop's system or a person, then its refund is paid; never the other way round."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mailagent import services
from mailagent.adapters.order_files.record import render_order
from mailagent.adapters.order_sources.http.source import HttpOrderSource
from mailagent.domain.operations.circuit_breaker import FAILURES_TO_OPEN
from mailagent.domain.orders.source import (
    Cancelled,
    CancelOutcome,
    NotSupported,
    NotYet,
    SourceProblem,
    TooLate,
)
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.remedies.remedy import RemedyStatus, TaskProblem
from mailagent.domain.shop import Retention
from mailagent.domain.text import tell_day
from mailagent.mailers.fact import sentence
from mailagent.remedies import finish
from mailagent.store.refunds import remedies, stops
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.delivery.send import send_mail
from mailagent.workflows.steps.maintenance import housekeeping, tasks
from mailagent.workflows.steps.refund.condition import advance_remedy
from mailagent.workflows.tools.cancel_order import cancel_order
from mailagent.workflows.tools.request_change import request_change
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import ADA, GRACE, MAX, MONA, TESS, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, open_shop, pass_time
from tests.tool_use import use
from tests.workflows.camera import STRAPS, answer, camera_order, click, later_batch, page_of, reject
from tests.workflows.cancelling import PlayedSource, keep_version, with_source
from tests.workflows.paying import look, pay, tell
from tests.workflows.proposals import propose, write

PENDING: dict[str, Any] = {"status": "pending", "delivered_at": None}
LETTER = "Please cancel my order W1001."


def pending(**changes: Any) -> Order:
    items = [
        {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"},
        {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "10.00"},
    ]
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "69.99"}
    return order(**(PENDING | {"items": items, "payments": [paid]} | changes))


def cancelled(**changes: Any) -> Cancelled:
    return Cancelled(replace(pending(), status=OrderStatus.CANCELLED, **changes))


def cancel(batch: Batch, *items: tuple[str, int | None], order_id: str = "W1001") -> dict[str, Any]:
    wanted = [{"item_id": item_id, "quantity": number} for item_id, number in items]
    return use(cancel_order, batch, {"order_id": order_id, "items": wanted})


SENT = {"shipment_id": "S1", "status": "in_transit"}


@pytest.fixture
def batch(shop: Harness) -> Batch:
    shop.stock(pending())
    return write(shop, text=LETTER)


def states(shop: Harness) -> tuple[str, str, str]:
    """Return the states of the remedy, of its refund and of the order."""
    (row,) = shop.rows(
        "SELECT r.status, f.status AS refund, o.status AS of_order FROM remedies r"
        " JOIN refunds f ON f.refund_id = r.refund_id JOIN orders o ON o.order_id = r.order_id"
    )
    return row.status, row.refund, row.of_order


def refund_id(shop: Harness) -> str:
    return shop.refunds()[-1].refund_id


def mails(shop: Harness) -> str:
    rows = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'remedy'")
    return "\n".join(row.text for row in rows)


def test_the_shops_system_cancels_and_then_the_refund_is_paid(shop: Harness, batch: Batch) -> None:
    source = with_source(shop, cancelled())
    told = cancel(batch)
    assert told["facts"] == ["remedy/W1001", "refund/W1001"]
    assert cancel(batch)["outcome"] == "asked"  # a step that is done again
    assert states(shop) == ("asked", "approved", "pending")
    assert pay(refund_id(shop))["status"] == "paid"
    (request,) = source.asked
    assert (request.order_id, request.items) == ("W1001", ())
    assert states(shop) == ("done", "paid", "cancelled")
    assert str(shop.refunds()[0].amount) == "69.99 USD"
    assert "Order W1001 is cancelled." in mails(shop)
    assert pay(refund_id(shop))["status"] == "paid"
    assert len(source.asked) == 1


def test_single_items_are_cancelled_and_refunded(shop: Harness, batch: Batch) -> None:
    keep_version(shop, pending())
    kettle, mugs = pending().lines
    source = with_source(
        shop, Cancelled(replace(pending(), lines=(kettle, replace(mugs, quantity=1))))
    )
    cancel(batch, ("M1", 1))
    assert pay(refund_id(shop))["status"] == "paid"
    assert source.asked[0].items == (("M1", 1),)
    assert str(shop.refunds()[0].amount) == "10.00 USD"
    assert "These items of order W1001 are cancelled:\n- 1 × Mug" in mails(shop)


def test_a_lost_answer_is_asked_for_again_under_the_same_key(shop: Harness, batch: Batch) -> None:
    source = with_source(shop, SourceProblem("no answer", 90), SourceProblem("429"), cancelled())
    cancel(batch)
    first, second = pay(refund_id(shop)), pay(refund_id(shop))
    assert (first["status"], first["wait_seconds"]) == ("approved", 90)
    assert (second["status"], second["wait_seconds"]) == ("approved", 30)
    assert states(shop) == ("asked", "approved", "pending")
    assert pay(refund_id(shop))["status"] == "paid"
    assert len({request.idempotency_key for request in source.asked}) == 1


def test_a_process_that_dies_after_the_answer_asks_under_the_same_key(
    shop: Harness, batch: Batch
) -> None:
    def dies() -> CancelOutcome:
        raise KeyboardInterrupt

    source = with_source(shop, dies, cancelled())
    cancel(batch)
    with pytest.raises(KeyboardInterrupt):
        pay(refund_id(shop))
    assert pay(refund_id(shop))["status"] == "paid"
    assert source.asked[0] == source.asked[1]


def test_what_is_shipped_is_not_refunded_and_the_customer_hears_so(
    shop: Harness, batch: Batch
) -> None:
    with_source(shop, TooLate("shipped"))
    cancel(batch)
    assert pay(refund_id(shop))["status"] == "withdrawn"
    assert states(shop) == ("not_possible", "withdrawn", "pending")
    assert "can no longer be cancelled. Once it has arrived, you can ask" in mails(shop)
    assert shop.rows("SELECT held_minor FROM orders")[0].held_minor == 0
    assert shop.rows("SELECT 1 FROM refund_payments") == []


@pytest.mark.parametrize(
    "answer_of_source",
    [
        NotSupported("501"),
        Cancelled(pending()),  # it says so, and the order goes on
        Cancelled(replace(pending(), order_id="W9", status=OrderStatus.CANCELLED)),
        Cancelled(replace(pending(shipments=[SENT]), status=OrderStatus.CANCELLED)),
        None,  # orders are imported
    ],
    ids=["not supported", "not cancelled", "another order", "its parcel has left", "imported"],
)
def test_what_the_system_cannot_do_is_a_task(
    shop: Harness, batch: Batch, answer_of_source: CancelOutcome | None
) -> None:
    if answer_of_source is not None:
        with_source(shop, answer_of_source)
    cancel(batch)
    assert pay(refund_id(shop))["status"] == "approved"
    assert states(shop) == ("task", "approved", "pending")
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    (mail,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :t", t=TESS)
    assert "/ops/tasks" in mail.text
    with shop.live.database.transaction() as connection:
        assert finish(connection, row.remedy_id, TESS, True, None)
    assert pay(refund_id(shop))["status"] == "paid"
    assert "Order W1001 is cancelled." in mails(shop)


def test_a_mail_about_a_cancellation_tells_what_was_paid_before_it_is_sent(
    shop: Harness, batch: Batch
) -> None:
    cancel(batch)
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        finish(connection, row.remedy_id, TESS, True, "It is done.")
    assert "State: approved, not paid yet" in mails(shop)
    assert pay(refund_id(shop))["status"] == "paid"
    (ended,) = shop.rows("SELECT outbound_id FROM outbound_mails WHERE purpose = 'remedy'")
    for _ in range(2):  # a step that is done again
        assert send_mail(ended.outbound_id) == "sent"
    (sent,) = shop.mails_to(ADA)
    assert "Order W1001 is cancelled." in sent.text
    assert "> It is done." in sent.text
    assert "not paid yet" not in sent.text
    assert "Refunded: $69.99" in sent.text


@ONE_DATABASE
def test_the_shop_may_tell_of_the_cancellation_before_the_refund_is_paid(
    shop: Harness, batch: Batch
) -> None:
    cancel(batch)
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        finish(connection, row.remedy_id, TESS, True, None)
    shop.stock(pending(status="cancelled"))
    assert pay(refund_id(shop))["status"] == "paid"


@ONE_DATABASE
def test_a_cancellation_is_recorded_although_the_order_has_another_address(
    shop: Harness, batch: Batch
) -> None:
    cancel(batch)
    shop.stock(pending(status="cancelled", customer={"email": GRACE, "name": "Grace Hopper"}))
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        assert finish(connection, row.remedy_id, TESS, True, None)
    assert GRACE not in mails(shop)
    assert "Grace" not in mails(shop)
    assert pay(refund_id(shop))["status"] == "failed"  # its customer is not the one who asked


@ONE_DATABASE
def test_a_task_that_is_not_done_in_time_ends_its_refund(shop: Harness, batch: Batch) -> None:
    cancel(batch)
    pass_time(shop, days=3.1)
    assert tasks.see_to() == 1
    assert states(shop) == ("expired", "withdrawn", "pending")
    assert "was not done in time" in mails(shop)


@ONE_DATABASE
def test_a_system_that_takes_its_time_is_asked_again(shop: Harness, batch: Batch) -> None:
    source = with_source(shop, *[NotYet("not yet", 30)] * FAILURES_TO_OPEN, cancelled())
    cancel(batch)
    for _ in range(FAILURES_TO_OPEN):
        assert pay(refund_id(shop))["status"] == "approved"
        assert states(shop) == ("asked", "approved", "pending")
    assert pay(refund_id(shop))["status"] == "paid"
    assert len({each.idempotency_key for each in source.asked}) == 1


@ONE_DATABASE
def test_a_key_that_may_only_read_leaves_the_cancellation_to_people(
    shop: Harness, batch: Batch
) -> None:
    refused = SourceProblem("WooCommerce refuses us (401)", operator=True, not_done=True)
    source = with_source(shop, refused)
    cancel(batch)
    pay(refund_id(shop))
    assert (states(shop), len(source.asked)) == (("task", "approved", "pending"), 1)
    assert "has not cancelled it: WooCommerce refuses us (401)" in told_team(shop)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert told["outcome"] == "withdrawn"


@ONE_DATABASE
def test_a_refusal_after_a_lost_answer_does_not_say_that_nothing_was_done(
    shop: Harness, batch: Batch
) -> None:
    refused = SourceProblem("WooCommerce refuses us (401)", operator=True, not_done=True)
    with_source(shop, SourceProblem("no answer"), refused)
    cancel(batch)
    pay(refund_id(shop))
    pay(refund_id(shop))
    assert states(shop) == ("task", "approved", "pending")
    assert "is not sure what it did: WooCommerce refuses us (401)" in told_team(shop)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert told["outcome"] == "too_late"


@ONE_DATABASE
def test_a_system_that_stays_silent_is_given_to_people(shop: Harness, batch: Batch) -> None:
    with_source(shop, SourceProblem("away"), SourceProblem("away"))
    cancel(batch)
    pay(refund_id(shop))
    pass_time(shop, hours=6.1)
    pay(refund_id(shop))
    assert states(shop) == ("task", "approved", "pending")
    # The system may have cancelled it all the same: the customer cannot take it back any more.
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert told["outcome"] == "too_late"
    assert states(shop) == ("task", "approved", "pending")
    # Nor does it end by its date: only a person can say that it was not done.
    pass_time(shop, days=3.5)
    for asked in (2, 0):  # the team gets it again, and is reminded
        assert tasks.see_to() == asked
        assert states(shop) == ("task", "approved", "pending")
    assert "not done in time" not in mails(shop)
    (conversation,) = shop.rows("SELECT handed_over_at FROM conversations")
    assert conversation.handed_over_at is not None


def test_an_order_that_was_sent_after_all_is_not_paid_back(shop: Harness, batch: Batch) -> None:
    """The shop's system has said that it is cancelled."""
    source = with_source(shop, cancelled())
    source.orders = lambda _order_id: pending(status="shipped")
    cancel(batch)
    assert pay(refund_id(shop))["status"] == "failed"
    assert states(shop) == ("done", "failed", "shipped")
    assert shop.refunds()[0].failure == stops.SENT_ANYWAY
    assert shop.rows("SELECT 1 FROM ledger_entries") == []


@pytest.mark.parametrize(
    ("mugs_left", "status", "end"),
    [(2, "shipped", "failed"), (1, "shipped", "paid"), (2, "pending", "paid")],
)
def test_units_that_were_sent_after_all_are_not_paid_back(
    shop: Harness, batch: Batch, mugs_left: int, status: str, end: str
) -> None:
    kettle, mugs = pending().lines
    keep_version(shop, pending())
    source = with_source(
        shop, Cancelled(replace(pending(), lines=(kettle, replace(mugs, quantity=1))))
    )
    newest = pending(status=status)
    source.orders = lambda _order_id: replace(
        newest, lines=(kettle, replace(mugs, quantity=mugs_left))
    )
    cancel(batch, ("M1", 1))
    assert pay(refund_id(shop))["status"] == end
    assert shop.refunds()[0].failure == (stops.UNITS_BACK if end == "failed" else None)


def purge_later(shop: Harness) -> list[int]:
    """Do the housekeeping long after MAIL_DAYS; return the versions of orders that are left."""
    now = services.current()
    later = now.now() + timedelta(days=75)
    services.bind(replace(now, now=lambda: later, retention=Retention(mail_days=30)))
    housekeeping.take_out_text(housekeeping.Deadline(None), housekeeping.LOOKS_BACK)
    services.bind(now)
    return [row.version for row in shop.rows("SELECT version FROM order_versions ORDER BY version")]


@pytest.mark.parametrize("is_answered", [False, True])
def test_no_purge_takes_the_version_that_an_unpaid_cancellation_needs(
    shop: Harness, batch: Batch, is_answered: bool
) -> None:
    """The rest of the order is sent before its refund is paid."""
    kettle, mugs = pending().lines
    left = replace(pending(), lines=(kettle, replace(mugs, quantity=1)))
    keep_version(shop, pending())
    source = with_source(shop, Cancelled(left))
    cancel(batch, ("M1", 1))
    if is_answered:
        advance_remedy(refund_id(shop))
        keep_version(shop, left)
    assert purge_later(shop) == ([1, 2] if is_answered else [1])
    source.orders = lambda _order_id: replace(left, status=OrderStatus.SHIPPED)
    assert pay(refund_id(shop))["status"] == "paid"
    assert "these units are gone" not in told_team(shop)
    assert len(purge_later(shop)) == 1


NOT_SENT = SourceProblem("the shop's server cannot be reached", not_done=True)


def told_team(shop: Harness) -> str:
    rows = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :t", t=TESS)
    return " ".join(" ".join(row.text for row in rows).split())


@pytest.mark.both_databases
def test_what_the_system_was_never_reached_for_is_taken_back(
    shop: Harness, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with_source(shop)
    with closing(socket.socket()) as refusing:
        refusing.bind(("127.0.0.1", 0))
        source = HttpOrderSource(f"http://127.0.0.1:{refusing.getsockname()[1]}", "token")
        services.bind(replace(services.current(), order_source=source))
        cancel(batch)
        pay(refund_id(shop))
        # Nothing was sent yet, but the next attempt may send it.
        early = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
        assert (early["outcome"], states(shop)[0]) == ("too_late", "asked")
        pass_time(shop, hours=6.1)
        pay(refund_id(shop))
    assert states(shop) == ("task", "approved", "pending")
    assert "has not cancelled it: the order server cannot be reached" in told_team(shop)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert (told["outcome"], told["requests"]) == ("withdrawn", ["cancel"])
    assert states(shop) == ("withdrawn", "withdrawn", "pending")
    assert pay(refund_id(shop))["status"] == "withdrawn"


@pytest.fixture
def refusing(shop: Harness, batch: Batch) -> Batch:
    """The shop's system has said that it cannot cancel single items: it has done nothing."""
    keep_version(shop, pending())
    with_source(shop, NotSupported("it cancels whole orders only"))
    return batch


@pytest.mark.both_databases
def test_what_the_system_says_it_cannot_do_is_taken_back(shop: Harness, refusing: Batch) -> None:
    cancel(refusing, ("M1", 1))
    pay(refund_id(shop))
    told = use(withdraw_refund, later_batch(shop, refusing), {"order_id": "W1001"})
    assert (told["outcome"], told["requests"]) == ("withdrawn", ["cancel"])
    assert states(shop) == ("withdrawn", "withdrawn", "pending")


@ONE_DATABASE
def test_what_the_system_says_it_cannot_do_ends_by_its_date(shop: Harness, refusing: Batch) -> None:
    cancel(refusing, ("M1", 1))
    pay(refund_id(shop))
    pass_time(shop, days=3.1)
    assert tasks.see_to() == 1
    assert states(shop) == ("expired", "withdrawn", "pending")


@pytest.mark.both_databases
@pytest.mark.parametrize("order_of_answers", ["lost, not sent", "not sent, lost", "at once"])
def test_a_cancellation_with_one_lost_answer_is_not_taken_back(
    shop: Harness, batch: Batch, order_of_answers: str
) -> None:
    lost = SourceProblem("no whole answer")

    def other_asks() -> CancelOutcome:
        pay(refund_id(shop))  # another process, whose answer is lost
        raise NOT_SENT

    answers: dict[str, list[Any]] = {
        "lost, not sent": [lost, NOT_SENT],
        "not sent, lost": [NOT_SENT, lost],
        "at once": [other_asks, lost],
    }
    with_source(shop, *answers[order_of_answers])
    cancel(batch)
    if order_of_answers != "at once":
        pay(refund_id(shop))
    pass_time(shop, hours=6.1)
    pay(refund_id(shop))
    assert states(shop) == ("task", "approved", "pending")
    assert "was asked, but it is not sure what it did" in told_team(shop)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert (told["outcome"], states(shop)[0]) == ("too_late", "task")


@pytest.mark.both_databases
@pytest.mark.parametrize("asks_first", [True, False])
def test_a_cancellation_is_either_asked_for_or_taken_back(
    shop: Harness, batch: Batch, asks_first: bool
) -> None:
    """A second process has read that the system is to be asked, while the customer takes the task back."""

    def withdraw() -> dict[str, Any]:
        return use(withdraw_refund, later, {"order_id": "W1001"})

    told: list[dict[str, Any]] = []

    def answers() -> CancelOutcome:
        told.append(withdraw())
        return cancelled()

    source = with_source(shop, NOT_SENT, answers)
    cancel(batch)
    later = later_batch(shop, batch)
    if asks_first:
        pay(refund_id(shop))
        assert pay(refund_id(shop))["status"] == "paid"
        assert (told[0]["outcome"], len(source.asked)) == ("too_late", 2)
        assert states(shop) == ("done", "paid", "cancelled")
        return
    pass_time(shop, hours=6.1)
    with ThreadPoolExecutor() as pool:
        with shop.live.database.transaction() as connection:
            (row,) = connection.exec_driver_sql("SELECT remedy_id FROM remedies").all()
            remedies.lock(connection, row.remedy_id)
            second = pool.submit(pay, refund_id(shop))
            with pytest.raises(TimeoutError):
                second.result(timeout=1)  # it has read that the system is to be asked, and waits
            remedy = remedies.lock(connection, row.remedy_id)
            assert remedy is not None
            remedies.move(connection, remedy, RemedyStatus.TASK)
        second.result(timeout=30)
    assert (source.asked, withdraw()["outcome"]) == ([], "withdrawn")
    assert states(shop) == ("withdrawn", "withdrawn", "pending")


@ONE_DATABASE
def test_a_person_does_not_interfere_while_the_system_is_asked(shop: Harness, batch: Batch) -> None:
    with_source(shop, cancelled())
    cancel(batch)
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection, pytest.raises(TaskProblem, match="asked"):
        finish(connection, row.remedy_id, TESS, True, None)


def test_a_dear_order_is_cancelled_while_a_manager_decides(shop: Harness) -> None:
    dear = big_order(**PENDING)
    shop.stock(dear)
    source = with_source(shop, Cancelled(replace(dear, status=OrderStatus.CANCELLED)))
    batch = write(shop, text="Please cancel W2001.")
    cancel(batch, order_id="W2001")
    assert look(refund_id(shop))["status"] == "awaiting_approval"
    assert len(source.asked) == 1
    assert states(shop) == ("done", "awaiting_approval", "cancelled")
    (refund,) = shop.refunds()
    assert refund.policy_reasons == ("above_limit",)
    assert refund.despite_cancel


@pytest.mark.both_databases
@pytest.mark.parametrize("has_source", [True, False])
def test_a_cancellation_whose_refund_is_refused_is_left_to_people(
    shop: Harness, has_source: bool
) -> None:
    shop.stock(big_order(**PENDING))
    if has_source:
        with_source(shop, SourceProblem("away"), SourceProblem("away"))
    batch = write(shop, text="Please cancel W2001.")
    cancel(batch, order_id="W2001")
    look(refund_id(shop))
    pass_time(shop, days=2)
    reject(shop)
    for _ in range(2):  # a replay changes nothing
        tell(refund_id(shop))
    (row,) = shop.rows("SELECT status, refund_id, due_at FROM remedies")
    assert (row.status, row.refund_id) == ("task", None)
    due_at = services.current().now() + timedelta(days=3)
    assert str(row.due_at)[:10] == str(due_at)[:10]
    # Of a task, the customer knew the old date.
    assert mails(shop).count(f"write to you by {tell_day(due_at)}") == (0 if has_source else 1)
    texts = [
        each.text
        for each in shop.rows("SELECT text FROM outbound_mails WHERE to_address = :t", t=TESS)
    ]
    assert sum("No refund is paid for it" in text for text in texts) == 1
    # What the system may have cancelled, only people can end.
    pass_time(shop, days=6)
    tasks.see_to()
    (row,) = shop.rows("SELECT status FROM remedies")
    assert row.status == ("task" if has_source else "expired")
    assert ("not done in time" in mails(shop)) is not has_source
    if has_source:
        told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W2001"})
        assert (told["outcome"], told["facts"][0]) == ("too_late", "remedy/W2001")
        assert shop.rows("SELECT status FROM remedies")[0].status == "task"


@ONE_DATABASE
@pytest.mark.parametrize("how", ["reject", "expire"])
def test_a_cancelled_order_whose_refund_is_refused_is_a_case_for_the_team(
    shop: Harness, how: str
) -> None:
    dear = big_order(**PENDING)
    shop.stock(dear)
    with_source(shop, Cancelled(replace(dear, status=OrderStatus.CANCELLED)))
    cancel(write(shop, text="Please cancel W2001."), order_id="W2001")
    look(refund_id(shop))
    known = "Its items are cancelled already. Without this refund, the team gets the case."
    (asked,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :m", m=MONA)
    assert known in asked.text
    assert known in page_of(shop)
    if how == "reject":
        reject(shop)
    else:
        pass_time(shop, days=8)
        assert look(refund_id(shop))["status"] == "expired"
    for _ in range(2):  # a replay changes nothing
        tell(refund_id(shop))
    (case,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :t", t=TESS)
    assert "its items are cancelled or back, and no refund was approved" in case.text
    (conversation,) = shop.rows("SELECT handed_over_at FROM conversations")
    assert conversation.handed_over_at is not None
    assert known not in page_of(shop)


@ONE_DATABASE
@pytest.mark.parametrize("how", ["reject", "expire", "expire after one of two approvals"])
def test_nothing_is_cancelled_any_more_after_a_refusal(
    tmp_path: Path, database_url: str, how: str
) -> None:
    with open_shop(tmp_path, database_url, {"APPROVAL_UNDO_SECONDS": "300"}) as shop:
        dear = big_order(**PENDING)
        shop.stock(dear)
        done = Cancelled(replace(dear, status=OrderStatus.CANCELLED))
        source = with_source(shop, SourceProblem("away"), done)
        if "two" in how:
            policy = Policy(four_eyes_above={"USD": 1_000_00})
            services.bind(replace(services.current(), policy=policy))
        cancel(write(shop, text="Please cancel W2001."), order_id="W2001")
        look(refund_id(shop))
        if how == "reject":
            click(shop, "reject")
            assert look(refund_id(shop))["status"] == "awaiting_approval"  # it can be taken back
            pass_time(shop, minutes=6)
        else:
            if "two" in how:
                click(shop, "approve")
            pass_time(shop, days=8)
        assert look(refund_id(shop))["status"] == ("rejected" if how == "reject" else "expired")
        tell(refund_id(shop))
        assert len(source.asked) == 1
        (row,) = shop.rows("SELECT status FROM remedies")
        assert row.status == "task"


@ONE_DATABASE
@pytest.mark.parametrize("status", ["shipped", "delivered"])
def test_it_is_too_late_when_the_order_says_so(shop: Harness, status: str) -> None:
    delivered = order().delivered_at if status == "delivered" else None
    shop.stock(pending(status=status, delivered_at=delivered and delivered.isoformat()))
    told = cancel(write(shop, text=LETTER))
    assert (told["outcome"], told["reason"]) == ("declined", "too_late")
    assert ("return_period/W1001" in told["facts"]) is (status == "delivered")
    assert shop.refunds() == ()


def told_customer(shop: Harness, batch: Batch, fact_ids: list[str]) -> str:
    with shop.live.database.transaction() as connection:
        reader = batch_reader(connection, batch)
        found = [reader.find(fact_id) for fact_id in fact_ids]
    assert None not in found
    return " ".join(sentence(fact) for fact in found if fact)


def test_what_is_cancelled_already_is_told_as_it_is(shop: Harness, batch: Batch) -> None:
    with_source(shop, cancelled())
    cancel(batch)
    assert pay(refund_id(shop))["status"] == "paid"
    batch = later_batch(shop, batch)
    for items in ([], [("M1", 1)]):
        told = cancel(batch, *items)
        assert told["outcome"] == "already_cancelled"
        said = told_customer(shop, batch, told["facts"])
        assert "Order W1001 is cancelled." in said
        assert "was paid on" in said
    assert not shop.rows("SELECT 1 FROM audit WHERE action = 'refund declined'")


@ONE_DATABASE
def test_what_the_shop_has_cancelled_is_told_as_it_is(shop: Harness) -> None:
    shop.stock(pending(status="cancelled"))
    batch = write(shop, text=LETTER)
    told = cancel(batch)
    assert told["facts"] == ["order/W1001", "refund/W1001"]
    assert "cancelled" in told_customer(shop, batch, told["facts"])
    assert shop.rows("SELECT 1 FROM remedies") == []
    assert propose(batch, "W1001", ("K1", None))["outcome"] == "needs_manager"


@ONE_DATABASE
@pytest.mark.parametrize("who", ["stranger", "unproven", "answered", "wrong item", "too many"])
def test_only_the_customer_cancels_what_was_ordered(shop: Harness, batch: Batch, who: str) -> None:
    if who == "stranger":
        batch = write(shop, GRACE, text=LETTER)
    elif who == "unproven":
        batch = {**batch, "verified": False}
    elif who == "answered":
        answer(shop, batch)
    items = {"wrong item": [("X", 1)], "too many": [("M1", 3)]}.get(who, [])
    assert "error" in cancel(batch, *items)
    assert shop.rows("SELECT 1 FROM remedies") == []


@ONE_DATABASE
def test_an_order_that_nothing_was_paid_for_is_a_task_without_a_refund(shop: Harness) -> None:
    shop.stock(pending(payments=[]))
    assert cancel(write(shop, text=LETTER))["outcome"] == "task"
    assert shop.refunds() == ()
    assert "The parcel may leave at any time." in told_team(shop)


TAKEN = {"charged_back_at": "2026-11-19T10:00:00Z"}  # by the customer's bank


@pytest.mark.parametrize(
    ("payment", "price", "items", "units"),
    [
        ({"refunded": "69.99"}, "49.99", (), {}),
        ({"refunded": "69.99"}, "49.99", (("K1", None),), {"K1": 1}),
        ({}, "0.00", (("K1", None),), {"K1": 1}),
        (TAKEN, "49.99", (), {}),
    ],
    ids=["all of it", "one item", "a free item", "charged back"],
)
def test_what_no_money_is_left_for_is_a_task_without_a_refund(
    shop: Harness, payment: dict[str, str], price: str, items: Any, units: dict[str, int]
) -> None:
    """The team refunded it in the shop's system, the customer's bank took the money, or it cost nothing; it
    must not be sent all the same."""
    kettle, mugs = render_order(pending())["items"]
    paid = {"payment_id": "pay_W1001", "method": "card", "amount": "69.99"} | payment
    shop.stock(pending(items=[kettle | {"unit_price": price}, mugs], payments=[paid]))
    batch = write(shop, text=LETTER)
    told = cancel(batch, *items)
    assert (told["outcome"], told["facts"]) == ("task", ["remedy/W1001"])
    assert cancel(later_batch(shop, batch), *items)["outcome"] == "task"  # the same
    assert wishes(shop) == [("cancel", "task", units)]
    assert shop.refunds() == ()


@ONE_DATABASE
def test_what_the_bank_took_back_in_part_is_left_to_people(shop: Harness) -> None:
    """They refund the rest by hand, so it must not be cancelled without them."""
    payments = [
        {"payment_id": "P1", "method": "card", "amount": "30.00"} | TAKEN,
        {"payment_id": "P2", "method": "card", "amount": "39.99"},
    ]
    shop.stock(pending(payments=payments))
    told = cancel(write(shop, text=LETTER))
    assert (told["outcome"], told["reason"]) == ("declined", "charged_back")
    assert "hand_over" in told["say"]
    assert wishes(shop) == []


# --- a refund of the same items was asked for before ----------------------------------------------


def wishes(shop: Harness) -> list[tuple[str, str, dict[str, int]]]:
    """Return the kind, the state and the units of each remedy; no units for the whole order."""
    with shop.live.database.snapshot() as connection:
        known = remedies.list_of_order(connection, "W1001")
    return [(each.kind.value, each.status.value, dict(each.units)) for each in known]


@pytest.mark.parametrize("in_one_mail", [True, False])
@pytest.mark.parametrize("has_source", [True, False])
def test_people_cancel_what_an_earlier_refund_is_for(
    shop: Harness, batch: Batch, in_one_mail: bool, has_source: bool
) -> None:
    source = with_source(shop) if has_source else None
    assert propose(batch, "W1001", ("K1", None), ("M1", None))["outcome"] == "needs_manager"
    batch = batch if in_one_mail else later_batch(shop, batch)
    told = cancel(batch)
    assert (told["outcome"], told["facts"]) == ("task", ["remedy/W1001", "refund/W1001"])
    assert cancel(batch)["outcome"] == "task"  # a step that is done again
    assert cancel(later_batch(shop, batch))["outcome"] == "task"
    assert wishes(shop) == [("cancel", "task", {})]
    assert "Cancellation, order W1001" in " ".join(
        row.subject
        for row in shop.rows("SELECT subject FROM outbound_mails WHERE to_address = :t", t=TESS)
    )
    click(shop, "approve")
    finish_task(shop)
    assert pay(refund_id(shop))["status"] == "paid"
    assert len(shop.refunds()) == 1
    assert source is None or source.asked == []


@ONE_DATABASE
def test_items_that_an_earlier_refund_is_for_are_cancelled_with_others(
    shop: Harness, batch: Batch
) -> None:
    propose(batch, "W1001", ("K1", 1))
    later = later_batch(shop, batch)
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    assert cancel(later, ("K1", 1), ("M1", 2))["facts"] == ["remedy/W1001", "refund/W1001"]
    assert wishes(shop) == [("cancel", "task", {"K1": 1, "M1": 2})]
    assert [each.amount.minor for each in shop.refunds()] == [49_99, 20_00]
    click(shop, "approve", quantity_2="1")
    assert wishes(shop) == [("cancel", "task", {"K1": 1, "M1": 1})]


@ONE_DATABASE
def test_what_is_cancelled_without_a_refund_of_its_own_is_cancelled_once(
    shop: Harness, batch: Batch
) -> None:
    propose(batch, "W1001", ("K1", None))
    batch = later_batch(shop, batch)
    assert cancel(batch, ("K1", None))["outcome"] == "task"
    finish_task(shop)
    cancel(later_batch(shop, batch), ("K1", None))
    assert wishes(shop) == [("cancel", "done", {"K1": 1})]


# --- a part is being cancelled, and more is wanted ------------------------------------------------


@pytest.mark.parametrize("has_source", [True, False])
def test_who_wants_more_cancelled_gets_the_rest_cancelled(
    shop: Harness, batch: Batch, has_source: bool
) -> None:
    if has_source:
        with_source(shop)
    state = "asked" if has_source else "task"
    cancel(batch, ("M1", 1))
    later = later_batch(shop, batch)
    assert cancel(later, ("M1", 2), ("K1", 1))["outcome"] == state
    expected = [("cancel", state, {"M1": 1}), ("cancel", state, {"K1": 1, "M1": 1})]
    assert wishes(shop) == expected
    assert [each.amount.minor for each in shop.refunds()] == [10_00, 59_99]
    told = cancel(later_batch(shop, later), ("M1", 2), ("K1", None))
    assert (told["outcome"], "nothing new was asked for now" in told["say"]) == (state, True)
    assert wishes(shop) == expected


@ONE_DATABASE
@pytest.mark.parametrize("paid", [True, False])
def test_a_part_that_is_being_cancelled_is_not_cancelled_twice(shop: Harness, paid: bool) -> None:
    shop.stock(pending(**({} if paid else {"payments": []})))
    batch = write(shop, text=LETTER)
    cancel(batch, ("M1", 1))
    batch = later_batch(shop, batch)
    assert cancel(batch, ("M1", 1))["quantities"] == {"M1": 1}
    batch = later_batch(shop, batch)
    cancel(batch, ("M1", None))
    cancel(later_batch(shop, batch), ("M1", 2))
    assert wishes(shop) == [("cancel", "task", {"M1": 1})] * 2
    assert len(shop.refunds()) == (2 if paid else 0)


@pytest.mark.parametrize(
    "answers",
    [
        [NotSupported("it cancels whole orders only"), cancelled()],
        [NOT_SENT, cancelled()],
        [NOT_SENT, SourceProblem("no answer"), cancelled(), cancelled()],
    ],
    ids=["the part is a task", "the part is asked for", "the part is asked for again"],
)
def test_a_part_is_cancelled_with_the_whole_order(
    shop: Harness, batch: Batch, answers: list[Any]
) -> None:
    keep_version(shop, pending())
    source = with_source(shop, *answers)
    cancel(batch, ("M1", 1))
    part = refund_id(shop)
    pay(part)
    cancel(later_batch(shop, batch))
    click(shop, "approve")
    if len(answers) > 2:
        pay(refund_id(shop))
        assert pay(part)["status"] == "paid"  # the system says that all is cancelled
    assert pay(refund_id(shop))["status"] == pay(part)["status"] == "paid"
    assert source.says == []
    assert wishes(shop) == [("cancel", "done", {"M1": 1}), ("cancel", "done", {})]
    assert [each.amount.minor for each in shop.refunds()] == [10_00, 59_99]
    assert "Order W1001 is cancelled." in mails(shop)


# --- a manager approves fewer units ---------------------------------------------------------------


def ask_a_manager(shop: Harness, batch: Batch, *items: tuple[str, int | None]) -> None:
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    cancel(batch, *items)
    assert states(shop) == ("task", "awaiting_approval", "pending")


def finish_task(shop: Harness) -> None:
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        assert finish(connection, row.remedy_id, TESS, True, None)


@pytest.mark.parametrize(
    ("items", "left"),
    [([("M1", 2)], "- 1 × Mug"), ([], "- 1 × Kettle\n- 1 × Mug")],
    ids=["items", "the whole order"],
)
def test_people_cancel_only_what_a_manager_approved(
    shop: Harness, batch: Batch, items: list[tuple[str, int | None]], left: str
) -> None:
    ask_a_manager(shop, batch, *items)
    click(shop, "approve", quantity_2="1")
    assert "Please do it for nothing else" in told_team(shop)
    finish_task(shop)
    assert f"These items of order W1001 are cancelled:\n{left}\n" in mails(shop)
    assert pay(refund_id(shop))["status"] == "paid"
    tell(refund_id(shop))
    (conversation,) = shop.rows("SELECT handed_over_at FROM conversations")
    assert conversation.handed_over_at is None


@ONE_DATABASE
def test_people_cancel_all_of_it_while_the_manager_may_take_fewer_units_back(
    tmp_path: Path, database_url: str
) -> None:
    with open_shop(tmp_path, database_url, {"APPROVAL_UNDO_SECONDS": "300"}) as shop:
        shop.stock(pending())
        ask_a_manager(shop, write(shop, text=LETTER), ("M1", 2))
        click(shop, "approve", quantity_2="1")
        assert "Please do it for nothing else" not in told_team(shop)
        pass_time(shop, minutes=6)
        assert look(refund_id(shop))["status"] == "approved"
        assert "Please do it for nothing else" in told_team(shop)


@ONE_DATABASE
def test_people_cancel_what_both_managers_approved(shop: Harness, batch: Batch) -> None:
    policy = Policy({"USD": 1}, four_eyes_above={"USD": 1})
    services.bind(replace(services.current(), policy=policy))
    cancel(batch, ("M1", 2))
    click(shop, "approve", quantity_2="1")
    # A second manager can only lower it further.
    assert "Please do it for nothing else" in told_team(shop)
    click(shop, "approve", MAX)
    finish_task(shop)
    assert "are cancelled:\n- 1 × Mug" in mails(shop)


@pytest.mark.parametrize("items", [[("M1", 2)], []], ids=["items", "the whole order"])
def test_what_was_cancelled_already_and_is_not_paid_is_a_case_for_the_team(
    shop: Harness, batch: Batch, items: list[tuple[str, int | None]]
) -> None:
    ask_a_manager(shop, batch, *items)
    finish_task(shop)
    click(shop, "approve", quantity_2="1")
    assert pay(refund_id(shop))["status"] == "paid"
    for _ in range(2):  # a replay changes nothing
        tell(refund_id(shop))
    assert told_team(shop).count("more items are cancelled or back than were approved") == 1
    (conversation,) = shop.rows("SELECT handed_over_at FROM conversations")
    assert conversation.handed_over_at is not None


@ONE_DATABASE
def test_people_cancel_only_what_was_approved_of_what_the_system_cannot(
    shop: Harness, refusing: Batch
) -> None:
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    cancel(refusing, ("M1", 2))
    assert look(refund_id(shop))["status"] == "awaiting_approval"
    click(shop, "approve", quantity_2="1")
    assert wishes(shop) == [("cancel", "task", {"M1": 1})]


@pytest.mark.parametrize(
    ("items", "approved"),
    [([("M1", 2)], {"M1": 1}), ([], {"K1": 1, "M1": 1})],
    ids=["items", "the whole order"],
)
@pytest.mark.parametrize("is_task", [True, False])
def test_the_system_cancels_only_what_was_approved_before_it_was_reached(
    shop: Harness,
    batch: Batch,
    items: list[tuple[str, int | None]],
    approved: dict[str, int],
    is_task: bool,
) -> None:
    keep_version(shop, pending())
    kettle, mugs = pending().lines
    lines = [*([] if "K1" in approved else [kettle]), replace(mugs, quantity=1)]
    done = Cancelled(replace(pending(), lines=tuple(lines)))
    source = with_source(shop, NOT_SENT, NotSupported("501") if is_task else done)
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    cancel(batch, *items)
    look(refund_id(shop))
    click(shop, "approve", quantity_2="1")
    assert pay(refund_id(shop))["status"] == ("approved" if is_task else "paid")
    assert dict(source.asked[1].items) == approved
    assert wishes(shop) == [("cancel", "task" if is_task else "done", approved)]
    assert "Please do it for nothing else" not in told_team(shop)  # it was no task then


def ask_while_away(shop: Harness, batch: Batch, **rules: Any) -> PlayedSource:
    """Cancel two mugs, which a manager decides on, while the shop's system is away. Managers have 300 s to take
    a decision back."""
    keep_version(shop, pending())
    kettle, mugs = pending().lines
    done = Cancelled(replace(pending(), lines=(kettle, replace(mugs, quantity=1))))
    source = with_source(shop, NOT_SENT, done)
    live = services.current()
    waits = replace(live.waits, approval_undo_seconds=300)
    services.bind(replace(live, policy=Policy({"USD": 1}, **rules), waits=waits))
    cancel(batch, ("M1", 2))
    look(refund_id(shop))
    assert len(source.asked) == 1
    return source


def test_the_system_is_asked_for_fewer_once_the_manager_cannot_take_that_back(
    shop: Harness, batch: Batch
) -> None:
    away = ask_while_away(shop, batch)
    click(shop, "approve", quantity_2="1")
    assert 0 < look(refund_id(shop))["wait_seconds"] <= 300
    pass_time(shop, minutes=6)
    assert look(refund_id(shop))["status"] == "approved"
    assert len(away.asked) == 1
    assert pay(refund_id(shop))["status"] == "paid"
    assert away.asked[1].items == (("M1", 1),)
    assert wishes(shop) == [("cancel", "done", {"M1": 1})]


@ONE_DATABASE
def test_the_system_is_asked_for_all_of_it_after_the_manager_takes_fewer_units_back(
    shop: Harness, batch: Batch
) -> None:
    away = ask_while_away(shop, batch)
    click(shop, "approve", quantity_2="1")
    look(refund_id(shop))
    click(shop, "undo")
    look(refund_id(shop))
    assert [each.items for each in away.asked] == [(("M1", 2),)] * 2


@pytest.mark.parametrize("is_back", [True, False])
def test_the_system_is_asked_for_fewer_while_a_second_manager_has_to_decide(
    shop: Harness, batch: Batch, is_back: bool
) -> None:
    away = ask_while_away(shop, batch, four_eyes_above={"USD": 1})
    if not is_back:
        away.says[:] = [NOT_SENT] * 2
    click(shop, "approve", quantity_2="1")
    look(refund_id(shop))
    pass_time(shop, minutes=6)
    assert look(refund_id(shop))["wait_seconds"] == 30
    assert len(away.asked) == 1
    look(refund_id(shop))
    assert away.asked[1].items == (("M1", 1),)
    if is_back:
        assert states(shop)[:2] == ("done", "awaiting_approval")
    else:
        pass_time(shop, hours=6.1)
        look(refund_id(shop))
        assert "has not cancelled it" in told_team(shop)
    assert wishes(shop) == [("cancel", "done" if is_back else "task", {"M1": 1})]
    click(shop, "approve", MAX)
    pass_time(shop, hours=6.3)
    assert look(refund_id(shop))["status"] == "approved"
    assert wishes(shop) == [("cancel", "done" if is_back else "task", {"M1": 1})]
    assert pay(refund_id(shop))["status"] == ("paid" if is_back else "approved")


@ONE_DATABASE
def test_a_system_that_may_have_cancelled_is_asked_on_while_fewer_units_wait(
    shop: Harness, batch: Batch
) -> None:
    away = ask_while_away(shop, batch)
    away.says[:] = [SourceProblem("no answer")] * 2
    look(refund_id(shop))
    click(shop, "approve", quantity_2="1")
    look(refund_id(shop))
    assert len({each.idempotency_key for each in away.asked}) == 1
    assert [each.items for each in away.asked] == [(("M1", 2),)] * 3


@ONE_DATABASE
@pytest.mark.parametrize("done", [True, False], ids=["the part is done", "the part is under way"])
@pytest.mark.parametrize("has_source", [True, False])
def test_what_another_cancellation_has_is_not_cancelled_with_the_rest(
    shop: Harness, batch: Batch, has_source: bool, done: bool
) -> None:
    """One of two mugs is being cancelled; of the whole order a manager then approves the kettle only."""
    keep_version(shop, pending())
    kettle, mugs = pending().lines
    fewer = Cancelled(replace(pending(), lines=(kettle, replace(mugs, quantity=1))))
    if has_source:
        with_source(shop, *([fewer] if done else [NOT_SENT]), NOT_SENT)
    cancel(batch, ("M1", 1))
    if has_source:
        pay(refund_id(shop))
    elif done:
        finish_task(shop)  # people do it; the order still lists both mugs
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    cancel(later_batch(shop, batch))
    look(refund_id(shop))
    click(shop, "approve", quantity_2="0")
    assert [units for _, _, units in wishes(shop)] == [{"M1": 1}, {"K1": 1}]
    assert [each.amount.minor for each in shop.refunds()] == [10_00, 49_99]


@ONE_DATABASE
def test_a_whole_order_is_not_cancelled_for_what_was_cancelled_unpaid(
    shop: Harness, batch: Batch
) -> None:
    """The refund of a cancelled mug was refused. Of the whole order a manager then approves one mug."""
    ask_a_manager(shop, batch, ("M1", 1))
    finish_task(shop)
    reject(shop)
    cancel(later_batch(shop, batch))
    click(shop, "approve", quantity_1="0", quantity_2="1")
    assert [units for _, _, units in wishes(shop)] == [{"M1": 1}, {"M1": 1}]


@ONE_DATABASE
@pytest.mark.parametrize("is_early", [True, False])
def test_what_an_earlier_refund_pays_is_not_missing(
    shop: Harness, batch: Batch, is_early: bool
) -> None:
    """The kettle was refunded before it was cancelled with the mugs, of which a manager approves one."""
    propose(batch, "W1001", ("K1", 1))
    click(shop, "approve")
    assert pay(refund_id(shop))["status"] == "paid"
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    cancel(later_batch(shop, batch), ("K1", 1), ("M1", 2))
    if is_early:
        finish_task(shop)
    click(shop, "approve", quantity_2="1")
    if not is_early:
        finish_task(shop)
    assert pay(refund_id(shop))["status"] == "paid"
    tell(refund_id(shop))
    assert ("more items are cancelled or back" in told_team(shop)) is is_early


@ONE_DATABASE
def test_what_the_shops_system_may_have_cancelled_stays_the_task(
    shop: Harness, batch: Batch
) -> None:
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    with_source(shop, SourceProblem("no answer"), SourceProblem("no answer"))
    cancel(batch, ("M1", 2))
    look(refund_id(shop))
    pass_time(shop, hours=6.1)
    look(refund_id(shop))
    assert states(shop) == ("task", "awaiting_approval", "pending")
    click(shop, "approve", quantity_2="1")
    finish_task(shop)
    assert "- 2 × Mug" in mails(shop)
    assert pay(refund_id(shop))["status"] == "paid"
    tell(refund_id(shop))
    assert "more items are cancelled or back than were approved" in told_team(shop)


# --- another mind ---------------------------------------------------------------------------------


def test_never_mind_takes_a_task_and_its_refund_back(shop: Harness, batch: Batch) -> None:
    cancel(batch)
    later = later_batch(shop, batch)
    told = use(withdraw_refund, later, {"order_id": "W1001"})
    assert (told["outcome"], told["requests"]) == ("withdrawn", ["cancel"])
    assert states(shop) == ("withdrawn", "withdrawn", "pending")
    assert pay(refund_id(shop))["status"] == "withdrawn"
    assert use(withdraw_refund, later, {"order_id": "W1001"}) == told


@pytest.mark.both_databases
@pytest.mark.parametrize("paid", [True, False])
def test_what_a_newer_mail_asks_to_keep_is_left_to_a_manager(shop: Harness, paid: bool) -> None:
    shop.stock(pending(**({} if paid else {"payments": []})))
    source = with_source(shop)
    older = write(shop, subject="One", text=LETTER)
    newer = write(shop, subject="Two", text="Correction: cancel only the mugs. I keep the kettle!")
    cancel(newer, ("M1", 2))
    first = "asked" if paid else "task"
    assert cancel(older)["outcome"] == "task"  # its run had failed, and is replayed
    assert wishes(shop) == [("cancel", first, {"M1": 2}), ("cancel", "task", {})]
    if paid:
        assert look(refund_id(shop))["status"] == "awaiting_approval"
        assert "or asks for something else on the order" in page_of(shop)
    assert source.asked == []
    with shop.live.database.snapshot() as connection:
        needs = [each.needs_manager for each in remedies.list_of_order(connection, "W1001")]
    assert needs == [False, True]


@pytest.mark.both_databases
@pytest.mark.parametrize("paid", [True, False])
def test_what_a_newer_mail_takes_back_is_left_to_a_manager(shop: Harness, paid: bool) -> None:
    shop.stock(pending(**({} if paid else {"payments": []})))
    source = with_source(shop)
    older = write(shop, subject="One", text=LETTER)
    newer = write(shop, subject="Two", text="Forget it: do NOT cancel W1001, I want it.")
    assert use(withdraw_refund, newer, {"order_id": "W1001"})["outcome"] == "nothing_waits"
    assert cancel(older)["outcome"] == "task"  # its run had failed, and is replayed
    if paid:
        assert look(refund_id(shop))["status"] == "awaiting_approval"
        assert states(shop) == ("task", "awaiting_approval", "pending")
        assert "later mail of the customer withdraws it" in page_of(shop)
    assert source.asked == []
    (task,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        with pytest.raises(TaskProblem, match="a manager"):
            finish(connection, task.remedy_id, TESS, True, None)
        assert finish(connection, task.remedy_id, MONA, False, "You want it after all.")


@ONE_DATABASE
def test_what_the_system_is_asked_to_do_is_not_taken_back(shop: Harness) -> None:
    shop.stock(big_order(**PENDING))
    with_source(shop)
    batch = write(shop, text="Please cancel W2001.")
    cancel(batch, order_id="W2001")
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W2001"})
    assert (told["outcome"], told["facts"]) == ("too_late", ["remedy/W2001", "refund/W2001"])
    assert states(shop) == ("asked", "awaiting_approval", "pending")


@ONE_DATABASE
@pytest.mark.parametrize("unwanted", [True, False])
def test_the_team_hears_that_the_customer_does_not_want_it_any_more(
    shop: Harness, batch: Batch, unwanted: bool
) -> None:
    with_source(shop, NotSupported("read only"))
    cancel(batch)
    if unwanted:
        use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    pay(refund_id(shop))
    assert states(shop)[0] == "task"
    assert ("has since asked to withdraw a request" in told_team(shop)) is unwanted


@ONE_DATABASE
def test_what_is_too_late_is_not_said_to_be_withdrawn_by_the_customer(shop: Harness) -> None:
    shop.stock(big_order(**PENDING))
    with_source(shop, SourceProblem("away"), TooLate("shipped"))
    cancel(write(shop, text="Please cancel W2001."), order_id="W2001")
    look(refund_id(shop))
    assert "It is paid after its items are cancelled." in page_of(shop)
    look(refund_id(shop))
    assert "What the refund of $1,499.00 waited for was not done." in page_of(shop)
    assert "State: lapsed, because" in mails(shop)


@ONE_DATABASE
@pytest.mark.parametrize("outcome", [SourceProblem("away"), TooLate("shipped")])
def test_single_items_are_not_the_whole_order(
    shop: Harness, batch: Batch, outcome: CancelOutcome | SourceProblem
) -> None:
    with_source(shop, outcome)
    cancel(batch, ("M1", 1))
    pay(refund_id(shop))
    with shop.live.database.transaction() as connection:
        fact = batch_reader(connection, batch).find("remedy/W1001")
    assert fact is not None
    assert "hese items of order W1001" in sentence(fact)
    assert "- 1 × Mug" in sentence(fact)


@ONE_DATABASE
def test_a_small_order_that_the_system_is_asked_for_is_said_to_be_on_its_way(
    shop: Harness, batch: Batch
) -> None:
    with_source(shop)
    cancel(batch)
    told = use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert (told["outcome"], told["facts"][0]) == ("too_late", "remedy/W1001")
    assert states(shop) == ("asked", "approved", "pending")


@ONE_DATABASE
def test_a_cancelled_order_needs_no_other_address(shop: Harness, batch: Batch) -> None:
    wish = {"order_id": "W1001", "kind": "change_address", "items": [], "reason": "other"}
    use(request_change, batch, wish | {"wish": LETTER})
    cancel(later_batch(shop, batch))
    rows = shop.rows("SELECT kind, status FROM remedies ORDER BY remedy_id")
    assert [(row.kind, row.status) for row in rows] == [
        ("change_address", "withdrawn"),
        ("cancel", "task"),
    ]


@ONE_DATABASE
def test_a_cancelled_order_needs_no_address_of_a_mail_that_waits_too(
    shop: Harness, batch: Batch
) -> None:
    wish = {"order_id": "W1001", "kind": "change_address", "items": [], "reason": "other"}
    use(request_change, batch, wish | {"wish": LETTER})
    (thread,) = shop.rows("SELECT reply_token FROM conversations")
    both = write(shop, text="Cancel it.", to=f"case+{thread.reply_token}@shop.example")
    cancel(both)
    assert wishes(shop) == [("change_address", "withdrawn", {}), ("cancel", "task", {})]


@pytest.mark.both_databases
def test_an_older_cancellation_leaves_the_address_that_a_newer_mail_asked_for(
    shop: Harness, batch: Batch
) -> None:
    newer = write(shop, subject="Two", text="Please send W1001 to 2 New Street.")
    wish = {"order_id": "W1001", "kind": "change_address", "items": [], "reason": "other"}
    use(request_change, newer, wish | {"wish": "2 New Street"})
    cancel(batch)  # its run had failed, and is replayed
    assert wishes(shop) == [("change_address", "task", {}), ("cancel", "task", {})]


@ONE_DATABASE
def test_a_refund_beside_a_cancellation_is_the_same_money(shop: Harness, batch: Batch) -> None:
    cancel(batch)
    told = propose(later_batch(shop, batch), "W1001", ("K1", None))
    assert told["outcome"] == "already_requested"
    assert cancel(later_batch(shop, batch))["outcome"] == "task"
    assert len(shop.refunds()) == 1


@ONE_DATABASE
def test_the_deadline_of_a_cancellation_is_that_of_a_task(shop: Harness, batch: Batch) -> None:
    cancel(batch)
    late = (shop.live.now() + timedelta(days=3.1)).strftime("%Y-%m-%d %H:%M:%S")
    (due,) = shop.rows("SELECT due_at > :late AS is_late FROM remedies", late=late)
    assert not due.is_late


def test_a_receipt_does_not_wait_for_a_refund_that_people_hold_up(
    shop: Harness, batch: Batch
) -> None:
    shop.stock(camera_order())
    cancel(batch)
    propose(batch, "W1010", (STRAPS, 1))
    held_up, paid = [each.refund_id for each in shop.refunds()]
    answer(shop, batch)
    assert (pay(held_up)["status"], pay(paid)["status"]) == ("approved", "paid")
    assert isinstance(tell(paid), list)


@pytest.mark.both_databases
def test_a_refund_is_promised_only_for_when_the_cancellation_is_done(
    shop: Harness, batch: Batch
) -> None:
    cancel(batch)
    said = told_customer(shop, batch, ["refund/W1001"])
    assert said.endswith("is approved. It is paid once the cancellation is done.")
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        finish(connection, row.remedy_id, TESS, True, None)
    said = told_customer(shop, batch, ["refund/W1001"])
    assert "You get a receipt by mail as soon as it is paid." in said
