"""Loops and floods: the loop guard stops what nobody foresaw, budgets park mail and lose none."""

from __future__ import annotations

import json
from dataclasses import replace
from email.utils import format_datetime
from typing import Any

import pytest

from mailagent import handback, mailers, services
from mailagent.demo.fakes.mailboxes import MailContent
from mailagent.domain.mail.conversation import Limits
from mailagent.store import audit
from mailagent.store.mail import conversations, inbound
from mailagent.store.mail.arrivals import UNCONFIRMED
from mailagent.store.operations import incidents
from mailagent.web.webhooks import threading
from mailagent.workflows.steps.conversation import people
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.steps.maintenance import flood
from tests.adapters.parse_requests import letter, raw_request
from tests.cast import ADA, GRACE, TESS
from tests.harness import Harness, code_in, pass_time, running, wait_until


def test_a_machine_that_opens_new_threads_is_stopped_too(shop: Harness) -> None:
    services.bind(replace(shop.live, limits=Limits(answers_to_sender_per_hour=3)))
    with running(shop):
        for number in range(6):
            shop.write("Out to lunch", subject=f"Automatic {number}")
            wait_until(shop.at_rest, 20, "the mail to be dealt with")
        assert len(shop.mails_to(ADA)) == 3


@pytest.fixture
def small_shop(shop: Harness) -> Harness:
    """A shop that takes three mails an hour of one sender, five in all."""
    shop.live = replace(shop.live, limits=Limits(mails_of_sender_per_hour=3, mails_per_hour=5))
    services.bind(shop.live)
    return shop


def statuses(shop: Harness, address: str) -> list[str]:
    rows = shop.rows(
        "SELECT status FROM inbound_mails WHERE from_address = :a ORDER BY mail_id", a=address
    )
    return [row.status for row in rows]


def test_a_flood_is_throttled_and_delays_no_one_else(small_shop: Harness) -> None:
    for number in range(5):
        small_shop.write(f"Spam {number}", subject=f"s{number}")
    assert statuses(small_shop, ADA) == ["unanswered"] * 3 + ["throttled"] * 2
    reasons = small_shop.rows(
        "SELECT no_answer_reason FROM inbound_mails WHERE status = 'throttled'"
    )
    assert all("3 mails an hour from this sender" in row.no_answer_reason for row in reasons)


def test_a_flood_of_many_senders_is_throttled_too(small_shop: Harness) -> None:
    for number in range(5):
        small_shop.write("Hello", from_address=f"c@shop{number}.example", subject=f"s{number}")
    small_shop.write("Hello", from_address=GRACE)
    assert statuses(small_shop, GRACE) == ["throttled"]


def test_throttled_mail_is_let_in_bit_by_bit(small_shop: Harness) -> None:
    for number in range(5):
        small_shop.write(f"Mail {number}", subject=f"s{number}")
    assert flood.release_throttled_mail() == 0  # not before an hour has passed
    pass_time(small_shop, minutes=61)
    assert flood.release_throttled_mail() == 1
    assert statuses(small_shop, ADA) == ["unanswered"] * 4 + ["throttled"]
    assert flood.release_throttled_mail() == 1
    assert flood.release_throttled_mail() == 0


# --- forged mail ----------------------------------------------------------------------------------


def test_forged_mail_uses_up_no_budget_of_its_alleged_sender(small_shop: Harness) -> None:
    for number in range(9):
        small_shop.write(f"Forged {number}", subject=f"f{number}", aligned=False)
    assert statuses(small_shop, ADA) == ["unanswered"] + ["throttled"] * 8
    honest = small_shop.write("My kettle leaks.")
    assert row_of(small_shop, honest).status == "unanswered"


def test_forged_mail_of_many_names_throttles_no_proven_mail(small_shop: Harness) -> None:
    for number in range(9):
        small_shop.write("Hi", from_address=f"c{number}@example.com", aligned=False)
    honest = small_shop.write("My kettle leaks.", from_address=GRACE)
    assert row_of(small_shop, honest).status == "unanswered"


