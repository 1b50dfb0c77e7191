"""Some minutes after the click in which the manager takes the decision back: nothing has an effect before."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.money import Money
from mailagent.domain.operations.replay import tell_rows
from mailagent.domain.refunds.policy import KeepOffers, Policy
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.engine import REFUND, run_id_of
from mailagent.store import audit, schema
from mailagent.store.console import run_subjects
from mailagent.store.refunds import refunds, stops
from mailagent.web.language import COOKIE
from mailagent.workflows.steps.refund.decision import State, look_at_decision
from tests.cast import MAX, MONA, big_order, order
from tests.harness import Harness
from tests.web.questions import Question
from tests.workflows.paying import pay
from tests.workflows.proposals import propose, write
from tests.workflows.trouble import set_run

MINUTES = 5


@pytest.fixture
def question(question: Question) -> Question:
    """A question in a shop where decisions can be taken back."""
    live = question.shop.live
    services.bind(replace(live, waits=replace(live.waits, approval_undo_seconds=60 * MINUTES)))
    return question


def at(shop: Harness, minutes: float) -> None:
    """Let it be so many minutes after now."""
    moment = shop.live.now() + timedelta(minutes=minutes)
    services.bind(replace(services.current(), now=lambda: moment))


def look(question: Question) -> State:
    """Let the refund's run look at the decision."""
    effect: Callable[[str], State] = inspect.unwrap(look_at_decision)
    return effect(question.refund_id)


def plan(question: Question) -> str:
    """Return what a replay of the refund's run says about the refund before it is begun."""
    with question.shop.live.database.snapshot() as connection:
        rows = run_subjects.look(connection, [question.refund_id], source_name=None)[
            question.refund_id
        ]
    return tell_rows(rows)[0]


def actions(shop: Harness) -> list[str]:
    return [row.action for row in shop.rows("SELECT action FROM audit ORDER BY audit_id")]


@pytest.mark.parametrize(
    ("pressed", "status"),
    [("approve", RefundStatus.APPROVED), ("reject", RefundStatus.REJECTED)],
)
def test_a_decision_has_no_effect_until_it_stands(
    question: Question, pressed: str, status: RefundStatus
) -> None:
    page = question.decide(pressed, form={"amount": "1000", "note": "A known fault"})
    assert "You can take it back until" in page.text
    state = look(question)
    assert state["status"] == "awaiting_approval"
    assert 60 * (MINUTES - 1) < state["wait_seconds"] <= 60 * MINUTES
    assert state["outbound_ids"] == []
    assert question.refund().status is RefundStatus.AWAITING_APPROVAL
    assert question.refund().amount == Money(1_499_00, "USD")
    at(question.shop, MINUTES + 0.1)
    assert look(question)["status"] == status.value
    refund = question.refund()
    assert (refund.status, refund.decided_by, refund.note) == (status, MONA, "A known fault")
    assert refund.amount == Money(1_000_00 if pressed == "approve" else 1_499_00, "USD")
    assert look(question)["status"] == status.value  # again changes nothing


def test_the_plan_says_that_an_approval_does_not_pay_for_an_order_that_was_cancelled_since(
    question: Question,
) -> None:
    question.decide("approve", form={"amount": "1000"})
    question.shop.stock(big_order(status="cancelled"))
    told = plan(question)
    assert told.startswith(
        f"The refund of $1,000.00 is approved by {MONA}, but as its order is now"
    )
    assert f"a replay does not pay it: {stops.CANCELLED}." in told
    at(question.shop, MINUTES + 0.1)
    assert look(question)["status"] == "approved"
    assert pay(question.refund_id)["status"] == "failed"


@pytest.mark.parametrize("pressed", ["approve", "reject"])
def test_a_decision_is_taken_back_and_made_anew(question: Question, pressed: str) -> None:
    question.decide(pressed)
    page = question.decide("undo")
    assert "You have taken back your decision. Nothing was paid." in page.text
    assert "Refund $1,499.00?" in page.text
    assert question.shop.rows("SELECT 1 FROM decisions") == []
    question.decide("reject", manager=MAX)
    at(question.shop, MINUTES + 0.1)
    assert look(question)["status"] == "rejected"
    assert question.refund().decided_by == MAX
    done = {"approve": "refund approved", "reject": "refund rejected"}[pressed]
    assert actions(question.shop) == [done, "decision taken back", "refund rejected"]


