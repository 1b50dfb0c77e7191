"""A refund that was approved and is refused after all, on its page, while no gateway was asked to pay it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from mailagent import services
from mailagent.domain.operations.retry import MOST_WAKE_UPS
from mailagent.domain.orders.source import Cancelled
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.payment import OutcomeUnknown
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.domain.remedies.remedy import TaskProblem
from mailagent.engine import REFUND, run_id_of
from mailagent.remedies import finish, receive
from mailagent.store import schema
from mailagent.store.refunds import approvals, refunds
from mailagent.web.webhooks.approval_reply import describe
from mailagent.workflows.steps.maintenance import unfinished
from mailagent.workflows.tools.cancel_order import cancel_order
from tests.cast import ADA, MONA, OLGA, TESS, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.round_trips.approvals import decide
from tests.tool_use import use
from tests.web.doors import csrf_token
from tests.workflows.cancelling import with_source
from tests.workflows.paying import (
    CARD,
    approved,
    held,
    ledger,
    look,
    moody,
    pay,
    propose,
    tell,
    two_payments,
)
from tests.workflows.proposals import write
from tests.workflows.trouble import later, once, set_run, watched

BUTTON = "Refuse after all"
GOODS_FIRST = ReturnFirst(frozenset(RefundReason), "Send it to 1 Shop Street.", days=14)


def stop_run(shop: Harness, status: str = "CANCELLED") -> str:
    """Let the run of the only refund have ended before it paid; return the refund's id."""
    (refund,) = shop.refunds()
    set_run(shop, refund.run_id or run_id_of(REFUND, refund.refund_id), status)
    return refund.refund_id


def path_of(refund_id: str) -> str:
    return f"/ops/refunds/{refund_id}"


def has_button(shop: Harness, refund_id: str, email: str = MONA) -> bool:
    return BUTTON in shop.log_in(email).get(path_of(refund_id)).text


def press(client: FlaskClient, refund_id: str, reason: str = "It was a fraud.") -> int:
    form = {"csrf_token": csrf_token(client), "reason": reason}
    return client.post(f"{path_of(refund_id)}/refuse", data=form).status_code


def refuse(shop: Harness, refund_id: str) -> None:
    assert press(shop.log_in(MONA), refund_id) == 303


def rejections(shop: Harness) -> list[tuple[str, str]]:
    rows = shop.rows("SELECT actor, details FROM audit WHERE action = 'refund rejected'")
    return [(row.actor, str(row.details)) for row in rows]


@pytest.mark.parametrize("status", ["CANCELLED", "ERROR"])
def test_it_is_closed_once_and_told(shop: Harness, status: str) -> None:
    refund_id = approved(shop).refund_id
    assert not has_button(shop, refund_id)  # its run is at it
    stop_run(shop, status)
    assert held(shop) > 0
    assert has_button(shop, refund_id)
    for _ in range(2):  # a double click
        refuse(shop, refund_id)
    (refund,) = shop.refunds()
    assert (refund.status, refund.decided_by) == (RefundStatus.REJECTED, MONA)
    assert refund.run_id == run_id_of(REFUND, refund_id, "refused")
    assert held(shop) == 0
    ((actor, details),) = rejections(shop)
    assert actor == MONA
    assert "It was a fraud." in details
    assert not has_button(shop, refund_id)
    for _ in range(2):  # a replay of the cancelled run does it, too
        tell(refund_id)
    told = shop.rows("SELECT to_address, text FROM outbound_mails")
    (mail,) = [row.text for row in told if row.to_address == ADA]
    assert "decided against it" in mail
    assert "fraud" not in mail
    (case,) = [row.text for row in told if row.to_address == TESS]
    assert "a refund that had been approved was refused after all" in case
    assert pay(refund_id)["status"] == "rejected"
    assert ledger(shop) == {}


@ONE_DATABASE
def test_the_sweep_sees_that_the_customer_is_told_although_people_had_the_case(
    shop: Harness,
) -> None:
    refund_id = approved(shop).refund_id
    with shop.live.database.transaction() as connection:
        refunds.count_wake_ups(connection, refund_id, 0, MOST_WAKE_UPS + 1)
    refuse(shop, stop_run(shop))
    stop_run(shop, "ERROR")  # the one that tells the customer
    later(shop, minutes=6)
    assert [unfinished.enqueue_refunds() for _ in range(2)] == [1, 0]


