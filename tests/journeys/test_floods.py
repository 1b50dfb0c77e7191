"""Loops and floods: the fuse stops what nobody foresaw, budgets park mail and lose none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mailagent import services
from mailagent.domain.conversation import Limits
from mailagent.workflows.steps import sweep
from tests.cast import ADA, GRACE, TESS
from tests.stage import Stage, running, wait_until


def test_a_machine_without_any_sign_is_answered_a_few_times_only(busy_shop: Stage) -> None:
    to, answered = "support@shop.example", 0
    for _ in range(12):
        busy_shop.write("Thank you for your mail, we will be in touch.", to=to)
        wait_until(busy_shop.at_rest, 20, "the mail to be dealt with")
        mails = busy_shop.mails_to(ADA)
        if len(mails) == answered:
            break
        answered, to = len(mails), mails[-1].reply_to or to
    assert answered == Limits().answers_per_hour
    assert len(busy_shop.mails_to(TESS)) == 1
    busy_shop.write("Thank you for your mail, we will be in touch.", to=to)
    wait_until(busy_shop.at_rest, 20, "the last mail to be dealt with")
    last = busy_shop.rows("SELECT * FROM inbound_mails ORDER BY received_at DESC")[0]
    assert "fuse" in last.no_answer_reason
    assert len(busy_shop.mails_to(ADA)) == answered
    assert len(busy_shop.mails_to(TESS)) == 1


def test_a_machine_that_opens_new_threads_is_stopped_too(shop: Stage) -> None:
    services.bind(replace(shop.live, limits=Limits(answers_to_sender_per_hour=3)))
    with running(shop):
        for number in range(6):
            shop.write("Out to lunch", subject=f"Automatic {number}")
            wait_until(shop.at_rest, 20, "the mail to be dealt with")
        assert len(shop.mails_to(ADA)) == 3


@pytest.fixture
def small_shop(shop: Stage) -> Stage:
    """A shop that takes three mails an hour of one sender, five in all."""
    shop.live = replace(shop.live, limits=Limits(mails_of_sender_per_hour=3, mails_per_hour=5))
    services.bind(shop.live)
    return shop


def statuses(shop: Stage, address: str) -> list[str]:
    rows = shop.rows(
        "SELECT status FROM inbound_mails WHERE from_address = :a ORDER BY mail_id", a=address
    )
    return [row.status for row in rows]


def test_a_flood_is_parked_and_delays_no_one_else(small_shop: Stage) -> None:
    for number in range(5):
        small_shop.write(f"Spam {number}", subject=f"s{number}")
    assert statuses(small_shop, ADA) == ["unanswered"] * 3 + ["parked"] * 2
    reasons = small_shop.rows("SELECT no_answer_reason FROM inbound_mails WHERE status = 'parked'")
    assert all("3 mails an hour from this sender" in row.no_answer_reason for row in reasons)


def test_a_flood_of_many_senders_is_parked_too(small_shop: Stage) -> None:
    for number in range(5):
        small_shop.write("Hello", from_address=f"c{number}@example.com", subject=f"s{number}")
    small_shop.write("Hello", from_address=GRACE)
    assert statuses(small_shop, GRACE) == ["parked"]


def test_parked_mail_is_let_in_bit_by_bit(small_shop: Stage) -> None:
    for number in range(5):
        small_shop.write(f"Mail {number}", subject=f"s{number}")
    assert sweep.release_parked_mail() == 0  # not before an hour has passed
    now = small_shop.live.now() + timedelta(minutes=61)
    services.bind(replace(small_shop.live, now=lambda: now))
    assert sweep.release_parked_mail() == 1
    assert statuses(small_shop, ADA) == ["unanswered"] * 4 + ["parked"]
    assert sweep.release_parked_mail() == 1
    assert sweep.release_parked_mail() == 0


def test_months_later_an_old_thread_is_looked_at_afresh(shop: Stage) -> None:
    first = shop.write("My kettle", subject="kettle")
    for days, threads in ((59, 1), (59 + 61, 2)):
        now = shop.live.now() + timedelta(days=days)
        services.bind(replace(shop.live, now=lambda now=now: now))  # type: ignore[misc]  # bound early
        shop.write("And now", subject=f"after {days}", in_reply_to=first.message_id)
        assert len(shop.rows("SELECT * FROM conversations")) == threads