def test_a_second_click_on_take_it_back_says_that_it_is_taken_back(question: Question) -> None:
    question.decide("approve")
    opened = question.token()
    for told in ("You have taken back your decision", "your decision is taken back already"):
        page = question.press(opened, "undo")
        assert (told in page.text, "Refund $1,499.00?" in page.text) == (True, True)


def test_each_decision_has_a_run_of_its_own_if_those_before_were_cancelled(
    question: Question,
) -> None:
    shop, started = question.shop, list[str]()
    set_run(shop, run_id_of(REFUND, question.refund_id), "CANCELLED")
    for pressed in ("approve", "undo", "approve", "undo", "reject"):
        opened = question.token()
        for _ in range(2):  # a double click
            question.press(opened, pressed)
        started.append(str(question.refund().run_id))
        runs = shop.live.workflow_client.runs.list_runs()
        active = [run.run_id for run in runs if run.is_active and run.workflow == REFUND]
        assert active == [started[-1]]
        set_run(shop, started[-1], "CANCELLED")
    assert len(set(started)) == 5


def test_only_its_author_takes_a_decision_back(question: Question) -> None:
    opened = question.token(MAX)
    question.decide("approve")
    shown = question.shop.client.get(question.link(MAX)).text
    assert f"{MONA} can take it back until" in shown
    assert "Take it back</button>" not in shown
    for pressed in ("undo", "approve", "reject"):
        page = question.press(opened, pressed, manager=MAX)
        assert "Your click changed nothing" in page.text
    (made,) = question.shop.rows("SELECT decided_by, decision FROM decisions")
    assert tuple(made) == (MONA, "approve")


def test_the_console_says_that_a_decision_can_be_taken_back(question: Question) -> None:
    question.decide("approve")
    page = question.shop.log_in(MAX).get(f"/ops/refunds/{question.refund_id}").text
    assert "A manager has decided, and can take that back until" in page
    assert "Decision: approved</strong>" in page
    assert "/decide" not in page


@pytest.mark.parametrize(
    ("pressed", "done", "amount"),
    [("approve", "approved", "$1,000.00"), ("reject", "rejected", "$1,499.00")],
)
def test_the_plan_of_a_replay_says_what_was_decided_and_from_when_it_counts(
    question: Question, pressed: str, done: str, amount: str
) -> None:
    assert "waits for a manager" in plan(question)
    question.decide(pressed, form={"amount": "1000"})
    told = plan(question)
    assert told.startswith(f"The refund of {amount} is {done} by {MONA}, and that counts from ")
    at(question.shop, MINUTES + 0.1)
    assert plan(question) == told  # until a run applies it
    assert look(question)["status"] == done
    assert "that counts from" not in plan(question)


def test_a_late_undo_says_that_it_changed_nothing(question: Question) -> None:
    question.decide("approve")
    opened = question.token()
    at(question.shop, MINUTES + 0.1)
    page = question.press(opened, "undo")
    assert "Your click changed nothing: the time to take it back is over." in page.text
    assert "Take it back</button>" not in page.text
    assert look(question)["status"] == "approved"
    assert actions(question.shop) == ["refund approved"]


def test_a_second_click_says_that_it_changed_nothing(question: Question) -> None:
    opened = question.token()
    assert "changed nothing" not in question.press(opened, "approve").text
    assert "Your click changed nothing: this was decided" in question.press(opened, "reject").text
    (made,) = question.shop.rows("SELECT decision FROM decisions")
    assert made.decision == "approve"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_note_that_came_too_late_is_shown_to_copy(question: Question, at_once: bool) -> None:
    if at_once:
        question.let_decisions_wait(0)
    opened, kept = question.token(MAX), {"note": "A known fault"}
    question.decide("approve", form=kept)
    late = question.press(opened, "reject", MAX, {"note": "She agreed to send it <back>"})
    assert "readonly>She agreed to send it &lt;back&gt;</textarea>" in late.text
    assert "readonly>" not in question.press(question.token(), "approve", form=kept).text