def test_whoever_answers_the_confirmation_counts_as_proven(small_shop: Harness) -> None:
    first = small_shop.write("My kettle leaks.", aligned=False)
    answered(small_shop, first)
    for number in range(5):
        small_shop.write(f"Forged {number}", subject=f"f{number}", aligned=False)
    (mail,) = small_shop.rows("SELECT * FROM outbound_mails")
    assert mail.reply_to.startswith("confirm+")
    confirmed = small_shop.write(f"That was me: {code_in(mail)}", to=mail.reply_to, aligned=False)
    assert row_of(small_shop, confirmed).status == "unanswered"


def test_who_writes_by_the_shops_contact_form_is_asked_and_then_answered(
    shop: Harness,
) -> None:
    form = "forms@shop.example"
    addresses = replace(shop.live.shop, form_senders=(form,))
    shop.live = replace(shop.live, shop=addresses)
    services.bind(shop.live)
    filled_in = letter(
        "Name: Ada\nMessage: Which orders do I have?",
        From=f"WordPress <{form}>",
        Reply_To=f"Ada Example <{ADA}>",
        Date=format_datetime(shop.live.now()),
        DKIM_Signature="",
    )
    with running(shop):
        posted = shop.post_inbound(raw_request(filled_in, dkim="none", envelope_from=form))
        assert posted.status_code == 200
        (asked,) = shop.wait_for_mails(ADA)
        shop.write("That was me.", to=asked.reply_to, aligned=False)
        shop.wait_for_mails(ADA, 2)


def test_one_confirmation_goes_to_an_address_in_a_day(busy_shop: Harness) -> None:
    first = busy_shop.write("Refund my order", subject="Pay at evil.example", aligned=False)
    wait_until(lambda: len(busy_shop.mails_to(ADA)) == 1, 20, "the confirmation to be sent")
    for number in range(3):
        busy_shop.write("Forged", subject=f"f{number}", aligned=False)
    busy_shop.write("Once more in its thread", aligned=False, in_reply_to=first.message_id)
    wait_until(busy_shop.at_rest, 20, "the mails to be dealt with")
    assert len(busy_shop.mails_to(ADA)) == 1
    reasons = busy_shop.rows(
        "SELECT no_answer_reason AS why FROM inbound_mails WHERE status = 'throttled'"
    )
    assert {row.why for row in reasons} == {UNCONFIRMED}
    with busy_shop.live.database.snapshot() as connection:
        assert incidents.count_throttled(connection) == 0  # no operator is told
    answer_to = busy_shop.mails_to(ADA)[0].reply_to
    busy_shop.write(
        "Why do you ask?", to=answer_to, aligned=False
    )  # only that mailbox knows this address
    wait_until(lambda: len(busy_shop.mails_to(ADA)) == 2, 20, "the question to be answered")


def test_a_mail_that_waits_for_a_confirmation_is_let_in_after_it(shop: Harness) -> None:
    first, second = (shop.write(f"My kettle {n}", subject=f"s{n}", aligned=False) for n in range(2))
    answered(shop, first)
    pass_time(shop, hours=2)
    assert flood.let_in() == 0
    (mail,) = shop.rows("SELECT * FROM outbound_mails")
    shop.write(f"It was me: {code_in(mail)}", to=mail.reply_to, aligned=False)
    assert flood.let_in() == 1
    assert row_of(shop, second).status == "unanswered"


def test_a_day_later_an_address_is_asked_again_once(shop: Harness) -> None:
    answered(shop, shop.write("Hi", subject="s0", aligned=False))
    pass_time(shop, hours=25)
    mails = [shop.write("Hi", subject=f"s{n}", aligned=False) for n in range(1, 3)]
    assert [row_of(shop, mail).status for mail in mails] == ["unanswered", "throttled"]


def test_a_mail_that_is_never_confirmed_goes_to_people(shop: Harness) -> None:
    first, second = (shop.write("Hi", subject=f"s{n}", aligned=False) for n in range(2))
    answered(shop, first)
    pass_time(shop, hours=5)
    assert flood.release_throttled_mail() == 0
    assert conversation_of(shop, second).status == "handed_over"
    assert [row.to_address for row in shop.rows("SELECT to_address FROM outbound_mails")] == [
        ADA,
        TESS,
    ]


