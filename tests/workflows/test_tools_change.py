"""Exchange, replacement and another address: tasks for people, decided by the policy, once for each wish."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.refunds.policy import KeepOffers, Policy, Remedies, ReturnFirst
from mailagent.domain.refunds.refund import Refund, RefundReason, RefundStatus
from mailagent.domain.remedies.remedy import RemedyKind, TaskProblem
from mailagent.mailers.fact import sentence
from mailagent.proposals import proposal
from mailagent.remedies import find_waiting, finish, receive, supersede
from mailagent.store import audit
from mailagent.store.privacy import erasure, retention
from mailagent.store.refunds import remedies
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.steps.delivery.send import send_mail
from mailagent.workflows.steps.maintenance.tasks import see_to
from mailagent.workflows.tools.accept_offer import accept_offer
from mailagent.workflows.tools.look_at_order import look_at_order
from mailagent.workflows.tools.request_change import request_change
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import ADA, GRACE, MAX, MONA, OLGA, TESS, big_order, order
from tests.cli.commands import flask
from tests.databases import ONE_DATABASE
from tests.harness import Harness, pass_time, post_form
from tests.tool_use import use
from tests.workflows.camera import answer, click, end, later_batch
from tests.workflows.cancelling import keep_version
from tests.workflows.paying import pay, tell
from tests.workflows.proposals import propose, write

ADDRESS = "12 New Road\nSpringfield 12345"
RETURN_FIRST = ReturnFirst(frozenset({RefundReason.CHANGED_MIND}), "Send it to us.", days=14)
LETTER = f"Please send W1001 to:\n{ADDRESS}\n\nOr swap the kettle for a red one."


def change(batch: Batch, kind: str = "exchange", **changes: Any) -> dict[str, Any]:
    is_address = kind == "change_address"
    items = [] if is_address else [{"item_id": "K1", "quantity": None}]
    asked = {"order_id": "W1001", "kind": kind, "items": items, "reason": "other"}
    asked |= {"wish": "12 New Road, Springfield 12345" if is_address else "a red one"}
    return use(request_change, batch, asked | changes)


def tasks(shop: Harness) -> list[tuple[str, str]]:
    rows = shop.rows("SELECT kind, status FROM remedies ORDER BY remedy_id")
    return [(row.kind, row.status) for row in rows]


def told(shop: Harness, batch: Batch, fact_id: str = "remedy/W1001") -> str:
    with shop.live.database.transaction() as connection:
        fact = batch_reader(connection, batch).find(fact_id)
    assert fact is not None
    return sentence(fact)


@pytest.fixture
def batch(shop: Harness) -> Batch:
    shop.stock(order())
    return write(shop, text=LETTER)


@pytest.mark.parametrize("kind", ["exchange", "replacement"])
def test_a_wish_is_one_task_that_the_team_is_told_of(
    shop: Harness, batch: Batch, kind: str
) -> None:
    asked = list[str]()
    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    said = change(batch, kind)
    assert not any("max(inbound_mails.received_at)" in each for each in asked), "nothing is later"
    assert said["outcome"] == "task"
    assert change(batch, kind) == said  # a step that is done again
    (row,) = shop.rows("SELECT * FROM remedies")
    assert (row.kind, row.wish, row.order_id) == (kind, "a red one", "W1001")
    assert "1 × Kettle" in told(shop, batch)
    (mail,) = shop.rows("SELECT * FROM outbound_mails WHERE to_address = :tess", tess=TESS)
    assert "/ops/tasks" in mail.text
    (audited,) = shop.rows("SELECT * FROM audit WHERE action = 'request made'")
    assert audited.subject == row.remedy_id


def test_money_and_goods_wanted_in_one_mail_are_not_both_given(shop: Harness, batch: Batch) -> None:
    change(batch)
    propose(batch, "W1001")
    (refund,) = shop.refunds()
    assert refund.status is RefundStatus.AWAITING_APPROVAL
    with shop.live.database.transaction() as connection:
        supersede(connection, refund)
    assert tasks(shop) == [("exchange", "withdrawn")]


def test_an_address_is_changed_before_the_order_is_shipped(shop: Harness) -> None:
    shop.stock(order(status="pending", delivered_at=None))
    batch = write(shop, text=LETTER)
    assert change(batch, "change_address")["outcome"] == "task"
    assert change(batch, "change_address", wish=ADDRESS)["outcome"] == "task"
    assert tasks(shop) == [("change_address", "task")]  # one mail asks once
    assert "New Road" not in told(shop, batch)


@ONE_DATABASE
@pytest.mark.parametrize("status", ["shipped", "delivered", "cancelled"])
def test_then_it_is_too_late_and_the_customer_hears_so(shop: Harness, status: str) -> None:
    delivered = order().delivered_at if status == "delivered" else None
    shop.stock(order(status=status, delivered_at=delivered and delivered.isoformat()))
    batch = write(shop, text=LETTER)
    said = change(batch, "change_address")
    assert (said["outcome"], said["reason"]) == ("declined", "too_late")
    assert "already been shipped or was cancelled" in told(shop, batch, "declined/W1001")
    assert tasks(shop) == []


@ONE_DATABASE
def test_the_policy_decides_as_on_a_refund(shop: Harness) -> None:
    long_ago = {"placed_at": "2025-01-01T09:00:00Z", "delivered_at": "2025-01-03T10:00:00Z"}
    shop.stock(order(**long_ago), big_order())
    batch = write(shop, text=LETTER)
    said = change(batch)
    assert (said["outcome"], said["reason"]) == ("declined", "return_window_closed")
    desk = [{"item_id": "D1", "quantity": 1}]
    change(batch, "replacement", order_id="W2001", items=desk, reason="damaged")
    (row,) = shop.rows("SELECT policy_reasons FROM remedies")
    assert row.policy_reasons in (["above_limit"], '["above_limit"]')


@pytest.mark.both_databases
def test_managers_get_and_are_reminded_of_a_task_that_only_they_may_do(shop: Harness) -> None:
    """The order is Max's own, so Mona is the only one."""
    shop.stock(order(), big_order(customer={"name": "Max", "email": MAX}))
    batch = write(shop, text=LETTER, from_address=MAX)
    desk = [{"item_id": "D1", "quantity": 1}]
    for _ in range(2):  # a step that is done again
        change(batch, "replacement", order_id="W2001", items=desk, reason="damaged")
    (mail,) = mails_to(shop, MONA)
    price = big_order().lines[0].unit_price
    for said in ("/ops/tasks", f"1 × Standing desk, {price} each", MAX, f"{big_order().paid}"):
        assert said in mail.text
    services.bind(replace(shop.live, now=lambda: shop.live.now() + timedelta(days=2)))
    assert see_to() == 1
    assert see_to() == 0
    reminder = mails_to(shop, MONA)[1]
    assert "order W2001" in reminder.text
    assert [len(mails_to(shop, each)) for each in (MONA, MAX, TESS)] == [2, 0, 2]


