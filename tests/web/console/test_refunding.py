"""A person of the team asks for a refund: the same policy, the same approval, once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from mailagent import remedies as ending
from mailagent import services
from mailagent.adapters.order_sources.http.source import HttpOrderSource
from mailagent.demo.scripted_model import Phrase
from mailagent.domain.operations.provider import Provider, ProviderKind
from mailagent.domain.orders.freshness import Freshness
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from mailagent.domain.remedies.remedy import RemedyStatus
from mailagent.store.ids import new_id
from mailagent.store.mail import assignments, conversations, inbound, throttled
from mailagent.store.orders import problems
from mailagent.store.refunds import remedies
from mailagent.web.console.conversations.refunding import LOOK_UP_SECONDS
from mailagent.workflows.steps.conversation.batch import take_batch
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.tools.request_change import request_change
from tests.cast import ADA, GRACE, MONA, TESS, big_order, order
from tests.databases import ONE_DATABASE
from tests.handed_over import by_button, customer_mails, handed_over, thread, write_for_team
from tests.harness import Harness, post_form
from tests.tool_use import use
from tests.web.console.drafts import SPENT, age, door, press
from tests.workflows.moves import reply_move
from tests.workflows.proposals import propose

MUGS: dict[str, Any] = {
    "items": [{"item_id": "M1", "name": "Mug", "quantity": 3, "unit_price": "10.00"}],
    "payments": [{"payment_id": "pay_mugs", "method": "card", "amount": "30.00"}],
}


@pytest.fixture
def written(shop: Harness) -> Harness:
    """Ada has written about her mugs, and has a desk, too; Grace has a kettle."""
    shop.stock(order(**MUGS), big_order(), order("W3001", customer={"email": GRACE, "name": "G"}))
    shop.write("A mug of order W1001 is broken.")
    return shop


def path(shop: Harness, order_id: str = "W1001") -> str:
    return f"/ops/conversations/{thread(shop).conversation_id}/refund/{order_id}"


def ask(client: FlaskClient, where: str, units: str = "1", item: str = "M1", **more: str) -> Any:
    form = {"once": new_id("once"), "reason": "damaged", f"units:{item}": units, **more}
    return post_form(client, where, page="/ops", **form)


def amount_in(page: str) -> str:
    found = re.search(r'name="amount" value="([^"]+)"', page)
    return found[1] if found else ""


def test_a_small_refund_is_worked_out_first_and_then_approved_once(written: Harness) -> None:
    tess, once = written.log_in(TESS), new_id("once")
    seen = ask(tess, path(written), "2", once=once)
    assert (amount_in(seen.text), "It is approved at once." in seen.text) == ("$20.00", True)
    assert written.refunds() == ()
    for _ in range(2):
        done = ask(tess, path(written), "2", once=once, amount="$20.00")
        assert done.status_code == 303
    (refund,) = written.refunds()
    assert (str(refund.amount), refund.status, refund.proposed_by, refund.decided_by) == (
        "20.00 USD", "approved", TESS, "policy",
    )  # fmt: skip
    (row,) = written.rows("SELECT run_id FROM refunds")
    run_id = row.run_id or f"refund-{refund.refund_id}"
    assert written.live.workflow_client.runs.find_latest([run_id]) is not None
    (act,) = written.rows("SELECT details FROM audit WHERE action = 'refund approved'")
    assert TESS in str(act.details)
    page = tess.get(f"/ops/refunds/{refund.refund_id}").text
    assert f"<dt>Asked for by</dt><dd>{TESS}</dd>" in page


@ONE_DATABASE
def test_a_person_reads_that_the_goods_come_back_first(written: Harness) -> None:
    rules = ReturnFirst(frozenset({RefundReason.CHANGED_MIND}), "Send it to 1 Shop Street.")
    services.bind(replace(written.live, policy=Policy(return_first=rules)))
    seen = ask(written.log_in(TESS), path(written), reason="changed_mind")
    assert "It is paid when the goods are back." in seen.text
    assert "It is approved at once." not in seen.text


def test_a_large_refund_waits_for_a_manager_who_sees_who_asked(written: Harness) -> None:
    tess, where = written.log_in(TESS), path(written, "W2001")
    seen = ask(tess, where, item="D1")
    assert "A manager is asked first. The amount is above" in seen.text
    assert ask(tess, where, item="D1", amount=amount_in(seen.text)).status_code == 303
    (refund,) = written.refunds()
    assert (refund.status, refund.proposed_by) == ("awaiting_approval", TESS)
    assert len(written.rows("SELECT 1 FROM approvals")) == 1
    approval_id = written.rows("SELECT approval_id FROM approvals")[0].approval_id
    link = written.live.links.sign_approval(approval_id, MONA)
    assert TESS in written.client.get(f"/approvals/{link.rpartition('/')[2]}").text


@ONE_DATABASE
@pytest.mark.parametrize("managers", [(TESS,), (TESS, MONA)], ids=["only", "not only"])
def test_a_manager_asks_only_if_another_one_can_approve(
    written: Harness, managers: tuple[str, ...]
) -> None:
    shop = replace(written.live.shop, manager_emails=managers)
    services.bind(replace(written.live, shop=shop))
    tess, where, alone = written.log_in(TESS), path(written, "W2001"), managers == (TESS,)
    seen = ask(tess, where, item="D1")
    assert ("MANAGER_EMAILS has too few" in seen.text, amount_in(seen.text) == "") == (alone, alone)
    done = ask(tess, where, item="D1", amount="$1,499.00")
    assert done.status_code == (200 if alone else 303)
    assert len(written.refunds()) == (not alone)


@ONE_DATABASE
def test_units_that_were_refunded_are_not_refunded_again(written: Harness) -> None:
    tess = written.log_in(TESS)
    ask(tess, path(written), "2", amount="$20.00")
    assert "1 of 3 left" in tess.get(path(written)).text
    seen = ask(tess, path(written), "3")
    assert amount_in(seen.text) in ("", "$10.00")
    ask(tess, path(written), "1", amount="$10.00")
    nothing = ask(tess, path(written), "1", amount="$10.00")
    assert "The policy declines it." in nothing.text
    assert sum(refund.amount.minor for refund in written.refunds()) == 3000


def left(shop: Harness) -> None:
    conversation_id = thread(shop).conversation_id
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, conversation_id, "a test", shop.live.now())
        assignments.leave(connection, conversation_id)


def answered_at_the_console(shop: Harness) -> None:
    left(shop)
    answer = {"text": "We look into it.", "once": new_id("once")}
    done = press(shop.log_in(TESS), thread(shop).conversation_id, "answer", **answer)
    assert done.status_code == 303


def answered_by_mail(shop: Harness) -> None:
    left(shop)
    write_for_team(shop, "We look into it.")


def answered_later_by_the_agent(shop: Harness) -> None:
    """The loop guard stopped the mail, and the agent answers the next one."""
    (mail,) = customer_mails(shop)
    with shop.live.database.transaction() as connection:
        throttled.throttle_by_loop_guard(connection, [mail.mail_id])
        throttled.close_throttled_by_loop_guard(connection, mail.conversation_id)
    shop.write("Thank you.", to=door(shop))
    batch = take_batch(mail.conversation_id)
    assert batch is not None
    write_reply(batch, reply_move(batch, Phrase("welcome")), SPENT)


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("days", "happened", "in_time"),
    [
        (2, left, True),
        (0, left, False),
        (2, handed_over, True),
        (2, answered_at_the_console, False),
        (2, answered_by_mail, False),
        (2, answered_later_by_the_agent, False),
    ],
)
def test_the_return_window_must_have_been_open_when_the_customer_asked(
    written: Harness, days: int, happened: Callable[[Harness], object], in_time: bool
) -> None:
    """What they asked is settled by people's answer, and not by our mail that a person takes over."""
    delivered_at = written.live.now() - timedelta(days=31)
    placed_at = delivered_at - timedelta(days=2)
    times = {"delivered_at": delivered_at.isoformat(), "placed_at": placed_at.isoformat()}
    written.stock(order(**MUGS | times))
    age(written, "inbound_mails", "received_at", hours=24 * days)
    happened(written)
    written.write("Hello?", to=door(written))
    page = ask(written.log_in(TESS), path(written)).text
    assert ("It is approved at once." if in_time else "The policy declines it.") in page