def row_of(shop: Harness, written: MailContent) -> Any:
    statement = "SELECT * FROM inbound_mails WHERE message_id = :id"
    return shop.rows(statement, id=written.message_id)[0]


def answered(shop: Harness, written: MailContent) -> None:
    """Let the agent have answered a mail."""
    row = row_of(shop, written)
    with services.current().database.transaction() as connection:
        conversation = conversations.load(connection, row.conversation_id)
        mails = inbound.list_by_id(connection, [row.mail_id])
        reader = mailers.reader_of(connection, conversation, mails)
        outbound_id = mailers.write_reply(reader, mails, mailers.Letter("Dear Ada, yes.", "en"))
        inbound.answer(connection, [row.mail_id], outbound_id)


def case_address(shop: Harness, written: MailContent) -> str:
    conversation_id = row_of(shop, written).conversation_id
    statement = "SELECT reply_token FROM conversations WHERE conversation_id = :id"
    return f"case+{shop.rows(statement, id=conversation_id)[0].reply_token}@shop.example"


def task_of(shop: Harness, written: MailContent) -> str:
    batch = take_batch(row_of(shop, written).conversation_id)
    assert batch is not None
    return batch["task"]


def write_and_answer(shop: Harness, count: int, **changes: Any) -> MailContent:
    """Let a thread have `count` mails, all answered; return the first."""
    first = shop.write("Number 0", **changes)
    answered(shop, first)
    for number in range(1, count):
        answered(
            shop, shop.write(f"Number {number}", **{"to": case_address(shop, first)} | changes)
        )
    return first


def test_forged_answers_blow_no_loop_guard_for_the_real_customer(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        threading, "_why_unconfirmed", lambda *_: None
    )  # it comes before the loop guard
    for number in range(Limits().answers_to_sender_per_hour):
        answered(shop, shop.write("Forged", subject=f"f{number}", aligned=False))
    forged, honest = shop.write("Forged", aligned=False), shop.write("Honest", subject="My kettle")
    assert task_of(shop, forged) == "stop"
    assert task_of(shop, honest) == "answer"


def test_forged_answers_in_a_thread_leave_it_to_its_customer(shop: Harness) -> None:
    honest = write_and_answer(shop, 1)
    case = case_address(shop, honest)
    for number in range(Limits().answers_per_hour):
        answered(shop, shop.write(f"Forged {number}", to=case, aligned=False))
    forged = shop.write("Forged once more", to=case, aligned=False)
    stop(shop, forged)
    assert conversation_of(shop, forged).status == "handed_over"
    again = shop.write("It is me again.", to=case)
    assert task_of(shop, again) == "answer"
    assert conversation_of(shop, again).status == "open"


def stop(shop: Harness, written: MailContent) -> list[str]:
    batch = take_batch(row_of(shop, written).conversation_id)
    assert batch is not None
    assert batch["task"] == "stop"
    return people.stop_loop(batch)


def conversation_of(shop: Harness, written: MailContent) -> Any:
    statement = "SELECT * FROM conversations WHERE conversation_id = :id"
    return shop.rows(statement, id=row_of(shop, written).conversation_id)[0]


# --- after the loop guard has tripped ---------------------------------------------------------------------


@pytest.fixture
def tripped(shop: Harness) -> MailContent:
    """A thread whose loop guard has tripped, and the mail that was the first without an answer."""
    first = write_and_answer(shop, Limits().answers_per_hour)
    last = shop.write("One too many", to=case_address(shop, first))
    assert len(stop(shop, last)) == 1
    assert row_of(shop, last).status == "no_answer"
    return last


def test_a_replay_of_a_blown_loop_guard_takes_nothing_back_from_the_agent(
    shop: Harness, tripped: MailContent
) -> None:
    row = row_of(shop, tripped)
    with shop.live.database.transaction() as connection:
        handback.give_back(connection, row.conversation_id)
        audit.record(connection, shop.live.now(), TESS, audit.GIVEN_BACK, row.conversation_id)
    batch: Batch = {
        "conversation_id": row.conversation_id,
        "mail_ids": [row.mail_id],
        "verified": True,
        "task": "stop",
    }
    (letter,) = to_team(shop)  # it may not have been sent yet
    assert people.stop_loop(batch) == [letter.outbound_id]
    assert len(to_team(shop)) == 1
    assert conversation_of(shop, tripped).status == "open"
    assert row_of(shop, tripped).status == "unanswered"


