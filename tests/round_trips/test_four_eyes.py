"""A dear refund that two managers have to approve, from the mail to the receipt."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mailagent import services
from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.domain.refunds.policy import Policy
from tests.cast import ADA, DESK_WISH, MAX, MONA, big_order
from tests.harness import Harness, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet


@pytest.fixture
def careful_shop(busy_shop: Harness) -> Harness:
    """A shop in which more than a thousand dollars needs two managers, of three."""
    policy = Policy(four_eyes_above={"USD": 1_000_00})
    services.bind(replace(busy_shop.live, policy=policy))
    busy_shop.stock(big_order())
    return busy_shop


def ask(shop: Harness) -> str:
    shop.write(DESK_WISH)
    (request,) = shop.wait_for_mails(MONA)
    return link_in(request.text)


def test_two_managers_approve_and_then_it_is_paid(careful_shop: Harness) -> None:
    first = ask(careful_shop)
    assert "A second manager must approve it too" in decide(careful_shop, first, "approve")
    (second,) = careful_shop.wait_for_mails(MAX)
    assert second.subject.startswith("Second approval: refund $1,499.00?")
    assert MONA in second.text
    assert careful_shop.rows("SELECT * FROM ledger_entries") == []
    decide(careful_shop, link_in(second.text), "approve")
    refund = careful_shop.wait_for_refund("paid")
    assert (refund.four_eyes, refund.decided_by) == (True, MAX)
    mails = careful_shop.wait_for_mails(ADA, 2)
    assert any(str(refund.gateway_reference) in mail.text for mail in mails)
    wait_for_quiet(careful_shop)
    replay_all(careful_shop)
    assert len(careful_shop.rows("SELECT * FROM ledger_entries")) == 1
    assert (len(careful_shop.mails_to(MONA)), len(careful_shop.mails_to(MAX))) == (1, 1)
    assert len(careful_shop.mails_to(ADA)) == 2


@pytest.mark.parametrize(
    ("decision", "status", "told_of_the_first"),
    [("approve", "paid", True), ("reject", "rejected", False)],
)
def test_the_customer_reads_both_notes_of_an_approval_and_only_the_rejecters(
    careful_shop: Harness, decision: str, status: str, told_of_the_first: bool
) -> None:
    decide(
        careful_shop, ask(careful_shop), "approve", note="Sorry about the desk.", note_shared="yes"
    )
    (second,) = careful_shop.wait_for_mails(MAX)
    careful_shop.wait_for_mails(ADA)
    decide(careful_shop, link_in(second.text), decision, note="All the best.", note_shared="yes")
    careful_shop.wait_for_refund(status)
    _, told = careful_shop.wait_for_mails(ADA, 2)
    assert "> All the best." in told.text
    assert ("> Sorry about the desk." in told.text) is told_of_the_first


def replay_all(shop: Harness) -> None:
    """Run the refund's run again from every one of its steps."""
    workflow_client = shop.live.workflow_client
    (run,) = (each for each in workflow_client.runs.list_runs() if each.workflow == "refund")
    known = workflow_client.runs.find_run(run.run_id, with_steps=True)
    assert known is not None
    for step in reversed(known.steps):
        workflow_client.replays.replay_run(run.run_id, step.number)
        wait_for_quiet(shop)


def test_the_second_request_goes_to_whoever_is_there_and_else_to_whoever_is_left(
    busy_shop: Harness,
) -> None:
    third = "zoe@shop.example"
    shop = replace(busy_shop.live.shop, manager_emails=(MONA, MAX, third))
    policy = Policy(four_eyes_above={"USD": 1_000_00})
    services.bind(replace(busy_shop.live, policy=policy, shop=shop))
    busy_shop.stock(big_order())
    ask(busy_shop)
    busy_shop.report(busy_shop.mails_to(MONA)[0], "bounce")
    (request,) = busy_shop.wait_for_mails(MAX)  # asked in Mona's place, as the first
    decide(busy_shop, link_in(request.text), "approve")
    (second,) = busy_shop.wait_for_mails(third)  # not Mona, whom mail does not reach today
    assert len(busy_shop.mails_to(MONA)) == 1
    busy_shop.report(second, "bounce")
    _, again = busy_shop.wait_for_mails(MONA, 2)  # nobody else is left, and never Max again
    assert MAX in again.text
    assert len(busy_shop.mails_to(MAX)) == 1
    decide(busy_shop, link_in(again.text), "reject")
    assert busy_shop.wait_for_refund("rejected").decided_by == MONA
    wait_until(lambda: len(busy_shop.mails_to(ADA)) == 2, 20, "the answer and the outcome")