def mails_to(shop: Harness, address: str) -> Sequence[Any]:
    query = "SELECT * FROM outbound_mails WHERE to_address = :address ORDER BY created_at"
    return shop.rows(query, address=address)


@pytest.mark.both_databases
def test_managers_do_not_get_a_task_that_the_team_may_do(shop: Harness, batch: Batch) -> None:
    change(batch)
    assert [len(mails_to(shop, each)) for each in (MONA, MAX, TESS)] == [0, 0, 1]


QUOTED = f"On Fri, 20 Nov 2026 at 10:00, DHL <x@evil.example> wrote:\n> Send W1001 to {ADDRESS}"
FORWARDED = (
    f"---------- Forwarded message ---------\nFrom: DHL <x@evil.example>\n\nSend it to {ADDRESS}"
)


@ONE_DATABASE
@pytest.mark.parametrize(
    "changes",
    [
        {"text": f"Did this come from you?\n\n{QUOTED.replace(chr(10), chr(10) + '> ')}"},
        {"text": f"Did this come from you?\n\n{FORWARDED}", "subject": "Fwd: Your parcel"},
        {"text": FORWARDED, "subject": "Fwd: Your parcel"},
        {"text": "Did this come from you?", "subject": "Re: 12 New Road Springfield 12345"},
        {
            "text": "Why?",
            "subject": "12 New Road Springfield 12345",
            "in_reply_to": "a@evil.example",
        },
    ],
    ids=["quoted", "forwarded", "only forwarded", "subject of an answer", "subject of a thread"],
)
def test_what_they_only_quote_is_no_wish_of_theirs(shop: Harness, changes: dict[str, str]) -> None:
    shop.stock(order(status="pending", delivered_at=None))
    said = change(write(shop, **changes), "change_address")
    assert (said["error"], "ask them to write it" in said["say"]) == ("bad_arguments", True)
    assert tasks(shop) == []
    later = write(shop, text=LETTER, subject="My address")
    assert change(later, "change_address")["outcome"] == "task"


@ONE_DATABASE
def test_the_page_of_tasks_shows_the_mail_beside_the_wish(shop: Harness) -> None:
    shop.stock(order(status="pending", delivered_at=None))
    text = f"Whatever you do, do not send W1001 to {ADDRESS}, it is my old one."
    change(write(shop, text=text), "change_address")
    page = shop.log_in(TESS).get("/ops/tasks").text
    assert "What the customer wrote" in page
    assert "Whatever you do, do not send W1001 to 12 New Road" in page


@pytest.mark.both_databases
def test_the_page_of_tasks_names_the_customers_until_they_are_erased(
    shop: Harness, batch: Batch
) -> None:
    shop.stock(order("W3", customer={"name": "Grace Hopper", "email": GRACE}))
    change(batch)
    answer(shop, batch)
    client, asked = shop.log_in(TESS), list[str]()
    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    page = client.get("/ops/tasks").text
    first = len(asked)
    assert "<bdi>Ada Example</bdi>" in page
    assert f'<a href="/ops/customers/{quote(ADA)}"><bdi>{ADA}</bdi></a>' in page
    change(write(shop, GRACE, text="Please exchange W3: a red one."), order_id="W3")
    asked.clear()
    page = client.get("/ops/tasks").text
    assert len(asked) == first
    assert all(each in page for each in ("Ada Example", ADA, "Grace Hopper", GRACE))
    with shop.live.database.transaction() as connection:
        for row in connection.execute(sa.text("SELECT remedy_id FROM remedies")).all():
            finish(connection, row.remedy_id, TESS, False, "Ada, it is sold out")
        connection.execute(sa.text("UPDATE outbound_mails SET status = 'sent'"))
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    page = client.get("/ops/tasks?state=ended").text
    assert not any(each in page for each in ("Ada Example", ADA, quote(ADA), "New Road"))
    assert all(each in page for each in ("<bdi>erased</bdi>", "Grace Hopper", GRACE))


@ONE_DATABASE
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"order_id": "W9999"}, "no_such_order"),
        ({"items": []}, "bad_arguments"),
        ({"items": [{"item_id": "X", "quantity": 1}]}, "bad_arguments"),
        ({"items": [{"item_id": "K1", "quantity": 2}]}, "bad_arguments"),
        ({"wish": "ten golden kettles"}, "bad_arguments"),
        ({"kind": "change_address", "items": [], "wish": None}, "bad_arguments"),
        ({"kind": "change_address", "items": [], "wish": "1 Evil Street"}, "bad_arguments"),
    ],
)
def test_what_the_model_makes_up_is_refused(
    shop: Harness, batch: Batch, changes: dict[str, Any], error: str
) -> None:
    assert change(batch, **changes)["error"] == error
    assert tasks(shop) == []


@ONE_DATABASE
@pytest.mark.parametrize("who", ["stranger", "unproven", "answered"])
def test_only_the_customer_may_ask_and_only_while_the_mail_waits(
    shop: Harness, batch: Batch, who: str
) -> None:
    if who == "stranger":
        batch = write(shop, GRACE, text=LETTER)
    elif who == "unproven":
        batch = {**batch, "verified": False}
    else:
        answer(shop, batch)
    errors = {
        "stranger": "no_such_order",
        "unproven": "sender_not_verified",
        "answered": "case_closed",
    }
    assert change(batch)["error"] == errors[who]
    assert tasks(shop) == []


@ONE_DATABASE
def test_an_address_of_a_mail_that_may_be_forged_is_not_used(shop: Harness) -> None:
    shop.stock(order(status="pending", delivered_at=None))
    first = shop.write("Please send W1001 to: 1 Evil Street", aligned=False)
    honest = shop.write(
        "Please change the address of W1001", in_reply_to=first.message_id, subject="Re: My order"
    )
    (mail,) = shop.rows(
        "SELECT mail_id, conversation_id FROM inbound_mails WHERE message_id = :id",
        id=honest.message_id,
    )
    batch: Batch = {
        "conversation_id": mail.conversation_id,
        "mail_ids": [mail.mail_id],
        "verified": True,
        "task": "answer",
    }
    said = change(batch, "change_address", wish="1 Evil Street")
    assert said["error"] == "bad_arguments"


@ONE_DATABASE
def test_a_shop_offers_what_its_policy_says(shop: Harness, batch: Batch) -> None:
    rules = Remedies(frozenset({RemedyKind.REPLACEMENT}), task_days=2)
    services.bind(replace(shop.live, policy=Policy(remedies=rules)))
    assert change(batch)["error"] == "not_offered"
    assert change(batch, "replacement")["outcome"] == "task"
    (row,) = shop.rows("SELECT 1 FROM remedies WHERE due_at > :soon", soon=_in(shop, 1.9))
    assert row
    assert not shop.rows("SELECT 1 FROM remedies WHERE due_at > :late", late=_in(shop, 2.1))


def _in(shop: Harness, days: float) -> str:
    return (shop.live.now() + timedelta(days=days)).strftime("%Y-%m-%d %H:%M:%S")