def to_team(shop: Harness) -> list[Any]:
    return shop.rows(
        "SELECT * FROM outbound_mails WHERE to_address = :a ORDER BY created_at", a=TESS
    )


def test_people_hear_once_an_hour_of_what_came_after_the_loop_guard(
    shop: Harness, tripped: MailContent
) -> None:
    later = [shop.write(f"Later {n}", to=case_address(shop, tripped)) for n in range(3)]
    for written in later[:1]:
        assert stop(shop, written) == []  # it takes the whole batch
    assert {row_of(shop, written).status for written in later} == {"throttled"}
    pass_time(shop, minutes=59)
    assert flood.release_throttled_mail() == 0
    assert len(to_team(shop)) == 1
    pass_time(shop, minutes=61)
    assert flood.release_throttled_mail() == 0
    _first, second = to_team(shop)
    assert "Later 2" in second.text
    assert "3)" in second.text
    assert {row_of(shop, written).status for written in later} == {"no_answer"}
    flood.release_throttled_mail()
    assert len(to_team(shop)) == 2


@pytest.mark.parametrize(("hours", "task"), [(23, "stop"), (25, "answer")])
def test_the_loop_guard_cools_down_after_a_quiet_day(
    shop: Harness, tripped: MailContent, hours: int, task: str
) -> None:
    pass_time(shop, hours=hours)
    later = shop.write("Is anybody there?", to=case_address(shop, tripped))
    assert task_of(shop, later) == task
    status = "open" if task == "answer" else "handed_over"
    assert conversation_of(shop, later).status == status


def test_a_machine_that_goes_on_keeps_the_loop_guard_blown(
    shop: Harness, tripped: MailContent
) -> None:
    pass_time(shop, hours=20)
    for number in range(Limits().answers_per_hour):
        stop(shop, shop.write(f"Again {number}", to=case_address(shop, tripped)))
    pass_time(shop, hours=25)
    assert task_of(shop, shop.write("And again", to=case_address(shop, tripped))) == "stop"


def test_the_team_can_set_the_loop_guard_back(shop: Harness, tripped: MailContent) -> None:
    conversation = conversation_of(shop, tripped)
    pass_time(shop, minutes=5)
    to = f"team+{conversation.team_token}@shop.example"
    shop.write("agent", from_address=TESS, to=to)
    batch = take_batch(conversation.conversation_id)
    assert batch is not None
    people.forward_team_replies(batch)
    assert task_of(shop, shop.write("Hello?", to=case_address(shop, tripped))) == "answer"


def test_what_the_loop_guard_stopped_is_the_agents_again_once_given_back(
    shop: Harness, tripped: MailContent
) -> None:
    later = shop.write("Later", to=case_address(shop, tripped))
    stop(shop, later)  # people have yet to be told of it
    conversation_id = row_of(shop, tripped).conversation_id
    with shop.live.database.transaction() as connection:
        handback.give_back(connection, conversation_id)
        audit.record(connection, shop.live.now(), TESS, audit.GIVEN_BACK, conversation_id)
    assert {row_of(shop, each).status for each in (tripped, later)} == {"unanswered"}
    batch = take_batch(conversation_id)
    assert batch is not None
    assert (batch["task"], len(batch["mail_ids"])) == ("answer", 2)


def test_what_the_loop_guard_stopped_before_it_cooled_down_is_not_brought_up_again(
    shop: Harness, tripped: MailContent
) -> None:
    pass_time(shop, hours=25)
    answered(shop, shop.write("Is anybody there?", to=case_address(shop, tripped)))
    conversation_id = row_of(shop, tripped).conversation_id
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, conversation_id, "a test", shop.live.now())
        handback.give_back(connection, conversation_id)
    assert row_of(shop, tripped).status == "no_answer"