def test_an_undo_after_the_date_leaves_time_to_decide(question: Question) -> None:
    soon = question.shop.live.now() + timedelta(minutes=1)
    with question.shop.live.database.transaction() as connection:
        connection.execute(schema.approvals.update().values(expires_at=soon))
    question.decide("approve")
    opened = question.token()
    at(question.shop, 2)
    assert look(question)["status"] == "awaiting_approval"  # it was decided in time
    assert "You have taken back" in question.press(opened, "undo").text
    assert look(question)["status"] == "awaiting_approval"
    assert "Refund of $1,499.00 rejected" in question.decide("reject").text


def test_a_customer_may_withdraw_while_a_decision_can_be_taken_back(question: Question) -> None:
    question.decide("approve")
    with question.shop.live.database.transaction() as connection:
        refund = refunds.lock(connection, question.refund_id)
        refunds.move(
            connection, refund, RefundStatus.WITHDRAWN, decided_at=question.shop.live.now()
        )
    opened = question.shop.client, ""
    assert "Withdrawn by the customer" in question.shop.client.get(question.link()).text
    at(question.shop, MINUTES + 0.1)
    assert look(question)["status"] == "withdrawn"
    assert question.press(opened, "undo").status_code == 400  # there is no button any more


# --- two managers ---------------------------------------------------------------------------------


@pytest.fixture
def dear(question: Question) -> Question:
    with question.shop.live.database.transaction() as connection:
        connection.execute(schema.refunds.update().values(four_eyes=True))
    return question


def test_the_second_manager_is_asked_when_the_first_approval_stands(dear: Question) -> None:
    opened = dear.token(MAX)
    page = dear.decide("approve", form={"amount": "1000"})
    assert "You approved $1,000.00" in page.text
    assert "Another manager is asked after that" in page.text
    assert look(dear)["outbound_ids"] == []
    early = dear.press(opened, "approve", manager=MAX, form={"first_decision": "made"})
    assert f"{MONA} can take the first approval back until" in early.text
    opened[0].set_cookie(COOKIE, "de")
    early = dear.press(opened, "approve", manager=MAX, form={"first_decision": "made"})
    assert f"{MONA} kann die erste Genehmigung bis" in early.text
    assert dear.shop.rows("SELECT 1 FROM countersignatures") == []
    at(dear.shop, MINUTES + 0.1)
    look(dear)
    (asked,) = dear.shop.rows("SELECT subject FROM outbound_mails WHERE to_address = :to", to=MAX)
    assert "Second approval: refund $1,000.00?" in asked.subject
    assert dear.refund().amount == Money(1_000_00, "USD")


def test_the_plan_of_a_replay_waits_for_the_second_manager(dear: Question) -> None:
    dear.decide("approve", form={"amount": "1000"})
    assert "waits for a manager" in plan(dear)
    at(dear.shop, MINUTES + 0.1)
    look(dear)
    dear.decide("approve", manager=MAX)
    assert plan(dear).startswith(f"The refund of $1,000.00 is approved by {MAX}, and")


def test_each_of_two_approvals_can_be_taken_back_by_its_author(dear: Question) -> None:
    dear.decide("approve")
    assert "You have taken back" in dear.decide("undo").text
    dear.decide("approve")
    at(dear.shop, MINUTES + 0.1)
    look(dear)
    dear.decide("approve", manager=MAX)
    assert "Take it back</button>" not in dear.shop.client.get(dear.link()).text
    assert "You have taken back" in dear.decide("undo", manager=MAX).text
    assert look(dear)["status"] == "awaiting_approval"
    dear.decide("approve", manager=MAX)
    at(dear.shop, 2 * MINUTES + 0.2)
    assert look(dear)["status"] == "approved"
    assert dear.refund().decided_by == MAX


# --- the database ---------------------------------------------------------------------------------


