"""Until when items can be returned: told of what can be returned only."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mailagent import mailers, services
from mailagent import remedies as ending
from mailagent.domain.refunds.policy import (
    KeepOffers,
    ManagerReason,
    Policy,
    StoreCredit,
    return_by,
)
from mailagent.domain.refunds.refund import RefundReason, RefundStatus
from mailagent.domain.remedies.remedy import RemedyStatus
from mailagent.mailers.fact import sentence
from mailagent.store.mail import inbound
from mailagent.store.refunds import refunds, remedies
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.tools.look_at_order import look_at_order
from mailagent.workflows.tools.propose_refund import propose_refund
from mailagent.workflows.tools.request_change import request_change
from tests.cast import GRACE, MONA, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.camera import answer, end, later_batch
from tests.workflows.proposals import propose, write

pytestmark = ONE_DATABASE

ITEMS = [
    {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "29.99"},
    {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "10.00"},
]
PAID = {"payment_id": "p", "method": "card", "amount": "49.99"}


def told(shop: Harness, batch: Batch) -> str | None:
    with shop.live.database.transaction() as connection:
        fact = batch_reader(connection, batch).find("return_period/W1001")
    looked = use(look_at_order, batch, {"order_id": "W1001"})
    assert ("return_period/W1001" in looked["facts"]) is (fact is not None)
    return sentence(fact) if fact else None


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ({}, True),
        ({"status": "cancelled"}, False),
        ({"payments": [PAID | {"refunded": "49.99"}]}, False),
        ({"payments": [PAID | {"refunded": "49.98"}]}, True),
        ({"payments": [PAID | {"charged_back_at": "2026-11-10T09:00:00Z"}]}, False),
        ({"payments": []}, True),  # paid in another way
        ({"status": "shipped", "delivered_at": None}, False),
    ],
    ids=[
        "delivered",
        "cancelled",
        "refunded",
        "a cent is left",
        "charged back",
        "unpaid",
        "on its way",
    ],
)
def test_a_period_is_told_while_something_can_come_back(
    shop: Harness, change: dict[str, Any], is_told: bool
) -> None:
    shop.stock(order(items=ITEMS, **change))
    assert (told(shop, write(shop)) is not None) is is_told


def test_what_is_refunded_already_has_no_period(shop: Harness) -> None:
    shop.stock(order(items=ITEMS))
    batch = write(shop)
    assert propose(batch, "W1001")["outcome"] == "approved"
    assert (told(shop, batch) or "").startswith("Mug: You can return items of order W1001 until")
    one = write(shop, subject="One mug")
    propose(one, "W1001", ("M1", 1))
    assert (told(shop, one) or "").startswith("Mug: ")  # the other one
    rest = write(shop, subject="The other mug")
    propose(rest, "W1001", ("M1", None))
    assert [each.status.value for each in shop.refunds()].count("approved") >= 2
    held = sum(line.quantity for each in shop.refunds() for line in each.lines)
    assert (held, told(shop, rest)) == (3, None)


@pytest.mark.parametrize(
    ("seconds", "is_in_time"), [(-1, True), (1, False)], ids=["in time", "too late"]
)
@pytest.mark.parametrize("tool", [propose_refund, request_change])
def test_a_mail_of_the_last_day_is_in_time_even_if_it_is_worked_on_later(
    shop: Harness, tool: Any, seconds: int, is_in_time: bool
) -> None:
    shop.stock(order())
    delivered_at = order().delivered_at
    assert delivered_at is not None
    go_to(return_by(delivered_at, Policy()) + timedelta(seconds=seconds))
    batch = write(shop, text="My kettle of W1001 broke.")
    go_to(services.current().now() + timedelta(hours=8))
    wanted: dict[str, Any] = {"order_id": "W1001", "items": [{"item_id": "K1", "quantity": 1}]}
    if tool is request_change:
        wanted |= {"kind": "replacement", "wish": None}
    said = use(tool, batch, wanted | {"reason": "damaged"})
    assert (said["outcome"] != "declined") is is_in_time


ASKED_BACK = ["a photo", "part of the price", "store credit"]
PHOTO = Policy(photo_reasons=frozenset({RefundReason.DAMAGED}))
CREDIT = Policy(store_credit=StoreCredit(10))
PART = Policy(keep_offers=KeepOffers({RefundReason.DAMAGED: 30}))


def ask_back(shop: Harness, policy: Policy, is_late: bool = False) -> Batch:
    """Let Ada ask for one of her mugs two hours before the window closes, and be asked something; it is over
    when she answers. `is_late`: she writes once more after its end, and both mails get one answer."""
    shop.stock(order(items=ITEMS, payments=[PAID]))
    services.bind(replace(services.current(), policy=policy))
    delivered_at = order().delivered_at
    assert delivered_at is not None
    go_to(return_by(delivered_at, policy) - timedelta(hours=2))
    batch = write(shop, text="One mug of W1001 broke.")
    if is_late:
        go_to(services.current().now() + timedelta(hours=3))
        batch = later_batch(shop, batch, is_answered=False)
    wish = {"order_id": "W1001", "items": [{"item_id": "M1", "quantity": 1}], "reason": "damaged"}
    said = use(propose_refund, batch, wish | {"pay_as": "store_credit"})
    answers = {"photo_needed", "offered", "store_credit_not_offered"}
    assert not answers.isdisjoint(said.get(each) for each in ("reason", "outcome", "error"))
    with shop.live.database.transaction() as connection:
        reader = batch_reader(connection, batch)
        letter = mailers.Letter("Dear Ada.", "en")
        outbound_id = mailers.write_reply(reader, reader.mails, letter)
        inbound.answer(connection, batch["mail_ids"], outbound_id)
    go_to(services.current().now() + timedelta(hours=9))
    return batch


def is_closed(
    batch: Batch,
    *items: tuple[str, int],
    tool: Any = propose_refund,
    reason: RefundReason = RefundReason.DAMAGED,
) -> bool:
    said = ask(batch, *items, tool=tool, reason=reason)
    return said.get("reason") == "return_window_closed"


def ask(
    batch: Batch,
    *items: tuple[str, int],
    tool: Any = propose_refund,
    reason: RefundReason = RefundReason.DAMAGED,
) -> dict[str, Any]:
    wanted = [{"item_id": item_id, "quantity": number} for item_id, number in items]
    wish: dict[str, Any] = {"order_id": "W1001", "items": wanted, "reason": reason.value}
    if tool is request_change:
        wish |= {"kind": "replacement", "wish": None}
    return use(tool, batch, wish)


@pytest.mark.parametrize("tool", [propose_refund, request_change])
@pytest.mark.parametrize("policy", [PHOTO, PART, CREDIT], ids=ASKED_BACK)
def test_who_answers_a_question_of_ours_asked_with_the_first_mail(
    shop: Harness, tool: Any, policy: Policy
) -> None:
    batch = later_batch(shop, ask_back(shop, policy))
    assert not is_closed(batch, ("M1", 1), tool=tool)


@pytest.mark.parametrize("policy", [PHOTO, CREDIT], ids=["a photo", "store credit"])
def test_a_question_that_answers_two_mails_counts_from_the_first(
    shop: Harness, policy: Policy
) -> None:
    batch = later_batch(shop, ask_back(shop, policy, is_late=True))
    assert not is_closed(batch, ("M1", 1))


@pytest.mark.parametrize("policy", [PHOTO, PART, CREDIT], ids=ASKED_BACK)
@pytest.mark.parametrize("items", [[("M1", 2)], [("K1", 1)], [("K1", 1), ("M1", 1)]])
def test_a_question_keeps_the_window_open_for_no_other_units(
    shop: Harness, items: list[tuple[str, int]], policy: Policy
) -> None:
    batch = later_batch(shop, ask_back(shop, policy))
    assert is_closed(batch, *items)


@pytest.mark.parametrize("policy", [PHOTO, PART, CREDIT], ids=ASKED_BACK)
@pytest.mark.parametrize("tool", [propose_refund, request_change])
def test_a_question_keeps_the_window_open_for_no_other_reason(
    shop: Harness, tool: Any, policy: Policy
) -> None:
    batch = later_batch(shop, ask_back(shop, policy))
    assert is_closed(batch, ("M1", 1), tool=tool, reason=RefundReason.CHANGED_MIND)


@pytest.mark.parametrize("tool", [propose_refund, request_change])
def test_a_question_keeps_the_window_open_until_the_items_are_granted(
    shop: Harness, tool: Any
) -> None:
    batch = later_batch(shop, ask_back(shop, PART))
    assert not is_closed(batch, ("M1", 1), tool=tool)
    go_to(services.current().now() + timedelta(days=20))
    assert is_closed(later_batch(shop, batch), ("M1", 1))  # the other mug


def test_a_question_keeps_the_window_open_in_its_thread_and_for_thirty_days_only(
    shop: Harness,
) -> None:
    asked = ask_back(shop, PHOTO)
    assert is_closed(write(shop, subject="Another thread"), ("M1", 1))
    again = later_batch(shop, asked)
    assert not is_closed(again, ("M1", 1))  # asked for a photo again
    go_to(services.current().now() + timedelta(days=30))
    assert is_closed(later_batch(shop, again), ("M1", 1))


def test_the_thirty_days_end_with_the_mail_even_if_it_is_worked_on_later(shop: Harness) -> None:
    asked = ask_back(shop, PHOTO)
    go_to(services.current().now() + timedelta(days=29))
    batch = later_batch(shop, asked)
    go_to(services.current().now() + timedelta(days=1))
    assert not is_closed(batch, ("M1", 1))


EXPIRED, OVERDUE, NOT_POSSIBLE = "expired", "overdue", "not possible"
UNMET = [EXPIRED, OVERDUE, NOT_POSSIBLE]


def claim(
    shop: Harness, *items: tuple[str, int], how: str = EXPIRED, limit: int | None = None
) -> Batch:
    """Let Ada claim two mugs, or these items, two hours before the window closes: a refund that a manager has
    to decide on, or a replacement. Three days later no manager has decided, no person of the team has sent it,
    or they say that it is not possible. `limit`: in cents; above it a manager decides."""
    shop.stock(order(items=ITEMS, payments=[PAID]))
    is_refund = how == EXPIRED
    limit = 100 if is_refund else limit
    policy = Policy(limits={"USD": limit}) if limit else Policy()
    services.bind(replace(services.current(), policy=policy))
    delivered_at = order().delivered_at
    assert delivered_at is not None
    go_to(return_by(delivered_at, policy) - timedelta(hours=2))
    batch = write(shop, text="My mugs of W1001 broke.")
    tool, outcome = (propose_refund, "needs_manager") if is_refund else (request_change, "task")
    assert ask(batch, *(items or [("M1", 2)]), tool=tool)["outcome"] == outcome
    answer(shop, batch)
    go_to(services.current().now() + timedelta(days=3))
    if is_refund:
        end(shop, RefundStatus.EXPIRED, decided_at=services.current().now())
    else:
        end_task(shop, how)
    return batch


def end_task(shop: Harness, how: str) -> None:
    status = RemedyStatus.EXPIRED if how == OVERDUE else RemedyStatus.NOT_POSSIBLE
    with shop.live.database.transaction() as connection:
        task = remedies.list_of_order(connection, "W1001")[-1]
        ending.end(connection, task, status, MONA, "It is sold out.")


@pytest.mark.parametrize("is_new_thread", [False, True], ids=["same thread", "new thread"])
@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.parametrize("tool", [propose_refund, request_change])
@pytest.mark.parametrize("how", UNMET)
def test_a_claim_that_the_shop_did_not_meet_was_made_with_the_first_mail(
    shop: Harness, how: str, tool: Any, many: int, is_new_thread: bool
) -> None:
    first = claim(shop, how=how)
    batch = write(shop, subject="My mugs") if is_new_thread else later_batch(shop, first)
    refunded = "needs_manager" if how == EXPIRED else "approved"
    if how == EXPIRED and many == 2 and not is_new_thread:
        refunded = "already_requested"  # people take over
    outcome = "task" if tool is request_change else refunded
    assert ask(batch, ("M1", many), tool=tool)["outcome"] == outcome


@pytest.mark.parametrize("how", UNMET)
def test_a_claim_that_was_not_met_keeps_the_window_open_for_nothing_else_and_thirty_days_only(
    shop: Harness, how: str
) -> None:
    claim(shop, ("M1", 1), how=how)
    batch = write(shop, subject="Another thread")
    for items in ([("M1", 2)], [("K1", 1)], [("K1", 1), ("M1", 1)]):
        assert is_closed(batch, *items)
    assert is_closed(batch, ("M1", 1), reason=RefundReason.CHANGED_MIND)
    go_to(services.current().now() + timedelta(days=29))
    again = write(shop, subject="A third thread")
    assert ask(again, ("M1", 1), tool=request_change)["outcome"] == "task"
    end_task(shop, NOT_POSSIBLE)
    go_to(services.current().now() + timedelta(days=2))
    # What they asked for meanwhile came too late itself.
    assert is_closed(later_batch(shop, again), ("M1", 1))


def test_a_claim_of_another_customer_keeps_no_window_open(shop: Harness) -> None:
    claim(shop)
    shop.stock(order(items=ITEMS, payments=[PAID], customer={"email": GRACE, "name": "Grace"}))
    assert is_closed(write(shop, GRACE, "My mugs"), ("M1", 1))


@pytest.mark.parametrize("many", [1, 2])
def test_a_claim_that_a_manager_rejects_later_keeps_no_window_open(
    shop: Harness, many: int
) -> None:
    claim(shop)
    assert ask(write(shop, subject="Again"), ("M1", 1))["outcome"] == "needs_manager"
    end(shop, RefundStatus.REJECTED)
    assert is_closed(write(shop, subject="And again"), ("M1", many))


def test_what_a_manager_leaves_out_of_a_later_refund_keeps_no_window_open(shop: Harness) -> None:
    claim(shop, ("K1", 1), ("M1", 1))
    assert ask(write(shop, subject="Again"), ("K1", 1), ("M1", 1))["outcome"] == "needs_manager"
    with shop.live.database.transaction() as connection:
        refund = refunds.lock(connection, shop.refunds()[-1].refund_id)
        kettle, mug = refund.lines
        refunds.lower(connection, refund, mug.amount, {kettle.line_no: 0})
    end(shop, RefundStatus.APPROVED)
    assert is_closed(write(shop, subject="And again"), ("K1", 1))


@pytest.mark.parametrize(("limit", "outcome"), [(100, "needs_manager"), (None, "approved")])
def test_money_for_what_a_manager_did_not_send_again_is_a_managers_decision(
    shop: Harness, limit: int | None, outcome: str
) -> None:
    first = claim(shop, how=NOT_POSSIBLE, limit=limit)
    services.bind(replace(services.current(), policy=Policy()))
    assert ask(later_batch(shop, first), ("M1", 2))["outcome"] == outcome
    reasons = shop.refunds()[-1].policy_reasons
    assert (ManagerReason.NOT_SENT_AGAIN.value in reasons) is (limit is not None)


def test_a_claim_that_is_met_at_last_keeps_no_window_open(shop: Harness) -> None:
    batch = later_batch(shop, claim(shop, how=NOT_POSSIBLE))
    assert ask(batch, ("M1", 1))["outcome"] == "approved"
    assert is_closed(later_batch(shop, batch), ("M1", 1))  # the other mug


def go_to(moment: datetime) -> None:
    services.bind(replace(services.current(), now=lambda: moment))