def test_what_the_team_has_taken_up_stays_with_it(shop: Harness, tripped: MailContent) -> None:
    conversation = conversation_of(shop, tripped)
    to = f"team+{conversation.team_token}@shop.example"
    shop.write("I will call you.", from_address=TESS, to=to)
    batch = take_batch(conversation.conversation_id)
    assert batch is not None
    people.forward_team_replies(batch)
    pass_time(shop, hours=25)
    assert task_of(shop, shop.write("Thank you", to=case_address(shop, tripped))) == "pass_on"


# --- throttled mail waits for no more than its time --------------------------------------------------


def park(shop: Harness, threads: int) -> list[MailContent]:
    """Use up Ada's budget, and let these many threads of hers be throttled."""
    for number in range(3):
        answered(shop, shop.write("Hello", subject=f"a{number}"))
    return [shop.write(f"Throttled {n}", subject=f"p{n}") for n in range(threads)]


def test_throttled_mail_whose_time_is_up_goes_to_people(small_shop: Harness) -> None:
    (throttled,) = park(small_shop, 1)
    overdue = small_shop.live.waits.unanswered_seconds
    pass_time(small_shop, seconds=overdue - 1)
    flood.give_overdue_to_people()
    assert row_of(small_shop, throttled).status == "throttled"
    pass_time(small_shop, seconds=overdue + 1)
    assert flood.release_throttled_mail() == 0
    assert row_of(small_shop, throttled).status == "no_answer"
    assert conversation_of(small_shop, throttled).status == "handed_over"
    (told,) = to_team(small_shop)
    assert "Throttled 0" in told.text
    flood.release_throttled_mail()
    assert len(to_team(small_shop)) == 1


@pytest.mark.parametrize("threads", [flood.CASES_PER_HOUR, flood.CASES_PER_HOUR + 1])
def test_a_mass_of_throttled_mail_is_told_in_one_notice_an_hour(
    small_shop: Harness, threads: int
) -> None:
    many = threads > flood.CASES_PER_HOUR
    throttled = park(small_shop, threads)
    pass_time(small_shop, hours=5)
    flood.release_throttled_mail()
    assert {row_of(small_shop, each).status for each in throttled} == {"no_answer"}
    told = to_team(small_shop)
    assert len(told) == (1 if many else threads)
    if many:
        assert f"{threads} mails of a flood" in told[0].subject
        assert f"{threads} from {ADA}" in told[0].text
        path = "/ops/search?kind=mails&state=no_answer"
        assert path in told[0].text
        page = small_shop.log_in(TESS).get(path).text
        for each in throttled:
            assert str(row_of(small_shop, each).conversation_id) in page


def test_the_next_notice_of_a_flood_comes_in_the_next_hour(small_shop: Harness) -> None:
    start = small_shop.live.now().replace(minute=10)
    small_shop.live = replace(small_shop.live, now=lambda: start)
    services.bind(small_shop.live)
    park(small_shop, flood.CASES_PER_HOUR + 1)
    pass_time(small_shop, minutes=1)
    more = [small_shop.write(f"More {n}", subject=f"m{n}") for n in range(30)]
    pass_time(small_shop, hours=4)
    flood.release_throttled_mail()
    pass_time(small_shop, hours=4, minutes=2)
    flood.release_throttled_mail()
    assert len(to_team(small_shop)) == 1
    assert "throttled" in {row_of(small_shop, each).status for each in more}
    pass_time(small_shop, hours=5)
    flood.release_throttled_mail()
    assert len(to_team(small_shop)) == 2
    assert "throttled" not in {row_of(small_shop, each).status for each in more}


def test_throttled_mail_is_counted_in_the_list(small_shop: Harness) -> None:
    (throttled,) = park(small_shop, 1)
    shown = small_shop.app.test_cli_runner().invoke(args=["conversations", "list", "--json"])
    counts = {each["conversation_id"]: each["throttled"] for each in json.loads(shown.output)}
    assert counts.pop(row_of(small_shop, throttled).conversation_id) == 1
    assert set(counts.values()) == {0}


def test_months_later_an_old_thread_is_looked_at_afresh(shop: Harness) -> None:
    first = shop.write("My kettle", subject="kettle")
    for days, threads in ((59, 1), (59 + 61, 2)):
        pass_time(shop, days=days)
        shop.write("And now", subject=f"after {days}", in_reply_to=first.message_id)
        assert len(shop.rows("SELECT * FROM conversations")) == threads