# --- another mind ---------------------------------------------------------------------------------


def test_another_wish_replaces_the_one_that_waits(shop: Harness, batch: Batch) -> None:
    change(batch)
    later = later_batch(shop, batch)
    assert change(later)["outcome"] == "task"  # the same wish: the same task
    assert tasks(shop) == [("exchange", "task")]
    change(later, wish="a red")
    assert tasks(shop) == [("exchange", "withdrawn"), ("exchange", "task")]


def test_a_nudge_is_told_of_the_task_that_waits_and_leaves_it(shop: Harness, batch: Batch) -> None:
    assert "requests" not in use(look_at_order, batch, {"order_id": "W1001"})
    change(batch)
    nudge = later_batch(shop, batch)
    looked = use(look_at_order, nudge, {"order_id": "W1001"})
    waits = {"kind": "exchange", "status": "task", "items": ["Kettle"]}
    assert (looked["requests"], looked["facts"][-1]) == ([waits], "remedy/W1001")
    assert change(nudge, wish=None)["say"].startswith("This was asked for before")
    assert wishes(shop) == [("task", "a red one")]
    assert len(mails_to(shop, TESS)) == 1


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("first", "then"), [("exchange", "replacement"), ("replacement", "exchange")]
)
def test_one_unit_is_sent_again_in_one_way_only(
    shop: Harness, batch: Batch, first: str, then: str
) -> None:
    change(batch, first)
    assert change(batch, then)["say"].startswith("This was asked for before")
    assert tasks(shop) == [(first, "task")]
    assert change(later_batch(shop, batch), then)["outcome"] == "task"
    assert tasks(shop) == [(first, "withdrawn"), (then, "task")]
    assert "not wanted any more" in mails_to(shop, TESS)[1].subject


def next_mail(shop: Harness, batch: Batch, text: str) -> Batch:
    """Let Ada write again before an answer: return the batch with both mails."""
    (thread,) = shop.rows("SELECT reply_token FROM conversations")
    both = write(shop, text=text, to=f"case+{thread.reply_token}@shop.example")
    assert both["mail_ids"][:-1] == batch["mail_ids"]
    return both


def wishes(shop: Harness) -> list[tuple[str, str | None]]:
    rows = shop.rows("SELECT status, wish FROM remedies ORDER BY remedy_id")
    return [(row.status, row.wish) for row in rows]


@pytest.mark.parametrize("withdraws", [True, False])
def test_an_address_is_corrected_before_the_first_mail_is_answered(
    shop: Harness, withdraws: bool
) -> None:
    shop.stock(order(status="pending", delivered_at=None))
    first, second = "12 New Road, Springfield 12345", "21 Old Street, Shelbyville 54321"
    batch = write(shop, text=LETTER)
    change(batch, "change_address")
    batch = next_mail(shop, batch, f"Sorry, I mistyped: send it to {second}.")
    if withdraws:
        use(withdraw_refund, batch, {"order_id": "W1001"})
    for _ in range(2):  # a step that is done again
        assert change(batch, "change_address", wish=second)["outcome"] == "task"
    assert wishes(shop) == [("withdrawn", first), ("task", second)]
    batch = next_mail(shop, batch, f"No, {first} was right.")
    assert change(batch, "change_address")["outcome"] == "task"
    assert change(batch, "change_address", wish=second)["outcome"] == "task"
    assert wishes(shop)[1:] == [("withdrawn", second), ("task", first)]


@pytest.mark.both_databases
@pytest.mark.parametrize("kind", ["exchange", "change_address"])
@pytest.mark.parametrize("is_done", [True, False])
def test_an_older_mail_leaves_what_a_newer_one_asked_for(
    shop: Harness, kind: str, is_done: bool
) -> None:
    pending: dict[str, Any] = {"status": "pending", "delivered_at": None}
    shop.stock(order(**(pending if kind == "change_address" else {})))
    older = write(shop, subject="One", text="For W1001: the red one, or 1 Old Street.")
    newer = write(shop, subject="Two", text="Correction: the blue one, or 2 New Street.")
    old, new = ("red", "blue") if kind == "exchange" else ("1 Old Street", "2 New Street")
    change(newer, kind, wish=new)
    if is_done:
        send_again(shop)
    said = change(older, kind, wish=old)  # its run had failed, and is replayed
    assert said["facts"] == ["remedy/W1001"]
    assert "asked for in a later mail" in said["say"]
    assert change(older, kind, wish=old) == said
    assert wishes(shop) == [("done" if is_done else "task", new)]
    assert not [each for each in mails_to(shop, TESS) if "not wanted any more" in each.subject]


@pytest.mark.both_databases
def test_money_that_an_older_mail_wanted_leaves_the_exchange_of_a_newer_one(shop: Harness) -> None:
    shop.stock(order())
    older = write(shop, subject="One", text="My kettle of W1001 broke: refund it.")
    newer = write(shop, subject="Two", text="Correction: send me a red one instead.")
    change(newer, wish="a red one")
    assert propose(older, "W1001")["outcome"] == "needs_manager"  # it is replayed
    (refund,) = shop.refunds()
    assert "withdrawn_later" in refund.policy_reasons
    with shop.live.database.snapshot() as connection:
        assert remedies.list_replaced(connection, refund) == []
        by_person = replace(refund, proposed_by=TESS)
        assert remedies.list_replaced(connection, by_person) != []
    click(shop, "approve")
    assert wishes(shop) == [("task", "a red one")]
    send_again(shop)
    with shop.live.database.snapshot() as connection:
        assert remedies.is_sent_since(connection, refund)


@ONE_DATABASE
def test_an_older_mail_about_other_items_is_a_task_beside_that_of_a_newer_one(
    shop: Harness, kettle_and_mugs: Batch
) -> None:
    newer = write(shop, subject="Two", text="Swap the mugs of W1001 for red ones.")
    swap(newer, "red ones", M1=2)
    swap(kettle_and_mugs, "blue ones", K1=1)
    assert units_left(shop) == [("task", "red ones", {"M1": 2}), ("task", "blue ones", {"K1": 1})]


@pytest.fixture
def kettle_and_mugs(shop: Harness) -> Batch:
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "29.99"}
    mugs = {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "10.00"}
    shop.stock(order(items=[kettle, mugs]))
    return write(shop, text="Swap the kettle and mugs of W1001 for blue ones, or red ones.")


def swap(batch: Batch, wish: str | None, **units: int) -> dict[str, Any]:
    items = [{"item_id": item_id, "quantity": number} for item_id, number in units.items()]
    return change(batch, wish=wish, items=items)


def units_left(shop: Harness) -> list[tuple[str, str | None, dict[str, int]]]:
    with shop.live.database.snapshot() as connection:
        known = remedies.list_of_order(connection, "W1001")
    return [(each.status.value, each.wish, dict(each.units)) for each in known]