@ONE_DATABASE
def test_asked_for_again_it_is_a_managers(shop: Harness) -> None:
    approved(shop)
    refuse(shop, stop_run(shop))
    assert propose(shop, subject="Another thread")["outcome"] == "needs_manager"
    assert ledger(shop) == {}


@ONE_DATABASE
def test_the_customer_reads_what_they_asked_for_and_no_note_of_who_approved(shop: Harness) -> None:
    shop.stock(big_order())
    assert propose(shop, "D1", order_id="W2001")["outcome"] == "needs_manager"
    (refund,) = shop.refunds()
    with shop.live.database.snapshot() as connection:
        approval = approvals.load_standing_of_refund(connection, refund.refund_id).approval
    link = shop.live.links.sign_approval(approval.approval_id, MONA)
    decide(shop, link, "approve", amount="200.00", note="Sorry for that!", note_shared="yes")
    look(refund.refund_id)
    refuse(shop, stop_run(shop))
    tell(refund.refund_id)
    (mail,) = shop.rows("SELECT text FROM outbound_mails WHERE to_address = :a", a=ADA)
    assert "decided against it" in mail.text
    assert "Sorry for that!" not in mail.text
    assert "your request for $1,499.00 back" in " ".join(mail.text.split())
    with shop.live.database.snapshot() as connection:
        standing = approvals.load_standing_of_refund(connection, refund.refund_id)
        told = describe(standing, refunds.load(connection, refund.refund_id))
    assert told[-1] == f"{MONA} refused it after all. Nothing was paid."


@ONE_DATABASE
def test_only_managers_refuse_and_say_why(shop: Harness) -> None:
    approved(shop)
    refund_id = stop_run(shop)
    for email in (OLGA, TESS):
        assert not has_button(shop, refund_id, email)
        assert press(shop.log_in(email), refund_id) == 403
    manager = shop.log_in(MONA)
    assert press(manager, refund_id, reason=" ") == 303
    assert "Your click changed nothing." in manager.get(path_of(refund_id)).text
    with shop.live.database.transaction() as connection:
        connection.execute(schema.orders.update().values(customer_email=MONA))
    assert not has_button(shop, refund_id)
    assert press(shop.log_in(MONA), refund_id) == 403
    assert shop.refunds()[0].status is RefundStatus.APPROVED


@ONE_DATABASE
def test_once_a_gateway_may_have_been_asked_it_is_too_late(shop: Harness) -> None:
    refund_id = approved(shop).refund_id
    moody(shop, {CARD: [OutcomeUnknown("the line was cut")]})
    pay(refund_id)
    stop_run(shop)
    assert not has_button(shop, refund_id)
    refuse(shop, refund_id)
    assert shop.refunds()[0].status is RefundStatus.APPROVED
    assert rejections(shop) == []


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("at", "ends"),
    [
        ("pay_refund intended", RefundStatus.REJECTED),
        ("pay_refund asked", RefundStatus.PAID),
    ],
)
def test_of_a_resumed_run_and_a_refusal_the_first_counts(
    shop: Harness, at: str, ends: RefundStatus
) -> None:
    refund_id = approved(shop).refund_id
    stop_run(shop)
    refusal: Callable[[], None] = once(lambda: refuse(shop, refund_id))
    with watched(at, refusal):
        state = pay(refund_id)
    (refund,) = shop.refunds()
    assert (state["status"], refund.status) == (ends.value, ends)
    assert bool(ledger(shop)) is (ends is RefundStatus.PAID)
    assert len(rejections(shop)) == (ends is RefundStatus.REJECTED)


def wait_for_goods(shop: Harness) -> str:
    """Let the customer be asked for goods, and the run be cancelled; return the refund's id."""
    services.bind(replace(shop.live, policy=Policy(return_first=GOODS_FIRST)))
    shop.stock(two_payments())
    assert propose(shop)["outcome"] == "approved"
    refund_id = shop.refunds()[0].refund_id
    assert pay(refund_id)["status"] == "approved"
    return stop_run(shop)


def state_of_return(shop: Harness) -> tuple[str, str]:
    (row,) = shop.rows("SELECT remedy_id, status FROM remedies")
    return row.remedy_id, row.status


