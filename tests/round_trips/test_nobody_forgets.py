"""A refund that waits: reminded of, passed on, decided by reply, closed; and whoever is away is skipped."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from mailagent import services
from mailagent.demo.fakes.mailboxes import SentMail
from tests.cast import ADA, MAX, MONA, big_order
from tests.harness import Harness, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet

WISH = "The standing desk of order {} is damaged, please refund it."


def ask(shop: Harness, manager: str, order_id: str = "W2001") -> SentMail:
    """Let Ada ask for a dear refund; return what the manager gets."""
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
    request = ask(busy_shop, MONA)
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
        assert told[-1].subject.startswith("Closed without a decision: refund of 1499.00 USD")
    assert len(busy_shop.wait_for_mails(ADA, 2)) == 2
    page = busy_shop.client.get(link_in(request.text).partition(":8000")[2]).text
    assert "It is too late to decide" in page
    assert busy_shop.rows("SELECT * FROM ledger_entries") == []


def test_whoever_was_asked_first_still_decides_after_it_was_passed_on(busy_shop: Harness) -> None:
    request = ask(busy_shop, MONA)
    let_pass(busy_shop, 2)
    busy_shop.wait_for_mails(MAX)
    decide(busy_shop, link_in(request.text), "approve")
    assert busy_shop.wait_for_refund("paid").decided_by == MONA


def test_whoever_is_away_is_skipped_now_and_next_time_and_a_reply_decides(
    busy_shop: Harness,
) -> None:
    request = ask(busy_shop, MONA)
    busy_shop.write(
        "I am back on Monday.",
        from_address=MONA, to=request.reply_to, subject=f"Automatic reply: {request.subject}",
    )  # fmt: skip
    (first,) = busy_shop.wait_for_mails(MAX)
    second = ask(busy_shop, MAX, "W2002")
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