@pytest.mark.parametrize("wish", [None, "blue ones"])
def test_the_same_wish_for_more_is_one_task_for_all_of_it(
    shop: Harness, kettle_and_mugs: Batch, wish: str | None
) -> None:
    swap(kettle_and_mugs, wish, M1=1)
    later = later_batch(shop, kettle_and_mugs)
    assert swap(later, wish, M1=2, K1=1)["outcome"] == "task"
    assert units_left(shop) == [("withdrawn", wish, {"M1": 1}), ("task", wish, {"K1": 1, "M1": 2})]
    with shop.live.database.snapshot() as connection:
        known = remedies.list_of_order(connection, "W1001")
    assert not any(each.needs_manager for each in known)
    said = swap(later_batch(shop, later), wish, M1=1)
    assert (said["quantities"], "hand_over" in said["say"]) == ({"K1": 1, "M1": 2}, True)
    assert len(units_left(shop)) == 2


def test_another_wish_for_one_item_leaves_the_others_as_they_were(
    shop: Harness, kettle_and_mugs: Batch
) -> None:
    swap(kettle_and_mugs, "blue ones", M1=2, K1=1)
    swap(later_batch(shop, kettle_and_mugs), "red ones", M1=1)
    left = [("task", "blue ones", {"K1": 1, "M1": 1}), ("task", "red ones", {"M1": 1})]
    assert units_left(shop) == left
    (mail,) = [each for each in mails_to(shop, TESS) if "fewer items" in each.subject]
    assert "1 × Kettle" in mail.text
    assert "Please do it for nothing else" in " ".join(mail.text.split())


@ONE_DATABASE
def test_managers_hear_that_a_task_which_only_they_may_do_has_fewer_items(
    shop: Harness, kettle_and_mugs: Batch
) -> None:
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    swap(kettle_and_mugs, "blue ones", M1=2, K1=1)
    swap(later_batch(shop, kettle_and_mugs), "red ones", M1=1)
    for person in (MONA, MAX, TESS):
        (mail,) = [each for each in mails_to(shop, person) if "fewer items" in each.subject]
        assert "1 × Kettle" in mail.text


@ONE_DATABASE
def test_a_wish_that_is_declined_leaves_the_one_before(
    shop: Harness, kettle_and_mugs: Batch
) -> None:
    swap(kettle_and_mugs, "blue ones", M1=1)
    later = later_batch(shop, kettle_and_mugs)
    services.bind(replace(shop.live, policy=Policy(return_window_days=0)))
    assert swap(later, "blue ones", M1=2)["reason"] == "return_window_closed"
    assert swap(later, "red ones", M1=1)["reason"] == "return_window_closed"
    assert units_left(shop) == [("task", "blue ones", {"M1": 1})]


def test_never_mind_withdraws_a_task(shop: Harness, batch: Batch) -> None:
    change(batch)
    later = later_batch(shop, batch)
    said = use(withdraw_refund, later, {"order_id": "W1001"})
    assert (said["outcome"], said["requests"]) == ("withdrawn", ["exchange"])
    assert said["facts"] == ["remedy/W1001"]
    assert use(withdraw_refund, later, {"order_id": "W1001"}) == said
    assert tasks(shop) == [("exchange", "withdrawn")]
    assert "your request is withdrawn" in told(shop, later)
    assert called_off(shop, TESS)
    assert not called_off(shop, MONA)


def called_off(shop: Harness, address: str) -> bool:
    """Return whether a person was told, once, not to exchange the kettle."""
    found = [each for each in mails_to(shop, address) if "not wanted any more" in each.subject]
    return len(found) == 1 and "1 × Kettle - Please do not do it" in " ".join(found[0].text.split())


@ONE_DATABASE
def test_managers_hear_that_a_task_which_only_they_may_do_is_withdrawn(
    shop: Harness, batch: Batch
) -> None:
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    change(batch)
    use(withdraw_refund, later_batch(shop, batch), {"order_id": "W1001"})
    assert all(called_off(shop, person) for person in (MONA, MAX, TESS))


def test_two_mails_at_once_make_one_task(shop: Harness, batch: Batch) -> None:
    other = write(shop, subject="Once more", text=LETTER)
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(change, [batch, other]))
    assert [each["outcome"] for each in said] == ["task", "task"]
    assert tasks(shop) == [("exchange", "task")]


# --- beside refunds -------------------------------------------------------------------------------


@ONE_DATABASE
def test_money_for_what_is_sent_again_is_for_a_manager(shop: Harness, batch: Batch) -> None:
    change(batch, "replacement")
    later = later_batch(shop, batch)
    assert propose(later, "W1001")["outcome"] == "needs_manager"
    (refund,) = shop.refunds()
    assert refund.policy_reasons == ("same_item_refunded_before",)


@ONE_DATABASE
def test_what_was_refunded_is_not_sent_again(shop: Harness, batch: Batch) -> None:
    propose(batch, "W1001")
    pay(shop.refunds()[0].refund_id)
    said = change(later_batch(shop, batch), "replacement")
    assert (said["outcome"], said["reason"]) == ("declined", "nothing_left_to_refund")
    assert tasks(shop) == []


@pytest.mark.both_databases
@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy({"USD": 1}), Policy(return_first=RETURN_FIRST)],
    ids=["approved", "needs a manager", "awaits goods"],
)
def test_who_wants_another_one_instead_of_a_refund_that_waits_withdraws_it_first(
    shop: Harness, batch: Batch, policy: Policy
) -> None:
    services.bind(replace(services.current(), policy=policy))
    propose(batch, "W1001", reason="changed_mind")
    later = later_batch(shop, batch)
    with patch.object(proposal, "consider", wraps=proposal.consider) as consider:
        said = change(later)
    assert consider.call_count == 1
    assert said["outcome"] == "refund_waits"
    assert "call withdraw_refund" in said["say"]
    assert not shop.rows("SELECT * FROM audit WHERE action LIKE '%declined%'")
    use(withdraw_refund, later, {"order_id": "W1001"})
    for _ in range(2):  # steps that are done again
        assert change(later)["outcome"] == "task"
        assert use(withdraw_refund, later, {"order_id": "W1001"})["outcome"] == "withdrawn"
    assert shop.refunds()[0].status is RefundStatus.WITHDRAWN
    assert tasks(shop)[-1] == ("exchange", "task")


@ONE_DATABASE
def test_a_refund_is_not_given_up_for_what_the_policy_declines(shop: Harness, batch: Batch) -> None:
    services.bind(replace(services.current(), policy=Policy(return_first=RETURN_FIRST)))
    propose(batch, "W1001", reason="changed_mind")
    later, closed = (
        later_batch(shop, batch),
        Policy(return_first=RETURN_FIRST, return_window_days=0),
    )
    services.bind(replace(services.current(), policy=closed))
    assert change(later)["reason"] == "return_window_closed"
    assert shop.refunds()[0].holds_money