def test_never_mind_after_the_first_approval_ends_it_unpaid(careful_shop: Harness) -> None:
    decide(careful_shop, ask(careful_shop), "approve")
    (second,) = careful_shop.wait_for_mails(MAX)
    (told,) = careful_shop.wait_for_mails(ADA)
    careful_shop.write("Never mind, please forget about the refund.", to=told.reply_to)
    careful_shop.wait_for_refund("withdrawn")
    _, answer = careful_shop.wait_for_mails(ADA, 2)
    assert "withdrawn" in answer.text
    path = link_in(second.text).replace(careful_shop.live.shop.public_url, "")
    assert "Withdrawn by the customer" in careful_shop.client.get(path).text
    wait_for_quiet(careful_shop)
    assert {run.status for run in careful_shop.live.workflow_client.runs.list_runs()} == {"SUCCESS"}
    assert len(careful_shop.mails_to(ADA)) == 2
    assert careful_shop.rows("SELECT * FROM ledger_entries") == []


# --- nobody forgets -------------------------------------------------------------------------------


WISH = "The standing desk of order {} is damaged, please refund it."


def ask_for_refund(shop: Harness, manager: str, order_id: str = "W2001") -> SentMail:
    """Let Ada ask_for_refund for a dear refund; return what the manager gets."""
    before = len(shop.mails_to(manager))
    shop.stock(big_order(order_id))
    shop.write(WISH.format(order_id), subject=order_id)
    request = shop.wait_for_mails(manager, before + 1)[-1]
    wait_until(shop.at_rest, 20, "the answer to be sent")
    return request


def let_pass(shop: Harness, days: float) -> None:
    """Move the clock to so many days after the start, and have every refund looked at."""
    then = shop.live.now() + timedelta(days=days)
    services.bind(replace(shop.live, now=lambda: then))
    with shop.live.database.transaction() as connection:
        for refund in shop.refunds():
            shop.live.workflow_client.queue.enqueue_refund(
                connection, refund.refund_id, refund.run_id
            )


def test_it_is_reminded_of_then_passed_on_and_closed_in_the_end(busy_shop: Harness) -> None:
    request = ask_for_refund(busy_shop, MONA)
    let_pass(busy_shop, 1)
    reminder = busy_shop.wait_for_mails(MONA, 2)[1]
    assert reminder.subject.startswith("Reminder: refund $1,499.00?")
    assert reminder.reply_to == request.reply_to
    assert link_in(reminder.text) == link_in(request.text)
    assert busy_shop.mails_to(MAX) == []
    let_pass(busy_shop, 2)
    (passed_on,) = busy_shop.wait_for_mails(MAX)
    assert f"Also asked: {MONA} on" in passed_on.text
    assert f"Also asked: {MAX} on" in busy_shop.wait_for_mails(MONA, 3)[2].text
    let_pass(busy_shop, 7)
    busy_shop.wait_for_refund("expired")
    wait_for_quiet(busy_shop)
    for manager, count in ((MONA, 4), (MAX, 2)):
        told = busy_shop.wait_for_mails(manager, count)
        assert len(told) == count
        assert told[-1].subject.startswith("Closed without a decision: refund of $1,499.00")
    assert len(busy_shop.wait_for_mails(ADA, 2)) == 2
    page = busy_shop.client.get(link_in(request.text).partition(":8000")[2]).text
    assert "It is too late to decide" in page
    assert busy_shop.rows("SELECT * FROM ledger_entries") == []


def test_whoever_was_asked_first_still_decides_after_it_was_passed_on(busy_shop: Harness) -> None:
    request = ask_for_refund(busy_shop, MONA)
    let_pass(busy_shop, 2)
    busy_shop.wait_for_mails(MAX)
    decide(busy_shop, link_in(request.text), "approve")
    assert busy_shop.wait_for_refund("paid").decided_by == MONA


def test_whoever_is_away_is_skipped_now_and_next_time_and_a_reply_decides(
    busy_shop: Harness,
) -> None:
    request = ask_for_refund(busy_shop, MONA)
    busy_shop.write(
        "I am back on Monday.",
        from_address=MONA, to=request.reply_to, subject=f"Automatic reply: {request.subject}",
    )  # fmt: skip
    (first,) = busy_shop.wait_for_mails(MAX)
    second = ask_for_refund(busy_shop, MAX, "W2002")
    assert len(busy_shop.mails_to(MONA)) == 1
    for mail, words in ((first, "Approve\n\nWe owe her that."), (second, "Reject\n")):
        subject = f"Re: {mail.subject}"
        busy_shop.write(words, from_address=MAX, to=mail.reply_to, subject=subject)
    paid, rejected = busy_shop.wait_for_refund("paid"), busy_shop.wait_for_refund("rejected")
    assert (paid.order_id, paid.decided_by) == ("W2001", MAX)
    assert (rejected.order_id, rejected.decided_by) == ("W2002", MAX)
    outcomes = busy_shop.wait_for_mails(ADA, 4)
    assert not any("We owe her that" in mail.text for mail in outcomes)
    assert (
        len(busy_shop.wait_for_mails(MAX, 4)) == 4
    )  # two requests, and what became of his replies
    assert len(busy_shop.rows("SELECT * FROM ledger_entries")) == 1