@ONE_DATABASE
@pytest.mark.parametrize("is_told", [False, True])
def test_goods_that_come_back_afterwards_pay_nothing(shop: Harness, is_told: bool) -> None:
    refund_id = wait_for_goods(shop)
    refuse(shop, refund_id)
    if is_told:
        tell(refund_id)
    remedy_id, status = state_of_return(shop)
    assert status == ("not_possible" if is_told else "awaiting_goods")
    with shop.live.database.transaction() as connection:
        if is_told:
            with pytest.raises(TaskProblem):
                finish(connection, remedy_id, TESS, True, None)
            with pytest.raises(TaskProblem):
                receive(connection, refund_id, "shop system")
        else:
            assert finish(connection, remedy_id, TESS, True, None)
    late = shop.rows("SELECT 1 FROM audit WHERE action = 'goods back too late'")
    assert len(late) == is_told
    assert pay(refund_id)["status"] == "rejected"
    tell(refund_id)
    assert ledger(shop) == {}
    assert shop.refunds()[0].run_id == run_id_of(REFUND, refund_id, "refused")


@ONE_DATABASE
def test_a_cancellation_that_waits_is_left_to_people_and_pays_nothing(shop: Harness) -> None:
    shop.stock(order(status="pending", delivered_at=None, shipments=[]))
    arguments = {"order_id": "W1001", "items": []}
    assert use(cancel_order, write(shop, text="Please cancel it."), arguments)["outcome"] == "task"
    assert pay(shop.refunds()[0].refund_id)["status"] == "approved"
    refund_id = stop_run(shop)
    refuse(shop, refund_id)
    for _ in range(2):
        tell(refund_id)
    (remedy,) = shop.rows("SELECT remedy_id, status, refund_id FROM remedies")
    assert (remedy.status, remedy.refund_id) == ("task", None)
    with shop.live.database.transaction() as connection:
        assert finish(connection, remedy.remedy_id, TESS, True, None)
    assert pay(refund_id)["status"] == "rejected"
    assert ledger(shop) == {}


class RefusedMeanwhile:
    """The shop's database: before a step opens its first transaction, something else is done."""

    def __init__(self, shop: Harness, do: Callable[[], None]) -> None:
        self._known, self._do = shop.live.database, once(do)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        self._do()
        with self._known.transaction() as connection:
            yield connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._known, name)


def replay_as_it_is_refused(shop: Harness, refund_id: str, meanwhile: bool) -> None:
    """Replay the run that had been approved, after the refusal, or while the refusal is committed."""
    if meanwhile:
        database: Any = RefusedMeanwhile(shop, lambda: refuse(shop, refund_id))
        services.bind(replace(services.current(), database=database))
    else:
        refuse(shop, refund_id)
    state = pay(refund_id)
    assert (state["status"] == "rejected") or state["wait_seconds"] > 0  # then it looks again
    services.bind(replace(services.current(), database=shop.live.database))
    assert pay(refund_id)["status"] == "rejected"


@ONE_DATABASE
@pytest.mark.parametrize("meanwhile", [False, True])
def test_the_shops_system_is_not_asked_to_cancel_for_a_refused_refund(
    shop: Harness, meanwhile: bool
) -> None:
    found = order(status="pending", delivered_at=None, shipments=[])
    shop.stock(found)
    source = with_source(shop, Cancelled(replace(found, status=OrderStatus.CANCELLED)))
    arguments = {"order_id": "W1001", "items": []}
    use(cancel_order, write(shop, text="Please cancel it."), arguments)
    refund_id = stop_run(shop)
    replay_as_it_is_refused(shop, refund_id, meanwhile)
    assert source.asked == []
    tell(refund_id)
    (remedy,) = shop.rows("SELECT status, asked_at FROM remedies")
    assert (remedy.status, remedy.asked_at) == ("task", None)


@ONE_DATABASE
def test_goods_are_not_asked_for_while_the_refusal_is_committed(shop: Harness) -> None:
    services.bind(replace(shop.live, policy=Policy(return_first=GOODS_FIRST)))
    shop.stock(two_payments())
    assert propose(shop)["outcome"] == "approved"
    refund_id = stop_run(shop)
    replay_as_it_is_refused(shop, refund_id, meanwhile=True)
    assert shop.rows("SELECT 1 FROM outbound_mails WHERE to_address = :a", a=ADA) == []