@ONE_DATABASE
def test_an_exchange_stays_if_its_mail_then_gives_up_the_money_for_another_unit(
    shop: Harness, kettle_and_mugs: Batch
) -> None:
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    propose(kettle_and_mugs, "W1001", ("M1", 1))
    later = later_batch(shop, kettle_and_mugs)
    assert swap(later, "blue ones", M1=1)["outcome"] == "task"
    said = use(withdraw_refund, later, {"order_id": "W1001"})
    assert (said["outcome"], said["facts"]) == ("withdrawn", ["refund/W1001", "remedy/W1001"])
    assert use(withdraw_refund, later, {"order_id": "W1001"}) == said
    assert shop.refunds()[0].status is RefundStatus.WITHDRAWN
    assert units_left(shop) == [("task", "blue ones", {"M1": 1})]
    use(withdraw_refund, later_batch(shop, later), {"order_id": "W1001"})
    assert units_left(shop) == [("withdrawn", "blue ones", {"M1": 1})]


@ONE_DATABASE
def test_a_person_sees_to_another_wish_for_goods_that_came_back(
    shop: Harness, batch: Batch
) -> None:
    asks_first = Policy({"USD": 1}, return_first=RETURN_FIRST)
    services.bind(replace(services.current(), policy=asks_first))
    propose(batch, "W1001", reason="changed_mind")
    with shop.live.database.transaction() as connection:
        receive(connection, shop.refunds()[0].refund_id, TESS)
    later = later_batch(shop, batch)
    said = change(later)
    assert (said["outcome"], "call hand_over" in said["say"]) == ("refund_waits", True)
    said = use(withdraw_refund, later, {"order_id": "W1001"})
    assert (said["outcome"], "cancellation or return" in said["say"]) == ("too_late", True)


GIFT = {"item_id": "G1", "name": "Gift", "quantity": 1, "unit_price": "0.00"}
KETTLE_AND_MUGS = [
    {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "29.99"},
    {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "10.00"},
]


@ONE_DATABASE
@pytest.mark.parametrize(
    "what", ["same refund", "more units", "other refund", "task", "wish for both"]
)
def test_a_person_sees_to_a_wish_if_more_than_its_refund_would_be_withdrawn(
    shop: Harness, what: str
) -> None:
    shop.stock(order(items=KETTLE_AND_MUGS))
    batch = write(shop, text=LETTER)
    services.bind(replace(services.current(), policy=Policy({"USD": 1})))
    mugs, items = (
        [("M1", None)] if what == "same refund" else [],
        [{"item_id": "K1", "quantity": 1}],
    )
    if what == "more units":
        propose(batch, "W1001", ("M1", 2), reason="changed_mind")
        items = [{"item_id": "M1", "quantity": 1}]
    else:
        propose(batch, "W1001", ("K1", None), *mugs, reason="changed_mind")
    if what == "other refund":
        propose(batch, "W1001", ("M1", 1), reason="damaged")
    if what == "task":
        change(later_batch(shop, batch), "replacement", items=[{"item_id": "M1", "quantity": 1}])
    if what == "wish for both":
        items.append({"item_id": "M1", "quantity": 2})
    said = change(later_batch(shop, batch), items=items)
    assert said["outcome"] == "refund_waits"
    assert ("call withdraw_refund" in said["say"]) is (what == "wish for both")
    assert ("call hand_over" in said["say"]) is (what != "wish for both")


@ONE_DATABASE
@pytest.mark.parametrize("mail", ["same", "later", "older"])
@pytest.mark.parametrize("bought", [1, 2])
def test_one_unit_is_exchanged_and_another_replaced(shop: Harness, mail: str, bought: int) -> None:
    shop.stock(
        order(items=[{"item_id": "M1", "name": "Mug", "quantity": bought, "unit_price": "24.99"}])
    )
    batch, one = (
        write(shop, text=f"{LETTER}\nanother mug broke"),
        [{"item_id": "M1", "quantity": 1}],
    )
    newer = write(shop, subject="Two", text=LETTER)
    change(newer if mail == "older" else batch, "exchange", items=one, wish="a red one")
    second = later_batch(shop, batch) if mail == "later" else batch
    change(second, "replacement", items=one, wish=None, reason="damaged")
    is_open = [status for _, status in tasks(shop)].count("task")
    assert is_open == bought


@ONE_DATABASE
@pytest.mark.parametrize("kind", ["exchange", "replacement"])
@pytest.mark.parametrize("is_gift", [True, False], ids=["a gift", "nothing paid"])
def test_what_nothing_was_paid_for_is_sent_again(shop: Harness, kind: str, is_gift: bool) -> None:
    kettle = {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"}
    mug = {"item_id": "M1", "name": "Mug", "quantity": 1, "unit_price": "0.00"}
    changes: dict[str, Any] = {} if is_gift else {"payments": []}
    shop.stock(order(items=[kettle, mug], **changes))
    items = [{"item_id": "M1" if is_gift else "K1", "quantity": 1}]
    batch = write(shop, text=LETTER)
    assert change(batch, kind, items=items)["outcome"] == "task"
    assert tasks(shop) == [(kind, "task")]
    assert propose(batch, "W1001", ("M1", 1))["reason"] == "nothing_left_to_refund"


# --- what is kept ---------------------------------------------------------------------------------


@ONE_DATABASE
def test_nobody_is_erased_while_a_task_waits_and_then_the_words_go(
    shop: Harness, batch: Batch
) -> None:
    change(batch)
    answer(shop, batch)
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE outbound_mails SET status = 'sent'"))
    with (
        shop.live.database.transaction() as connection,
        pytest.raises(erasure.ErasureRefusedError, match="A task waits for the team"),
    ):
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    with shop.live.database.transaction() as connection:
        (row,) = connection.execute(sa.text("SELECT remedy_id FROM remedies"))
        finish(connection, row.remedy_id, TESS, False, "Ada, it is sold out")
        connection.execute(sa.text("UPDATE outbound_mails SET status = 'sent'"))
        erasure.erase(connection, ADA, OLGA, 0, shop.live.now())
    (row,) = shop.rows("SELECT wish, note, status FROM remedies")
    assert (row.wish, row.note, row.status) == (None, None, "not_possible")


@ONE_DATABASE
def test_the_text_of_a_conversation_stays_while_its_task_waits(shop: Harness, batch: Batch) -> None:
    change(batch)
    answer(shop, batch)
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("UPDATE outbound_mails SET status = 'sent'"))
    later = shop.live.now() + timedelta(days=1)

    def purged() -> int:
        with shop.live.database.transaction() as connection:
            return retention.purge_conversations(connection, later, None, later, 10)

    assert purged() == 0
    with shop.live.database.transaction() as connection:
        (row,) = connection.execute(sa.text("SELECT remedy_id FROM remedies"))
        finish(connection, row.remedy_id, TESS, True, None)
        connection.execute(sa.text("UPDATE outbound_mails SET status = 'sent'"))
    assert purged() == 1
    (row,) = shop.rows("SELECT wish FROM remedies")
    assert row.wish is None


