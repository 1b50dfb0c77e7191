"""Never mind: what waits for a manager is withdrawn, what is paid stays, one outcome each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.refunds import approvals, refunds
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.refund.decision import tell_customer
from mailagent.workflows.tools.request_change import request_change
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import GRACE, MONA
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.camera import (
    BOTH,
    CAMERA,
    LENS,
    STRAPS,
    answer,
    batch_of,
    camera_order,
    end,
    later_batch,
    page_of,
    propose,
    reject,
)
from tests.workflows.proposals import write


def withdraw(batch: Batch, order_id: str = "W1010") -> dict[str, Any]:
    return use(withdraw_refund, batch, {"order_id": order_id})


def states(shop: Harness) -> list[str]:
    return [refund.status.value for refund in shop.refunds()]


def opened(shop: Harness) -> Callable[[], str]:
    """Open the page on which the newest refund is decided; return what presses Approve there."""
    with shop.live.database.snapshot() as connection:
        approval = approvals.find_of_refund(connection, shop.refunds()[-1].refund_id)
    assert approval is not None
    link = shop.live.links.sign_approval(approval.approval_id, MONA)
    path, client = link.replace(shop.live.shop.public_url, ""), shop.client
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get(path).text)
    assert token is not None
    data = {"decision": "approve", "csrf_token": token[1]}
    return lambda: client.post(path, data=data).text


def test_a_refund_that_waits_is_withdrawn_and_the_manager_sees_it(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    later = later_batch(shop, batch)
    told = withdraw(later)
    assert (told["outcome"], told["withdrawn"]) == ("withdrawn", ["1120.00 USD"])
    assert told["not_withdrawn"] == []
    (refund,) = shop.refunds()
    assert (refund.status, refund.decided_by) == (RefundStatus.WITHDRAWN, "customer")
    assert shop.rows("SELECT held_minor FROM orders")[0].held_minor == 0
    assert "Withdrawn by the customer" in page_of(shop)
    (audited,) = shop.rows("SELECT actor FROM audit WHERE action = 'refund withdrawn'")
    assert audited.actor == "customer"
    assert withdraw(later) == told  # a step that is done again
    assert len(shop.rows("SELECT 1 FROM audit WHERE action = 'refund withdrawn'")) == 1


def test_who_wants_it_after_all_asks_again_before_the_first_mail_is_answered(shop: Harness) -> None:
    def write_more(text: str) -> Batch:
        (thread,) = shop.rows("SELECT reply_token FROM conversations")
        return write(shop, text=text, to=f"case+{thread.reply_token}@shop.example")

    shop.stock(camera_order())
    propose(batch_of(shop), *BOTH)
    assert withdraw(write_more("Never mind, I keep it."))["outcome"] == "withdrawn"
    batch = write_more("No, I do want my money back.")
    assert len(batch["mail_ids"]) == 3
    assert propose(batch, *BOTH)["outcome"] == "needs_manager"
    assert states(shop) == ["withdrawn", "awaiting_approval"]
    # A model that contradicts itself does not ask once more for the same mail.
    withdraw(batch)
    propose(batch, *BOTH)
    assert states(shop) == ["withdrawn", "withdrawn"]


@ONE_DATABASE
def test_a_withdrawal_has_no_mail_of_its_own_beside_the_reply(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    withdraw(later_batch(shop, batch))
    (refund,) = shop.refunds()
    assert refund.status is RefundStatus.WITHDRAWN
    tell: Callable[[str], Any] = inspect.unwrap(tell_customer)
    assert tell(refund.refund_id) == []


@ONE_DATABASE
@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        (RefundStatus.PAID, "too_late"),
        (RefundStatus.REJECTED, "nothing_waits"),
        (RefundStatus.EXPIRED, "nothing_waits"),
        (RefundStatus.FAILED, "nothing_waits"),
    ],
)
def test_what_does_not_wait_is_told_as_it_is(
    shop: Harness, ended: RefundStatus, outcome: str
) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    if ended is RefundStatus.PAID:
        end(shop, RefundStatus.APPROVED)
        pay(shop)
    else:
        end(shop, ended)
    told = withdraw(later_batch(shop, batch))
    assert told["outcome"] == outcome
    assert states(shop) == [ended.value]
    assert ("not_withdrawn/" in told["facts"][0]) is (outcome == "too_late")


@ONE_DATABASE
def test_what_was_paid_stays_beside_what_is_withdrawn(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, (CAMERA, None))
    pay(shop)
    propose(batch, (LENS, None))
    told = withdraw(later_batch(shop, batch))
    assert told["withdrawn"] == ["480.00 USD"]
    assert told["not_withdrawn"] == [{"amount": "640.00 USD", "status": "paid"}]


@ONE_DATABASE
def test_of_what_stays_it_is_not_said_that_it_is_withdrawn_because_something_else_was(
    shop: Harness,
) -> None:
    shop.stock(camera_order())
    first = batch_of(shop)
    propose(first, (CAMERA, None))
    pay(shop)
    propose(first, (LENS, None))
    second = later_batch(shop, first)
    told = withdraw(second)
    assert (told["outcome"], withdraw(second)) == ("withdrawn", told)
    later = withdraw(later_batch(shop, second))
    assert later["outcome"] == "too_late"
    assert later["not_withdrawn"] == [{"amount": "640.00 USD", "status": "paid"}]


@ONE_DATABASE
def test_what_was_asked_for_again_and_paid_is_not_called_withdrawn(shop: Harness) -> None:
    shop.stock(camera_order())
    first = batch_of(shop)
    propose(first, *BOTH)
    second = later_batch(shop, first)
    withdraw(second)
    third = later_batch(shop, second)
    assert propose(third, *BOTH)["outcome"] == "needs_manager"
    opened(shop)()
    pay(shop)
    assert withdraw(later_batch(shop, third))["outcome"] == "too_late"
    assert states(shop) == ["withdrawn", "paid"]


@ONE_DATABASE
def test_to_and_fro_in_one_mail_asks_the_manager_once(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    withdraw(batch)
    for items in (BOTH, ((CAMERA, 1), (LENS, 1)), ((CAMERA, None),)):
        told = propose(batch, *items)
        assert (told["outcome"], told["status"]) == ("already_requested", "withdrawn")
    assert states(shop) == ["withdrawn"]
    assert propose(batch, (STRAPS, 10))["outcome"] == "needs_manager"  # of which nobody spoke yet


@ONE_DATABASE
def test_a_smaller_wish_may_follow_a_withdrawal_of_an_earlier_one_at_once(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    later = later_batch(shop, batch)
    withdraw(later)
    assert propose(later, (LENS, None))["outcome"] == "approved"


@pytest.mark.both_databases
def test_a_replay_of_a_withdrawal_leaves_what_its_mail_asked_for_then(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    later = later_batch(shop, batch)
    for _ in range(2):  # a run that failed is replayed from its first step
        assert withdraw(later)["outcome"] == "withdrawn"
        assert propose(later, (LENS, None))["outcome"] == "approved"
    assert states(shop) == ["withdrawn", "approved"]
    assert withdraw(later_batch(shop, later))["outcome"] == "withdrawn"
    assert states(shop) == ["withdrawn", "withdrawn"]


@ONE_DATABASE
def test_a_withdrawal_does_not_wash_off_a_rejection(shop: Harness) -> None:
    shop.stock(camera_order())
    first = batch_of(shop)
    propose(first, *BOTH)
    reject(shop)
    second = later_batch(shop, first)
    propose(second, (CAMERA, None))
    withdraw(second)
    assert propose(later_batch(shop, second), (CAMERA, None))["outcome"] == "needs_manager"


@ONE_DATABASE
@pytest.mark.parametrize("who", ["stranger", "unproven", "no such order", "too late"])
def test_nobody_withdraws_what_is_not_theirs_now(shop: Harness, who: str) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    if who == "stranger":
        told = withdraw(batch_of(shop, "Mine", from_address=GRACE))
    elif who == "unproven":
        told = withdraw({**batch, "verified": False})
    elif who == "no such order":
        told = withdraw(batch, "W9999")
    else:
        answer(shop, batch)
        told = withdraw(batch)
    assert told["error"] in ("no_such_order", "sender_not_verified", "case_closed")
    assert states(shop) == ["awaiting_approval"]
    nothing = withdraw(batch, "W9999") | {"facts": told.get("facts")}
    assert told == nothing or who in ("unproven", "too late")


@ONE_DATABASE
def test_a_batch_of_which_people_took_one_mail_withdraws_nothing(shop: Harness) -> None:
    shop.stock(camera_order())
    propose(batch_of(shop), *BOTH)
    first = shop.write("Never mind W1010.", subject="Withdraw")
    batch = batch_of(shop, in_reply_to=first.message_id)
    assert len(batch["mail_ids"]) == 2
    answer(shop, batch)
    assert withdraw(batch)["error"] == "case_closed"
    assert states(shop) == ["awaiting_approval"]


def test_a_click_and_a_withdrawal_at_once_end_unpaid_and_the_manager_sees_which_came_first(
    shop: Harness,
) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    later, press = later_batch(shop, batch), opened(shop)
    with ThreadPoolExecutor(2) as pool:
        click = pool.submit(press)
        told = pool.submit(withdraw, later).result()
        page = click.result()
    (refund,) = shop.refunds()
    assert (told["outcome"], refund.status) == ("withdrawn", RefundStatus.WITHDRAWN)
    decisions = shop.rows("SELECT 1 FROM decisions")
    assert ("Withdrawn by the customer" in page) is (decisions == [])
    assert "Withdrawn by the customer" in page_of(shop)


# --- asked for a second time ------------------------------------------------------------------


@ONE_DATABASE
def test_what_an_earlier_refund_covers_is_told_beside_the_rest(shop: Harness) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, (CAMERA, None))
    told = propose(later_batch(shop, batch), *BOTH)
    assert (told["outcome"], told["items"]) == ("needs_manager", ["Lens"])
    (before,) = told["already_covered"]
    camera = {"items": ["Camera"], "quantities": {CAMERA: 1}}
    assert before == camera | {"amount": "640.00 USD", "status": "approved"}
    assert propose(batch_of(shop, "Straps"), (STRAPS, 1)).keys().isdisjoint({"already_covered"})


@ONE_DATABASE
@pytest.mark.parametrize("here", [True, False], ids=["same thread", "other thread"])
@pytest.mark.parametrize(
    "state", ["awaiting_approval", "approved", "lowered", "paid", "rejected", "withdrawn"]
)
def test_the_same_lines_again_are_answered_from_what_became_of_them(
    shop: Harness, state: str, here: bool
) -> None:
    shop.stock(camera_order())
    batch = batch_of(shop)
    propose(batch, *BOTH)
    refund = shop.refunds()[-1]
    if state == "lowered":
        lower(shop)
    elif state == "paid":
        end(shop, RefundStatus.APPROVED)
        pay(shop)
    elif state != "awaiting_approval":
        end(shop, RefundStatus(state))
    told = propose(later_batch(shop, batch) if here else batch_of(shop, "Again"), *BOTH)
    asked_anew = state in ("withdrawn", "lowered") or (state == "rejected" and not here)
    if asked_anew:
        assert told["outcome"] == "needs_manager"
        if state == "lowered":  # the rest
            assert told["amount"] == str(refund.amount - type(refund.amount)(900_00, "USD"))
        return
    assert (told["outcome"], told["status"]) == ("already_requested", state)
    assert told["amount"] == str(refund.amount)
    assert len(shop.refunds()) == 1


def lower(shop: Harness) -> None:
    refund = shop.refunds()[-1]
    with shop.live.database.transaction() as connection:
        lowered = type(refund.amount)(900_00, "USD")
        refunds.lower(connection, refunds.lock(connection, refund.refund_id), lowered, {})
    end(shop, RefundStatus.APPROVED)


def pay(shop: Harness) -> None:
    refund = shop.refunds()[-1]
    with shop.live.database.transaction() as connection:
        locked = refunds.lock(connection, refund.refund_id)
        paid = {"gateway": "ledger", "gateway_reference": "r", "paid_at": shop.live.now()}
        refunds.move(connection, locked, RefundStatus.PAID, **paid)


# --- an older mail that is answered later -----------------------------------------------------------


@pytest.mark.both_databases
@pytest.mark.parametrize("wish", ["refund", "remedy"])
def test_an_older_mail_leaves_what_a_newer_one_asked_for(shop: Harness, wish: str) -> None:
    shop.stock(camera_order())
    older = write(shop, subject="One", text="Please do not refund the camera of W1010.")
    newer = write(shop, subject="Two", text="The camera of W1010 is damaged after all.")
    if wish == "refund":
        assert propose(newer, *BOTH)["outcome"] == "needs_manager"
    else:
        items = [{"item_id": CAMERA, "quantity": 1}]
        asked = {"order_id": "W1010", "kind": "exchange", "items": items, "reason": "damaged"}
        use(request_change, newer, asked | {"wish": None})
    told = withdraw(older)  # its run had failed, and is replayed
    assert (told["outcome"], told["facts"]) == ("asked_later", [f"{wish}/W1010"])
    assert withdraw(older) == told
    waiting = shop.rows("SELECT status FROM refunds UNION ALL SELECT status FROM remedies")
    assert {row.status for row in waiting} <= {"awaiting_approval", "task"}
    assert withdraw(later_batch(shop, newer))["outcome"] == "withdrawn"


@ONE_DATABASE
def test_an_older_mail_withdraws_only_what_was_asked_for_before_it(shop: Harness) -> None:
    shop.stock(camera_order())
    propose(batch_of(shop), (LENS, None))
    older = write(shop, subject="One", text="Please do not refund the lens of W1010.")
    propose(write(shop, subject="Two", text="Refund the camera of W1010."), (CAMERA, None))
    told = withdraw(older)
    assert (told["outcome"], told["withdrawn"]) == ("withdrawn", ["480.00 USD"])
    assert "later mail stays" in told["say"]
    assert states(shop)[0] == "withdrawn"
    assert states(shop)[1] != "withdrawn"


@pytest.mark.both_databases
@pytest.mark.parametrize("something_waits", [False, True])
def test_what_a_newer_mail_takes_back_an_older_one_gets_of_a_manager_only(
    shop: Harness, something_waits: bool
) -> None:
    shop.stock(camera_order())
    if something_waits:
        propose(batch_of(shop), (CAMERA, None))
    older = write(shop, subject="One", text="Please refund the lens of W1010.")
    newer = write(shop, subject="Two", text="Forget the refunds of W1010, all works again.")
    told = withdraw(newer)
    assert told["outcome"] == ("withdrawn" if something_waits else "nothing_waits")
    assert propose(older, (LENS, None))["outcome"] == "needs_manager"
    newest = write(shop, subject="Three", text="It broke again, please refund the straps.")
    assert propose(newest, (STRAPS, 1))["outcome"] == "approved"