@ONE_DATABASE
@pytest.mark.parametrize("is_same", [True, False], ids=["same reason", "another reason"])
def test_a_replacement_that_was_not_possible_was_asked_for_in_time(
    written: Harness, is_same: bool
) -> None:
    delivered_at = written.live.now() - timedelta(days=31)
    placed_at = delivered_at - timedelta(days=2)
    times = {"delivered_at": delivered_at.isoformat(), "placed_at": placed_at.isoformat()}
    written.stock(order(**MUGS | times))
    age(written, "inbound_mails", "received_at", hours=48)
    batch = take_batch(thread(written).conversation_id)
    assert batch is not None
    wish = {"order_id": "W1001", "items": [{"item_id": "M1", "quantity": 1}], "reason": "damaged"}
    said = use(request_change, batch, wish | {"kind": "replacement", "wish": None})
    assert said["outcome"] == "task"
    with written.live.database.transaction() as connection:
        (task,) = remedies.list_of_order(connection, "W1001")
        ending.end(connection, task, RemedyStatus.NOT_POSSIBLE, MONA, "It is sold out.")
        inbound.leave_unanswered(connection, batch["mail_ids"], "a test")
    written.write("Then refund it.", to=door(written))
    reason = "damaged" if is_same else "other"
    page = ask(written.log_in(TESS), path(written), reason=reason).text
    assert ("It is approved at once." if is_same else "The policy declines it.") in page