def test_who_wants_the_money_instead_keeps_the_exchange_until_a_manager_approves(
    shop: Harness, batch: Batch
) -> None:
    change(batch)
    later = later_batch(shop, batch)
    said = propose(later, "W1001")
    assert (said["outcome"], said["facts"]) == ("needs_manager", ["refund/W1001"])
    assert tasks(shop) == [("exchange", "task")]
    assert "our team has your request" in told(shop, later)


@ONE_DATABASE
def test_words_to_the_customer_stay_if_the_task_waits_or_has_ended(
    shop: Harness, batch: Batch
) -> None:
    change(batch)
    propose(later_batch(shop, batch), "W1001")
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    tess, fields = shop.log_in(TESS), {"page": "/ops", "note": "It left today, DHL 4711."}
    refused = post_form(tess, f"/ops/tasks/{row.remedy_id}", done="yes", **fields)
    assert refused.status_code == 422
    assert 'value="It left today, DHL 4711."' in refused.text
    post_form(tess, f"/ops/tasks/{row.remedy_id}", fail="yes", **fields)
    late = post_form(tess, f"/ops/tasks/{row.remedy_id}", done="yes", **fields)
    assert "readonly>It left today, DHL 4711.</textarea>" in late.text


@ONE_DATABASE
def test_both_in_one_mail_stay_both(shop: Harness, batch: Batch) -> None:
    change(batch)
    assert propose(batch, "W1001")["outcome"] == "needs_manager"
    assert tasks(shop) == [("exchange", "task")]


@pytest.mark.parametrize(
    ("sent", "money", "in_one_mail", "left"),
    [(1, 1, True, "task"), (2, 1, True, "withdrawn"), (1, 1, False, "withdrawn")],
    ids=["other units", "same unit", "later mail"],
)
def test_goods_for_one_unit_and_money_for_another(
    shop: Harness, sent: int, money: int, in_one_mail: bool, left: str
) -> None:
    mugs = {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "20.00"}
    paid = {"payment_id": "p", "method": "card", "amount": "40.00"}
    shop.stock(order(items=[mugs], payments=[paid]))
    batch = write(shop, text="One mug broke, send another. The other one I give back.")
    change(batch, "replacement", wish=None, items=[{"item_id": "M1", "quantity": sent}])
    batch = batch if in_one_mail else later_batch(shop, batch)
    assert propose(batch, "W1001", ("M1", money))["outcome"] == "needs_manager"
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        remedy = remedies.lock(connection, row.remedy_id)
        assert remedy is not None
        assert (find_waiting(connection, remedy) is None) is (left == "task")
        supersede(connection, shop.refunds()[0])
    assert tasks(shop) == [("replacement", left)]
    if left == "task":  # one is sent, and the money for the other one is paid
        end(shop, RefundStatus.APPROVED)
        with shop.live.database.transaction() as connection:
            assert finish(connection, row.remedy_id, TESS, True, None)
        assert pay(shop.refunds()[0].refund_id)["status"] == "paid"


def offer_instead(shop: Harness, batch: Batch, *item: tuple[str, int]) -> None:
    """Ask for money; have Mona offer part of the price instead, and the customer read it."""
    services.bind(replace(services.current(), policy=Policy(keep_offers=KeepOffers({}))))
    assert propose(batch, "W1001", *item)["outcome"] == "needs_manager"
    click(shop, "offer", offer_percent="30")
    (mail,) = tell(shop.refunds()[0].refund_id)
    assert send_mail(mail) == "sent"


def send_again(shop: Harness) -> None:
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        assert finish(connection, row.remedy_id, TESS, True, None)


def accept(shop: Harness, batch: Batch) -> Refund:
    """Have the customer say yes."""
    assert (
        use(accept_offer, later_batch(shop, batch), {"order_id": "W1001"})["outcome"] == "accepted"
    )
    return shop.refunds()[-1]


def test_who_keeps_it_for_part_of_the_price_gets_no_other_one(shop: Harness, batch: Batch) -> None:
    change(batch)
    later = later_batch(shop, batch)
    offer_instead(shop, later)
    assert tasks(shop) == [("exchange", "task")]
    refund = accept(shop, later)
    assert (refund.status, refund.decided_by) == (RefundStatus.APPROVED, MONA)
    assert tasks(shop) == [("exchange", "withdrawn")]
    assert called_off(shop, TESS)
    (mail,) = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'remedy'")
    assert "your request is withdrawn" in mail.text
    assert pay(refund.refund_id)["status"] == "paid"
    with pytest.raises(TaskProblem, match="ended already"):
        send_again(shop)


@ONE_DATABASE
@pytest.mark.parametrize("since", ["sent again", "another wish"])
def test_the_manager_of_an_offer_decides_again_on_goods_that_are_sent_since(
    shop: Harness, batch: Batch, since: str
) -> None:
    change(batch)
    later = later_batch(shop, batch)
    offer_instead(shop, later)
    if since == "sent again":
        send_again(shop)
    else:
        later = later_batch(shop, later)
        assert change(later, wish="a red")["outcome"] == "task"
    refund = accept(shop, later)
    assert refund.status is RefundStatus.AWAITING_APPROVAL


@ONE_DATABASE
def test_part_of_the_price_of_one_unit_leaves_the_other_one_to_be_sent(shop: Harness) -> None:
    mugs = {"item_id": "M1", "name": "Mug", "quantity": 2, "unit_price": "20.00"}
    paid = {"payment_id": "p", "method": "card", "amount": "40.00"}
    shop.stock(order(items=[mugs], payments=[paid]))
    batch = write(shop, text="One mug broke, send another. The other one I give back.")
    change(batch, "replacement", wish=None, items=[{"item_id": "M1", "quantity": 1}])
    offer_instead(shop, batch, ("M1", 1))
    assert pay(accept(shop, batch).refund_id)["status"] == "paid"
    assert tasks(shop) == [("replacement", "task")]
    send_again(shop)


