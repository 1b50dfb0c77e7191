"""Giving a conversation back: the agent answers what became people's, for whatever reason, and nobody
answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from mailagent import services
from mailagent.demo.scripted_model import Phrase
from mailagent.domain.operations.run_about import hash_customer
from mailagent.store import schema
from mailagent.store.ids import new_id
from mailagent.store.mail import assignments, conversations
from mailagent.workflows.steps.conversation import people
from mailagent.workflows.steps.conversation.batch import take_batch
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.steps.maintenance import housekeeping, sweep
from tests.cast import ADA, TESS
from tests.handed_over import (
    by_button,
    customer_mails,
    handed_over,
    overdue,
    overdue_while_throttled,
    thread,
    write_for_team,
)
from tests.harness import Harness, pass_time
from tests.web.console.drafts import SPENT, field, press
from tests.workflows.moves import person_move, reply_move


def passed_on(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, thread(shop).conversation_id, "a test", shop.live.now())
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    assert people.pass_on_to_people(batch)


def by_mail(shop: Harness) -> None:
    write_for_team(shop, "Back to the agent")


WAYS = pytest.mark.parametrize(
    ("became_theirs", "given_back"),
    [
        pytest.param(overdue, by_button, id="overdue by button"),
        pytest.param(overdue, by_mail, id="overdue by mail"),
        pytest.param(overdue_while_throttled, by_button, id="throttled by button"),
        pytest.param(passed_on, by_mail, id="passed on by mail"),
    ],
)


@WAYS
def test_the_agent_answers_what_became_peoples(
    shop: Harness, became_theirs: Callable[[Harness], None], given_back: Callable[[Harness], None]
) -> None:
    shop.write("Where is my parcel?")
    became_theirs(shop)
    (left,) = customer_mails(shop)
    assert (left.status, thread(shop).status) in (
        ("no_answer", "handed_over"),
        ("answered", "handed_over"),  # that a person takes over
    )
    given_back(shop)
    (mail,) = customer_mails(shop)
    assert (mail.status, mail.no_answer_reason, thread(shop).status) == (
        "unanswered", None, "open",
    )  # fmt: skip
    assert mail.run_id != left.run_id
    run = shop.live.workflow_client.runs.find_run(mail.run_id)
    assert run is not None
    assert run.is_active
    assert sweep.enqueue_mail() == 0  # it has waited for hours, but not for the agent
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    assert (batch["task"], batch["mail_ids"]) == ("answer", [mail.mail_id])


def test_what_the_team_answered_by_mail_stays_answered(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    overdue(shop)
    write_for_team(shop, "Dear Ada, it comes today.")
    by_mail(shop)
    assert [mail.status for mail in customer_mails(shop)] == ["answered"]


@pytest.mark.parametrize(
    ("then", "status"),
    [
        ([], "no_answer"),
        (["reopen"], "unanswered"),
        (["mail"], "no_answer"),
        (["mail", "snooze", "reopen"], "no_answer"),
        (["mail", "close", "reopen"], "no_answer"),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_what_a_person_closed_stays_settled_unless_they_reopen_it(
    shop: Harness, then: list[str], status: str
) -> None:
    first = shop.write("I want my money back.")
    passed_on(shop)
    tess, conversation_id = shop.log_in(TESS), thread(shop).conversation_id
    for act in ["close", *then]:
        if act == "mail":
            shop.write("Do you ship to Poland?", in_reply_to=first.message_id)
            passed_on(shop)
            continue
        seen = field(tess.get(f"/ops/conversations/{conversation_id}").text, "seen")
        assert press(tess, conversation_id, act, seen=seen, **{"for": "1d"}).status_code == 303
    by_button(shop)
    assert [mail.status for mail in customer_mails(shop)] == [
        status, *["unanswered"] * ("mail" in then),
    ]  # fmt: skip


def test_people_are_told_again_of_mail_that_they_gave_back_and_that_is_theirs_again(
    shop: Harness,
) -> None:
    told = "SELECT * FROM outbound_mails WHERE purpose = 'hand_over'"
    shop.write("Where is my parcel?")
    passed_on(shop)
    by_mail(shop)
    assert len(shop.rows(told)) == 1
    passed_on(shop)  # before the agent could answer
    assert [mail.status for mail in customer_mails(shop)] == ["no_answer"]
    assert len(shop.rows(told)) == 2


@pytest.mark.parametrize(
    ("answered", "progress", "statuses"),
    [
        (0, "open", ["answered", "unanswered"]),
        (1, "pending", ["answered", "no_answer"]),
        (None, "pending", ["answered", "no_answer"]),
    ],
    ids=["the first case", "the second case", "no case that its headers name"],
)
def test_what_came_while_the_team_wrote_its_answer_stays_in_the_inbox_and_is_the_agents(
    shop: Harness, answered: int | None, progress: str, statuses: list[str]
) -> None:
    first = shop.write("Where is my parcel?")
    overdue(shop)
    shop.write("And which orders do I have?", in_reply_to=first.message_id)
    passed_on(shop)
    cases = shop.rows(
        "SELECT * FROM outbound_mails WHERE purpose = 'hand_over' ORDER BY created_at"
    )
    assert len(cases) == 2
    case = None if answered is None else cases[answered].message_id
    write_for_team(shop, "Dear Ada, it comes today.", in_reply_to=case)
    assert thread(shop).progress == progress
    by_mail(shop)
    assert [mail.status for mail in customer_mails(shop)] == statuses
    assert thread(shop).status == "open"


def test_what_came_after_the_last_case_is_the_agents(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    overdue(shop)
    shop.write("Hello?", in_reply_to=customer_mails(shop)[0].message_id)
    with shop.live.database.transaction() as connection:
        assignments.leave(connection, thread(shop).conversation_id)
    write_for_team(shop, "Dear Ada, it comes today.")
    by_mail(shop)
    assert [mail.status for mail in customer_mails(shop)] == ["answered", "unanswered"]


def test_mail_in_the_customers_name_that_is_not_proven_is_given_back_too(shop: Harness) -> None:
    first = shop.write("Where is my parcel?")
    shop.write("And my invoice?", in_reply_to=first.message_id, aligned=False)
    conversation_id = thread(shop).conversation_id
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, conversation_id, "a test", shop.live.now())
        assignments.leave(connection, conversation_id)
    by_button(shop)
    mails = customer_mails(shop)
    assert [mail.status for mail in mails] == ["unanswered"] * 2
    runs = [shop.live.workflow_client.runs.find_run(mail.run_id) for mail in mails]
    partitions = [run.partition_key for run in runs if run is not None and run.is_active]
    assert partitions == [hash_customer(ADA), f"{hash_customer(ADA)}-unproven"]


def test_people_are_told_again_if_the_agent_still_cannot_answer(shop: Harness) -> None:
    told = "SELECT * FROM outbound_mails WHERE purpose = 'hand_over'"
    shop.write("Where is my parcel?")
    overdue(shop)
    by_button(shop)
    assert len(shop.rows(told)) == 1
    later = shop.live.now() + timedelta(hours=5)
    services.bind(replace(shop.live, now=lambda: later))
    assert sweep.enqueue_mail() == 1
    assert thread(shop).status == "handed_over"
    assert len(shop.rows(told)) == 2


# --- conversations whose texts were deleted ---------------------------------------------------------


def texts_deleted(shop: Harness) -> None:
    """Let 40 days pass, and delete the texts of the conversation, as `MAIL_DAYS=30` says."""
    with shop.live.database.transaction() as connection:
        connection.execute(schema.outbound_mails.update().values(status="sent"))
    live = services.current()
    services.bind(replace(live, retention=replace(live.retention, mail_days=30)))
    pass_time(shop, days=40)
    shop.live = services.current()
    assert housekeeping.purge_content() == 1


def test_a_late_case_is_answered_by_mail(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    handed_over(shop)
    texts_deleted(shop)
    shop.write("Any news?", to=f"case+{thread(shop).reply_token}@shop.example")
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    (case,) = people.pass_on_to_people(batch)
    (mail,) = shop.rows("SELECT * FROM outbound_mails WHERE outbound_id = :id", id=case)
    write_for_team(shop, "Dear Ada, it comes today.", subject=f"Re: {mail.subject}")
    (sent,) = shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'team_reply'")
    assert "it comes today" in sent.text


def test_a_late_case_is_given_back_by_mail_without_what_was_deleted(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    handed_over(shop)
    texts_deleted(shop)
    shop.write("Any news?", to=f"case+{thread(shop).reply_token}@shop.example")
    passed_on(shop)
    by_mail(shop)
    mails = customer_mails(shop)
    assert [(mail.status, mail.body.strip()) for mail in mails] == [
        ("answered", ""),
        ("unanswered", "Any news?"),
    ]
    assert thread(shop).status == "open"


# --- mail whose customer was told that a person takes over ------------------------------------------


def answers_to(shop: Harness) -> list[str]:
    return [each.text for each in shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'reply'")]


@pytest.mark.parametrize("given_back", [by_button, by_mail])
@pytest.mark.parametrize("why", ["PROVIDER_DOWN", "CUSTOMER_ASKED", "REPLY_NOT_TRUE"])
def test_the_agent_answers_what_it_had_handed_over(
    shop: Harness, why: str, given_back: Callable[[Harness], None]
) -> None:
    shop.write("Where is my parcel?")
    handed_over(shop, why)
    (told,) = customer_mails(shop)
    assert (told.status, thread(shop).status) == ("answered", "handed_over")
    given_back(shop)
    (mail,) = customer_mails(shop)
    assert (mail.status, mail.answered_by, thread(shop).status) == ("unanswered", None, "open")
    run = shop.live.workflow_client.runs.find_run(mail.run_id)
    assert run is not None
    assert run.is_active
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    write_reply(batch, reply_move(batch, Phrase("welcome")), SPENT)
    assert customer_mails(shop)[0].status == "answered"
    assert len(answers_to(shop)) == 2
    write_reply(batch, reply_move(batch, Phrase("welcome")), SPENT)
    by_button(shop)
    assert take_batch(thread(shop).conversation_id) is None
    assert len(answers_to(shop)) == 2


def test_a_late_replay_does_not_hand_over_again_what_people_gave_back(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    batch = handed_over(shop)
    by_button(shop)
    people.hand_over(batch, person_move("PROVIDER_DOWN"))
    assert (customer_mails(shop)[0].status, thread(shop).status) == ("unanswered", "open")


def test_what_is_handed_over_again_is_told_again(shop: Harness) -> None:
    told = "SELECT * FROM outbound_mails WHERE purpose = 'hand_over'"
    shop.write("A human, please!")
    handed_over(shop, "CUSTOMER_ASKED")
    by_button(shop)
    handed_over(shop, "CUSTOMER_ASKED")
    assert thread(shop).status == "handed_over"
    assert (len(shop.rows(told)), len(answers_to(shop))) == (2, 2)
    assert customer_mails(shop)[0].status == "answered"


def test_what_was_handed_over_and_answered_by_people_stays_answered(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    handed_over(shop)
    write_for_team(shop, "Dear Ada, it comes today.")
    shop.write("And my invoice?", to=f"case+{thread(shop).reply_token}@shop.example")
    passed_on(shop)
    by_mail(shop)
    assert [mail.status for mail in customer_mails(shop)] == ["answered", "unanswered"]


def test_what_was_handed_over_and_answered_at_the_console_stays_answered(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    handed_over(shop)
    (told,) = customer_mails(shop)
    client, conversation_id = shop.log_in(TESS), thread(shop).conversation_id
    press(client, conversation_id, "answer", text="It comes today.", once=new_id("once"))
    by_button(shop)
    (mail,) = customer_mails(shop)
    assert (mail.status, thread(shop).status) == ("answered", "open")
    assert mail.answered_by != told.answered_by