def test_the_database_deletes_no_decision_that_has_had_an_effect(question: Question) -> None:
    question.decide("approve")
    at(question.shop, MINUTES + 0.1)
    look(question)
    refused = pytest.raises(sa.exc.DBAPIError, match="append-only")
    with refused, question.shop.live.database.transaction() as connection:
        connection.execute(schema.decisions.delete())


@pytest.mark.both_databases
@pytest.mark.parametrize("said", ["nothing", "too late", "by another", "of an earlier decision"])
def test_the_database_deletes_a_decision_only_for_its_author_and_in_time(
    question: Question, said: str
) -> None:
    live, refund_id = services.current(), question.refund().refund_id
    acts = {
        "too late": (MONA, MINUTES + 0.1),
        "by another": (MAX, 0.1),
        "of an earlier decision": (MONA, -0.1),
    }
    question.decide("approve")
    now = live.now()
    assert question.refund().status == "awaiting_approval"
    refused = pytest.raises(sa.exc.DBAPIError, match="append-only")
    with refused, live.database.transaction() as connection:
        if said in acts:
            actor, minutes = acts[said]
            at = now + timedelta(minutes=minutes)
            audit.record(connection, at, actor, audit.TAKEN_BACK, refund_id)
        connection.execute(schema.decisions.delete())


# --- offers ---------------------------------------------------------------------------------------

DESK = {"item_id": "D1", "name": "Standing desk", "quantity": 1, "unit_price": "1499.00"}
KETTLE = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
PAYMENT = {"payment_id": "p", "method": "card", "amount": "1548.99"}
RULES = Policy(limits={"USD": 100_00}, keep_offers=KeepOffers({RefundReason.DAMAGED: 30}))


def ask_for(shop: Harness, item_id: str, outcome: str) -> Question:
    """Have Ada ask for a refund of an item; return the question to Mona."""
    told = propose(write(shop, subject=item_id), "W2001", (item_id, None))
    assert told["outcome"] == outcome, told
    asked = shop.refunds()[-1]
    query = "SELECT approval_id FROM approvals WHERE refund_id = :r"
    rows = shop.rows(query, r=asked.refund_id)
    return Question(shop, asked.refund_id, rows[0].approval_id if rows else "")


def offer(question: Question) -> str:
    return question.decide("offer", form={"offer_percent": "10"}).text


@pytest.fixture
def bought(shop: Harness) -> Harness:
    """A shop whose policy offers part of the price, too, and where decisions can be taken back."""
    shop.stock(order("W2001", items=[DESK, KETTLE], payments=[PAYMENT]))
    waits = replace(shop.live.waits, approval_undo_seconds=60 * MINUTES)
    shop.live = replace(shop.live, policy=RULES, waits=waits)
    services.bind(shop.live)
    return shop


def test_the_policy_makes_no_offer_beside_one_that_a_manager_may_take_back(bought: Harness) -> None:
    desk = ask_for(bought, "D1", "needs_manager")
    assert "Offered instead: 10 % of the price" in offer(desk)
    ask_for(bought, "K1", "approved")
    at(bought, MINUTES + 0.1)
    look(desk)
    (made,) = bought.rows("SELECT * FROM offers")
    assert (made.status, made.offered_by) == ("open", MONA)


def test_an_offer_that_was_taken_back_holds_up_no_other(bought: Harness) -> None:
    desk = ask_for(bought, "D1", "needs_manager")
    offer(desk)
    desk.decide("undo")
    told = propose(write(bought, subject="K1"), "W2001", ("K1", None))
    assert told["outcome"] == "offered"


def test_managers_make_one_offer_for_an_order_and_each_click_counts_once(bought: Harness) -> None:
    services.bind(replace(services.current(), policy=replace(RULES, limits={"USD": 1})))
    desk = ask_for(bought, "D1", "needs_manager")
    kettle = ask_for(bought, "K1", "needs_manager")
    offer(desk)
    assert "still open" not in offer(desk)  # a double click
    assert "still open" in offer(kettle)
    assert len(bought.rows("SELECT 1 FROM decisions")) == 1