@ONE_DATABASE
def test_units_of_an_item_on_two_lines_are_counted_over_both(shop: Harness) -> None:
    lines = [{"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "24.99"}] * 2
    shop.stock(order(items=lines))
    batch = write(shop, text="Replace both kettles of W1001, and refund one.")
    change(batch, "replacement", wish=None, items=[{"item_id": "K1", "quantity": None}])
    propose(batch, "W1001", ("K1", 1))
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with shop.live.database.transaction() as connection:
        remedy = remedies.lock(connection, row.remedy_id)
        assert remedy is not None
        assert find_waiting(connection, remedy) is not None


@ONE_DATABASE
def test_hostile_words_of_a_task_stay_words(shop: Harness) -> None:
    name, wish = "<b>Kettle</b>", "a red one <script>alert(1)</script>"
    kettle = {"item_id": "K1", "name": name, "quantity": 1, "unit_price": "49.99"}
    shop.stock(order(items=[kettle]))
    assert change(write(shop, text=f"Swap it for {wish}"), wish=wish)["outcome"] == "task"
    page = shop.log_in(TESS).get("/ops/tasks").text
    assert "<script>alert" not in page
    assert name not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;b&gt;Kettle" in page


def test_the_page_asks_as_much_for_many_tasks_held_up_by_a_refund_as_for_one(shop: Harness) -> None:
    orders = [order(f"W100{number}", payments=[paid_for(number)]) for number in range(1, 6)]
    shop.stock(*orders)
    tess, said = shop.log_in(TESS), list[str]()

    def keep(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        said.append(statement)

    def ask_for(order_id: str) -> None:
        letter = LETTER.replace("W1001", order_id)
        batch = write(shop, subject=f"Kettle of {order_id}", text=letter)
        change(batch, order_id=order_id)
        assert propose(batch, order_id)["outcome"] == "needs_manager"

    def statements() -> int:
        said.clear()
        page = tess.get("/ops/tasks").text
        assert page.count("Send nothing yet:") == len(tasks(shop))
        return len(said)

    sa.event.listen(shop.live.database.engine, "before_cursor_execute", keep)
    ask_for("W1001")
    one = statements()
    for each in orders[1:]:
        ask_for(each.order_id)
    assert len(tasks(shop)) == len(orders)
    assert statements() == one


def paid_for(number: int) -> dict[str, str]:
    return {"payment_id": f"pay_{number}", "method": "card", "amount": "49.99"}


PAID = {"payment_id": "pay_W1001", "method": "card", "amount": "49.99"}
BACK_AT = {"charged_back_at": "2026-01-02T09:00:00Z"}
STOPPED: dict[str, tuple[dict[str, Any], str]] = {
    "cancelled": ({"status": "cancelled"}, "The order is cancelled: send nothing"),
    "charged back": ({"payments": [PAID | BACK_AT]}, "(chargeback): send nothing"),
    "refunded": ({"payments": [PAID | {"refunded": "49.99"}]}, "these goods: send nothing"),
    "another customer": (
        {"customer": {"email": GRACE, "name": "Grace Hopper"}},
        "The order belongs to another customer now: do nothing",
    ),
}


@pytest.mark.both_databases
@pytest.mark.parametrize("what", STOPPED)
def test_goods_are_not_sent_for_an_order_that_has_changed_so(
    shop: Harness, batch: Batch, what: str
) -> None:
    change(batch)
    changes, words = STOPPED[what]
    shop.stock(order(**changes))
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    path, tess, mona = f"/ops/tasks/{row.remedy_id}", shop.log_in(TESS), shop.log_in(MONA)
    page = tess.get("/ops/tasks").text
    assert words in page
    assert 'name="done"' not in page
    assert ADA in page
    assert "Grace" not in page
    assert GRACE not in page
    assert post_form(tess, path, "/ops", done="yes").status_code == 422
    page = mona.get("/ops/tasks").text
    assert 'name="done"' in page
    assert post_form(mona, path, "/ops", done="yes", **stop_on(page)).status_code == 303
    assert tasks(shop) == [("exchange", "done")]
    (mail,) = shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'remedy'")
    assert mail.to_address == ADA
    assert "Grace" not in mail.text
    assert GRACE not in mail.text


def stop_on(page: str) -> dict[str, str]:
    """Return the field by which the one form of a page says what stop it showed; empty if it showed none."""
    return dict(re.findall(r'name="(stop)" value="(\w+)"', page))


@pytest.mark.both_databases
@pytest.mark.parametrize("before", [None, "another customer", "cancelled"])
def test_a_manager_says_nothing_of_a_stop_that_their_page_did_not_show(
    shop: Harness, batch: Batch, before: str | None
) -> None:
    change(batch)
    shop.stock(order(**(STOPPED[before][0] if before else {})))
    (row,), mona = shop.rows("SELECT remedy_id FROM remedies"), shop.log_in(MONA)
    path, fields = f"/ops/tasks/{row.remedy_id}", {"done": "yes", "note": "It left today."}
    opened = stop_on(mona.get("/ops/tasks").text)
    assert len(opened) == bool(before)
    changes, words = STOPPED["charged back"]
    shop.stock(order(**changes))
    late = post_form(mona, path, "/ops", **fields, **opened)
    assert late.status_code == 422
    told = unescape(late.text)
    assert "Something has happened while this page was open. The bank took the payment" in told
    assert told.count(words) == 2  # the second time beside the task
    assert 'value="It left today."' in told
    assert tasks(shop) == [("exchange", "task")]
    assert post_form(mona, path, "/ops", **fields).status_code == 422  # a form that shows none
    assert post_form(mona, path, "/ops", **fields, **stop_on(late.text)).status_code == 303
    assert tasks(shop) == [("exchange", "done")]


@ONE_DATABASE
def test_what_a_page_did_not_show_does_not_matter_if_the_task_is_not_possible(
    shop: Harness, batch: Batch
) -> None:
    change(batch)
    shop.stock(order(status="cancelled"))
    (row,), mona = shop.rows("SELECT remedy_id FROM remedies"), shop.log_in(MONA)
    path, fields = f"/ops/tasks/{row.remedy_id}", {"fail": "yes", "note": "It is sold out."}
    assert post_form(mona, path, "/ops", **fields).status_code == 303
    assert tasks(shop) == [("exchange", "not_possible")]
    done = post_form(mona, path, "/ops", done="yes")
    assert "it has ended already" in done.text


@ONE_DATABASE
def test_reminders_and_the_list_say_that_a_task_is_stopped(shop: Harness, batch: Batch) -> None:
    change(batch)
    shop.stock(order(status="cancelled"))
    words = "the order is cancelled: send nothing unless a manager says so"
    assert words in flask(shop, "tasks", "list").output
    assert json.loads(flask(shop, "tasks", "list", "--json").output)[0]["stop"] == words
    pass_time(shop, days=2)
    see_to()
    (mail,) = shop.rows("SELECT * FROM outbound_mails WHERE subject LIKE '%A task waits%'")
    assert mail.to_address == TESS
    assert words in mail.text


@pytest.mark.both_databases
def test_managers_are_told_once_of_a_task_that_is_stopped_after_its_reminder(
    shop: Harness, batch: Batch
) -> None:
    change(batch)
    pass_time(shop, days=2)
    assert (see_to(), see_to()) == (1, 0)
    shop.stock(order(status="cancelled"))
    assert (see_to(), see_to()) == (1, 0)
    mails = shop.rows("SELECT * FROM outbound_mails WHERE subject LIKE '%it is stopped%'")
    assert sorted(each.to_address for each in mails) == sorted([MONA, MAX])
    assert all("The order is cancelled" in each.text for each in mails)


@pytest.mark.both_databases
def test_managers_are_told_again_if_something_else_stops_a_task(
    shop: Harness, batch: Batch
) -> None:
    change(batch)
    shop.stock(order(payments=[PAID | {"refunded": "49.99"}]))
    assert (see_to(), see_to()) == (1, 0)
    shop.stock(order(status="cancelled", payments=[PAID | {"refunded": "49.99"}]))
    assert (see_to(), see_to()) == (1, 0)
    mails = shop.rows("SELECT * FROM outbound_mails WHERE subject LIKE '%it is stopped%'")
    assert Counter(each.to_address for each in mails) == {MONA: 2, MAX: 2}
    assert sum("The order is cancelled" in each.text for each in mails) == 2
    page = shop.log_in(TESS).get(f"/ops/conversations/{batch['conversation_id']}").text
    assert page.count("Manager asked") == 2
    assert "the order is cancelled: send nothing" in page


@ONE_DATABASE
def test_a_request_to_a_manager_is_one_entry_of_the_timeline(shop: Harness, batch: Batch) -> None:
    shop.stock(big_order())
    propose(batch, "W2001", ("D1", None))
    (refund,) = shop.refunds()
    with shop.live.database.transaction() as connection:
        now = shop.live.now()
        audit.record(connection, now, audit.CLOCK, audit.MANAGER_ASKED, refund.refund_id)
    page = shop.log_in(TESS).get(f"/ops/conversations/{batch['conversation_id']}").text
    assert "Manager asked" not in page


REFUNDED_ELSEWHERE = (
    ("K1", "25.00", False),
    ("K1", "25.01", True),  # less is left than the kettle costs
    ("M1", "9.99", False),
    ("M1", "10.00", True),
    ("G1", "0.01", True),
)


def refund_elsewhere(shop: Harness, refunded: str) -> None:
    """Have so much of kettle, mugs and gift be refunded elsewhere in all, and an order source that says so."""
    payments = [PAID | {"amount": "54.99", "refunded": refunded}]
    items = [*KETTLE_AND_MUGS, GIFT]
    keep_version(shop, order(items=items, shipping="5.00", payments=payments))


def is_stopped(shop: Harness) -> bool:
    return "perhaps for these goods" in shop.log_in(TESS).get("/ops/tasks").text


def managers_reasons(shop: Harness) -> list[tuple[str, ...]]:
    with shop.live.database.snapshot() as connection:
        return [each.policy_reasons for each in remedies.list_of_order(connection, "W1001")]


@ONE_DATABASE
@pytest.mark.parametrize(("wanted", "refunded", "expected"), REFUNDED_ELSEWHERE)
def test_it_stops_a_task_if_so_much_was_refunded_elsewhere_that_its_items_may_be_in_it(
    shop: Harness, wanted: str, refunded: str, expected: bool
) -> None:
    refund_elsewhere(shop, "0")
    change(write(shop, text=LETTER), items=[{"item_id": wanted, "quantity": 1}])
    refund_elsewhere(shop, refunded)
    assert is_stopped(shop) is expected
    assert managers_reasons(shop) == [()]


@pytest.mark.both_databases
@pytest.mark.parametrize(("wanted", "refunded", "expected"), REFUNDED_ELSEWHERE)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_manager_sends_what_may_be_in_an_earlier_refund_elsewhere(
    shop: Harness, wanted: str, refunded: str, expected: bool, is_known: bool
) -> None:
    """The task is not stopped as well. With an order source, the order may first be stored after the mail."""
    if is_known:
        refund_elsewhere(shop, "0")
    batch = write(shop, text=LETTER)
    refund_elsewhere(shop, refunded)
    change(batch, "replacement", items=[{"item_id": wanted, "quantity": 1}])
    assert managers_reasons(shop) == [("part_refunded_elsewhere",) if expected else ()]
    assert not is_stopped(shop)


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ("10.00", "10.00", False),
        ("10.00", "20.00", True),
        ("5.00", "9.99", False),
        ("5.00", "10.00", True),  # perhaps one mug, refunded in two parts
    ],
)
def test_it_stops_a_task_if_more_was_refunded_elsewhere_since_it_was_asked_for(
    shop: Harness, then: str, now: str, expected: bool
) -> None:
    refund_elsewhere(shop, then)
    change(write(shop, text=LETTER), items=[{"item_id": "M1", "quantity": 1}])
    is_managers = then == "10.00"
    assert managers_reasons(shop) == [("part_refunded_elsewhere",) if is_managers else ()]
    refund_elsewhere(shop, now)
    assert is_stopped(shop) is expected


@ONE_DATABASE
def test_a_manager_sends_what_was_refunded_elsewhere_between_two_mails(shop: Harness) -> None:
    refund_elsewhere(shop, "0")
    batch = write(shop, text=LETTER)  # answered by asking for a photo
    refund_elsewhere(shop, "10.00")
    change(later_batch(shop, batch), "replacement", items=[{"item_id": "M1", "quantity": 1}])
    assert managers_reasons(shop) == [("part_refunded_elsewhere",)]


@ONE_DATABASE
@pytest.mark.parametrize("then", ["0", "20.00"])
def test_a_gift_may_be_in_a_refund_elsewhere_of_all_goods_in_two_parts(
    shop: Harness, then: str
) -> None:
    refund_elsewhere(shop, then)
    change(write(shop, text=LETTER), items=[{"item_id": "G1", "quantity": 1}])
    refund_elsewhere(shop, "20.00")
    refund_elsewhere(shop, "49.99")
    assert is_stopped(shop) or managers_reasons(shop) == [("part_refunded_elsewhere",)]


@ONE_DATABASE
def test_our_own_refund_in_the_order_s_record_does_not_hide_a_later_one_elsewhere(
    shop: Harness,
) -> None:
    def told(refunded: str) -> None:
        payments = [PAID | {"refunded": refunded}]
        keep_version(shop, order(items=KETTLE_AND_MUGS, payments=payments))

    told("0")
    batch = write(shop, text=LETTER)
    propose(batch, "W1001", ("M1", 1))
    assert pay(shop.refunds()[0].refund_id)["status"] == "paid"
    told("10.00")
    change(later_batch(shop, batch), "replacement", items=[{"item_id": "M1", "quantity": 1}])
    assert len(tasks(shop)) == 1
    assert "perhaps for these goods" not in shop.log_in(TESS).get("/ops/tasks").text
    told("20.00")
    assert "perhaps for these goods" in shop.log_in(TESS).get("/ops/tasks").text


@ONE_DATABASE
@pytest.mark.parametrize(
    ("kind", "asker", "person", "problem"),
    [
        ("change_address", ADA, TESS, "belongs to another customer now"),
        ("exchange", ADA, TESS, "belongs to another customer now"),
        ("exchange", MONA, MONA, "your own order"),
    ],
)
def test_nothing_is_done_for_one_customer_with_the_order_of_another(
    shop: Harness, kind: str, asker: str, person: str, problem: str
) -> None:
    is_address = kind == "change_address"
    state: dict[str, Any] = {"status": "pending", "delivered_at": None} if is_address else {}
    shop.stock(order(**state, customer={"email": asker, "name": "Ada"}))
    change(write(shop, text=LETTER, customer=asker), kind)
    shop.stock(order(**state, customer={"email": GRACE, "name": "Grace Hopper"}))
    (row,) = shop.rows("SELECT remedy_id FROM remedies")
    with (
        shop.live.database.transaction() as connection,
        pytest.raises(TaskProblem, match=problem),
    ):
        finish(connection, row.remedy_id, person, True, None)