@pytest.mark.both_databases
@pytest.mark.parametrize("writes_again", [True, False])
@pytest.mark.parametrize("days", [50, 37], ids=["before the order", "before its delivery"])
def test_a_mail_from_before_the_delivery_does_not_open_the_return_window(
    written: Harness, days: int, writes_again: bool
) -> None:
    """The mail waits for people, who have answered it by phone."""
    placed_at = written.live.now() - timedelta(days=40)
    delivered_at = written.live.now() - timedelta(days=35)
    times = {"delivered_at": delivered_at.isoformat(), "placed_at": placed_at.isoformat()}
    written.stock(order(**MUGS | times))
    age(written, "inbound_mails", "received_at", hours=24 * days)
    handed_over(written)
    if writes_again:
        written.write("The mug of W1001 broke today.", to=door(written))
    page = ask(written.log_in(TESS), path(written)).text
    assert "The policy declines it." in page
    by_button(written)
    batch = take_batch(thread(written).conversation_id)
    assert batch is not None
    # The agent answers what they wrote, however late, if it can be about the order.
    outcome = "approved" if days == 37 and not writes_again else "declined"
    assert propose(batch, "W1001", ("M1", 1))["outcome"] == outcome


@ONE_DATABASE
def test_an_amount_that_was_not_seen_is_not_refunded(written: Harness) -> None:
    tess = written.log_in(TESS)
    told = ask(tess, path(written), "3", amount="$20.00")
    assert (told.status_code, "The amount is another now" in told.text) == (409, True)
    assert written.refunds() == ()


@ONE_DATABASE
@pytest.mark.parametrize(
    ("units", "more", "says"),
    [
        ("0", {}, "Say of at least one item how many."),
        ("-1", {}, "Write how many as a number"),
        ("9" * 5000, {}, "Write how many as a number"),
        ("4", {}, "quantity must be from 1 to 3"),
        ("1", {"reason": "because"}, "Say why the money goes back."),
        ("1", {"once": "x"}, "The form was incomplete."),
    ],
)
def test_a_form_that_cannot_be_right_says_why(
    written: Harness, units: str, more: dict[str, str], says: str
) -> None:
    told = ask(written.log_in(TESS), path(written), units, amount="$10.00", **more)
    assert (told.status_code, says in told.text) == (422, True)
    assert written.refunds() == ()


@ONE_DATABASE
def test_orders_of_others_and_unproven_customers_get_nothing(shop: Harness) -> None:
    shop.stock(order(**MUGS), order("W3001", customer={"email": GRACE, "name": "G"}))
    shop.write("A mug of order W1001 is broken.", aligned=False)
    tess = shop.log_in(TESS)
    assert tess.get(path(shop, "W3001")).status_code == 404
    assert ask(tess, path(shop, "W3001"), "1", "K1").status_code == 404
    told = ask(tess, path(shop), "1", amount="$10.00")
    assert "No mail here is proven to be the customer" in told.text
    assert shop.log_in(MONA).get(path(shop)).status_code == 403
    assert (shop.refunds(), thread(shop).customer_email) == ((), ADA)


@ONE_DATABASE
def test_nobody_refunds_their_own_order(shop: Harness) -> None:
    shop.stock(order(customer={"email": TESS, "name": "Tess"}, **MUGS))
    shop.write("A mug is broken.", from_address=TESS)
    told = ask(shop.log_in(TESS), path(shop), "1", amount="$10.00")
    assert (told.status_code, "your own order" in told.text) == (422, True)
    assert shop.refunds() == ()


@ONE_DATABASE
def test_the_page_says_how_old_an_order_of_the_shops_system_is(written: Harness) -> None:
    tess = written.log_in(TESS)
    assert "Order as of" not in tess.get(path(written)).text
    source = HttpOrderSource("http://127.0.0.1:9", "token")
    services.bind(replace(services.current(), order_source=source))
    assert "Order as of" in tess.get(path(written)).text


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Freshness.AWAY, "could not be looked up in the shop's system just now"),
        (Freshness.GONE, "does not have this order any more"),
        (Freshness.UNUSABLE, "sent a record of this order that cannot be used"),
        (Freshness.REFUSED, "sent a record of this order that cannot be used"),
    ],
)
def test_the_page_says_what_the_shops_system_answered(
    written: Harness, found: Freshness, says: str
) -> None:
    source = HttpOrderSource("http://127.0.0.1:9", "token")
    services.bind(replace(services.current(), order_source=source))
    age(written, "orders", "seen_at", hours=1)
    with written.live.database.transaction() as connection:
        problems.note(connection, "W1001", found, written.live.now())
    page = written.log_in(TESS).get(path(written)).text
    assert (says in page, page.count("This is how it was then")) == (True, 1)


@ONE_DATABASE
def test_a_second_click_does_not_wait_for_the_shops_system(written: Harness) -> None:
    tess, once = written.log_in(TESS), new_id("once")
    ask(tess, path(written), once=once, amount="$10.00")
    source = Provider(ProviderKind.ORDERS, "shop_api", "the shop", "ORDERS_API_TOKEN")
    live = services.current()
    services.bind(replace(live, providers=replace(live.providers, orders=source)))
    age(written, "orders", "seen_at", hours=1)
    began = time.monotonic()
    assert ask(tess, path(written), once=once, amount="$10.00").status_code == 303
    assert time.monotonic() - began < LOOK_UP_SECONDS
    assert len(written.refunds()) == 1
