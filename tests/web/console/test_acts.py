"""Taking a conversation over, answering in it and giving it back: each once, whatever is pressed twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mailagent.demo.scripted_model import Phrase
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.draft import LONGEST_ANSWER
from mailagent.store import ids
from mailagent.store.ids import new_id
from mailagent.store.mail import assignments, conversations, throttled
from mailagent.web.console.conversations import assignment
from mailagent.workflows.steps.conversation.batch import take_batch
from mailagent.workflows.steps.conversation.people import forward_team_replies, pass_on_to_people
from mailagent.workflows.steps.conversation.reply import write_reply
from mailagent.workflows.steps.maintenance.sweep import enqueue_mail
from tests.cast import ADA, OLGA, TESS
from tests.databases import ONE_DATABASE
from tests.handed_over import by_button, customer_mails, overdue, overdue_while_throttled, thread
from tests.harness import Harness
from tests.web.console.drafts import SPENT, age, door, field, mail_statuses, press
from tests.workflows.moves import reply_move


def write(harness: Harness, text: str = "Hello, is anybody there?") -> str:
    harness.write(text)
    return str(thread(harness).conversation_id)


def answers(harness: Harness) -> list[Any]:
    return harness.rows("SELECT * FROM outbound_mails WHERE purpose = 'team_reply'")


def actions(harness: Harness) -> list[tuple[str, str]]:
    rows = harness.rows("SELECT * FROM audit WHERE actor LIKE '%@shop.example' ORDER BY audit_id")
    return [(row.actor, row.action) for row in rows]


def test_taking_over_stops_the_agent_in_the_middle_of_its_work(shop: Harness) -> None:
    conversation_id = write(shop)
    batch = take_batch(conversation_id)
    assert batch is not None
    response = press(shop.log_in(TESS), conversation_id, "take-over")
    assert (response.status_code, response.location) == (
        303, f"/ops/conversations/{conversation_id}",
    )  # fmt: skip
    assert (
        write_reply(batch, reply_move(batch, Phrase("ask_what_to_do")), SPENT)["outbound_ids"] == []
    )
    assert shop.rows("SELECT * FROM outbound_mails") == []
    conversation = thread(shop)
    assert (conversation.status, conversation.handed_over_reason, conversation.owner_email) == (
        "handed_over", "a person took over", TESS,
    )  # fmt: skip
    assert actions(shop) == [(TESS, "conversation taken over")]


def test_of_two_who_take_over_the_first_has_it_and_the_other_may_ask_for_it(shop: Harness) -> None:
    conversation_id = write(shop)
    press(shop.log_in(TESS), conversation_id, "take-over", owner="")
    press(shop.log_in(TESS), conversation_id, "take-over", owner="")
    press(shop.log_in(OLGA), conversation_id, "take-over", owner="")
    assert thread(shop).owner_email == TESS
    press(shop.log_in(OLGA), conversation_id, "take-over", owner=TESS)
    assert thread(shop).owner_email == OLGA
    assert actions(shop) == [(TESS, "conversation taken over"), (OLGA, "conversation taken over")]


def test_a_persons_answer_goes_out_once_signed_in_the_thread(shop: Harness) -> None:
    conversation_id = write(shop)
    client, once = shop.log_in(TESS), new_id("once")
    press(client, conversation_id, "take-over")
    for _ in range(2):
        press(client, conversation_id, "answer", text="Dear Ada,\r\nI am here.", once=once)
    (mail,) = answers(shop)
    assert actions(shop) == [(TESS, "conversation taken over"), (TESS, "customer answered")]
    assert "I am here." in mail.text
    assert "Tess" in mail.text
    assert (mail.to_address, mail.subject, mail.auto_submitted) == (ADA, "Re: My order", "no")
    assert mail.in_reply_to is not None
    (asked,) = shop.rows("SELECT * FROM inbound_mails")
    assert (asked.status, asked.answered_by) == ("answered", mail.outbound_id)
    press(client, conversation_id, "answer", text="And one more thing.", once=new_id("once"))
    assert len(answers(shop)) == 2


def test_whoever_answers_for_the_agent_takes_over(shop: Harness) -> None:
    conversation_id = write(shop)
    press(shop.log_in(TESS), conversation_id, "answer", text="I am here.", once=new_id("once"))
    assert thread(shop).owner_email == TESS
    assert mail_statuses(shop) == ["answered"]
    assert take_batch(conversation_id) is None


@pytest.mark.parametrize(
    ("text", "once", "says"),
    [
        ("  ", "once_0123456789abcdefghjkmnpqrs", "There is nothing in it"),
        ("x" * (LONGEST_ANSWER + 1), "once_0123456789abcdefghjkmnpqrs", "10,000 are the most"),
        ("I am here.", "", "The form was incomplete"),
    ],
    ids=["empty", "too long", "no id"],
)
def test_an_answer_that_cannot_be_sent_comes_back_with_its_words(
    shop: Harness, text: str, once: str, says: str
) -> None:
    response = press(shop.log_in(TESS), write(shop), "answer", text=text, once=once)
    assert response.status_code == 422
    assert says in response.text
    assert text.strip() in response.text
    assert (answers(shop), thread(shop).status) == ([], "open")


def test_who_was_overtaken_reads_it_first_and_may_send_all_the_same(shop: Harness) -> None:
    conversation_id = write(shop)
    tess, olga = shop.log_in(TESS), shop.log_in(OLGA)
    page = tess.get(f"/ops/conversations/{conversation_id}").text
    form = {"text": "It comes on Monday.", "once": new_id("once"), "seen": field(page, "seen")}
    press(olga, conversation_id, "answer", text="It is lost, I fear.", once=new_id("once"))
    shop.write("Is anybody there?", to=door(shop))
    for _ in range(2):
        told = press(tess, conversation_id, "answer", **form)
        assert told.status_code == 409
        for shown in (
            form["text"], "It is lost, I fear.", "Is anybody there?", f"{OLGA} is assigned to it now",
            "Send it all the same",
        ):  # fmt: skip
            assert shown in told.text, shown
        assert "Hello, is anybody there?" not in told.text
    assert len(answers(shop)) == 1
    again = {**form, "seen": field(told.text, "seen"), "once": field(told.text, "once")}
    for _ in range(2):
        assert press(tess, conversation_id, "answer", **again).status_code == 303
    assert [form["text"] in mail.text for mail in answers(shop)] == [False, True]


def test_a_mail_is_news_although_a_machines_clock_gave_the_mail_before_a_later_id(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = time.time_ns() + 60_000_000_000
    monkeypatch.setattr(ids, "time", SimpleNamespace(time_ns=lambda: ahead))
    conversation_id = write(shop)
    monkeypatch.setattr(ids, "time", time)
    tess = shop.log_in(TESS)
    page = tess.get(f"/ops/conversations/{conversation_id}").text
    shop.write("Wait, please cancel it!", to=door(shop))
    form = {"text": "It comes on Monday.", "once": new_id("once"), "seen": field(page, "seen")}
    told = press(tess, conversation_id, "answer", **form)
    assert (told.status_code, "Wait, please cancel it!" in told.text) == (409, True)
    assert "Hello, is anybody there?" not in told.text
    again = {**form, "seen": field(told.text, "seen"), "once": field(told.text, "once")}
    assert press(tess, conversation_id, "answer", **again).status_code == 303
    assert {mail.status for mail in customer_mails(shop)} == {"answered"}


def test_what_the_agent_did_meanwhile_overtakes_too_and_a_forged_sight_is_none(
    shop: Harness,
) -> None:
    conversation_id = write(shop)
    client = shop.log_in(TESS)
    seen = field(client.get(f"/ops/conversations/{conversation_id}").text, "seen")
    batch = take_batch(conversation_id)
    assert batch is not None
    write_reply(batch, reply_move(batch, Phrase("ask_what_to_do")), SPENT)
    for saw in (seen, "", "x", "|||", "\0|a|b|c", "9" * 700 + "|0||", "|" * 700):
        fields = {"text": "I am here.", "once": new_id("once"), "seen": saw}
        told = press(client, conversation_id, "answer", **fields)
        assert (told.status_code, "What can we do for you?" in told.text) == (409, True), saw
    assert (answers(shop), thread(shop).status) == ([], "open")


@ONE_DATABASE
def test_taking_over_keeps_what_was_typed(shop: Harness) -> None:
    conversation_id = write(shop)
    tess, olga, once = shop.log_in(TESS), shop.log_in(OLGA), new_id("once")
    page = tess.get(f"/ops/conversations/{conversation_id}").text
    assert f'formaction="/ops/conversations/{conversation_id}/take-over"' in page
    form = {"text": "Dear Ada <3", "once": once, "seen": field(page, "seen"), "owner": ""}
    for _ in range(2):
        kept = press(tess, conversation_id, "take-over", **form)
        assert (kept.status_code, thread(shop).owner_email) == (200, TESS)
        assert "Dear Ada &lt;3</textarea>" in kept.text
        assert "What happened meanwhile" not in kept.text
    late = press(olga, conversation_id, "take-over", **form)
    assert (late.status_code, thread(shop).owner_email) == (409, TESS)
    assert "Dear Ada &lt;3</textarea>" in late.text
    assert f"{TESS} is assigned to it now" in late.text
    assert answers(shop) == []
    sent = {name: field(kept.text, name) for name in ("once", "seen")}
    assert sent["once"] == once
    assert press(tess, conversation_id, "answer", text="Dear Ada", **sent).status_code == 303


def test_giving_back_lets_the_agent_answer_what_nobody_answered(shop: Harness) -> None:
    conversation_id = write(shop)
    client = shop.log_in(TESS)
    press(client, conversation_id, "take-over")
    assert mail_statuses(shop) == ["no_answer"]
    age(shop, "inbound_mails", "received_at", hours=9)
    for _ in range(2):
        press(client, conversation_id, "give-back")
    conversation = thread(shop)
    assert (conversation.status, conversation.owner_email) == ("open", None)
    assert mail_statuses(shop) == ["unanswered"]
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert mail.wake_ups == 1
    assert shop.live.workflow_client.runs.find_run(mail.run_id) is not None
    enqueue_mail()  # it has waited for nine hours, but not for the agent
    batch = take_batch(conversation_id)
    assert batch is not None
    assert batch["task"] == "answer"
    assert actions(shop)[-1] == (TESS, "conversation given back")
    assert len(actions(shop)) == 2


def test_giving_back_leaves_what_a_person_answered(shop: Harness) -> None:
    conversation_id = write(shop)
    client = shop.log_in(TESS)
    press(client, conversation_id, "answer", text="I am here.", once=new_id("once"))
    press(client, conversation_id, "give-back")
    assert mail_statuses(shop) == ["answered"]
    assert take_batch(conversation_id) is None


def test_giving_back_leaves_what_was_answered_by_mail(shop: Harness) -> None:
    conversation_id = write(shop)
    client = shop.log_in(TESS)
    press(client, conversation_id, "take-over")
    team = f"team+{thread(shop).team_token}@shop.example"
    shop.write("I am here.", from_address=TESS, to=team, subject="Re: My order")
    batch = take_batch(conversation_id)
    assert batch is not None
    assert len(forward_team_replies(batch)) == 1
    press(client, conversation_id, "give-back")
    assert mail_statuses(shop) == ["no_answer"]
    assert take_batch(conversation_id) is None


@pytest.mark.parametrize(("owner", "readers"), [(OLGA, [OLGA]), ("left@shop.example", [TESS])])
def test_the_owner_alone_hears_of_later_mail_while_they_work_here(
    shop: Harness, owner: str, readers: list[str]
) -> None:
    conversation_id = write(shop)
    press(shop.log_in(OLGA), conversation_id, "take-over")
    with shop.live.database.transaction() as connection:
        now = shop.live.now()
        conversations.hand_over(connection, conversation_id, "a test", now, owner_email=owner)
    shop.write("Hello?", to=door(shop))
    batch = take_batch(conversation_id)
    assert batch is not None
    pass_on_to_people(batch)
    told = shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'hand_over'")
    assert [row.to_address for row in told] == readers


def test_an_operator_who_took_over_may_answer_by_mail(shop: Harness) -> None:
    conversation_id = write(shop)
    press(shop.log_in(OLGA), conversation_id, "take-over")
    team = f"team+{thread(shop).team_token}@shop.example"
    shop.write("I am here.", from_address=OLGA, to=team)
    (mail,) = shop.rows("SELECT * FROM inbound_mails WHERE kind = 'team'")
    assert mail.status == "unanswered"


# --- taking over ----------------------------------------------------------------------------------


def handed_over(shop: Harness, why: HandOverReason) -> str:
    """Let Ada write to a conversation that people have; return its id."""
    conversation_id = write(shop)
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, conversation_id, why.value, shop.live.now())
        assignments.leave(connection, conversation_id)
    return conversation_id


@ONE_DATABASE
@pytest.mark.parametrize("act", ["take-over", "assign"])
@pytest.mark.parametrize("is_answered", [False, True], ids=["waits", "answered"])
def test_a_new_owner_changes_nothing_else_of_what_people_have(
    shop: Harness, act: str, is_answered: bool
) -> None:
    conversation_id = handed_over(shop, HandOverReason.NOT_IN_KNOWLEDGE)
    age(shop, "conversations", "handed_over_at", hours=72)
    if is_answered:
        answer(shop)
    before = thread(shop)
    assert before.progress == ("pending" if is_answered else "open")
    press(shop.log_in(TESS), conversation_id, act, owner="" if act == "take-over" else TESS)
    assert thread(shop)._asdict() == {**before._asdict(), "owner_email": TESS}


@pytest.mark.parametrize("act", ["take-over", "assign"])
def test_the_agent_does_not_take_what_the_loop_guard_stopped_from_its_owner(
    shop: Harness, act: str
) -> None:
    conversation_id = handed_over(shop, HandOverReason.LOOP_DETECTED)
    press(shop.log_in(TESS), conversation_id, act, owner="" if act == "take-over" else TESS)
    shop.write("Is anybody there?", to=door(shop))
    batch = take_batch(conversation_id)
    assert batch is not None
    assert (batch["task"], thread(shop).owner_email) == ("pass_on", TESS)


def answer(shop: Harness) -> None:
    """Let Tess answer all that there is."""
    with shop.live.database.transaction() as connection:
        conversation = conversations.lock(connection, thread(shop).conversation_id)
        once = new_id("once")
        assignment.answer(connection, conversation, TESS, "It comes today.", once)


@pytest.mark.parametrize("theirs", [overdue, overdue_while_throttled])
def test_mail_that_waited_too_long_is_answered_by_a_person(
    shop: Harness, theirs: Callable[[Harness], None]
) -> None:
    shop.write("Where is my parcel?")
    theirs(shop)
    answer(shop)
    (mail,) = customer_mails(shop)
    assert (mail.status, mail.no_answer_reason) == ("answered", None)
    by_button(shop)
    assert take_batch(thread(shop).conversation_id) is None


def test_what_a_person_answered_is_told_to_nobody_as_throttled(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    (mail,) = customer_mails(shop)
    with shop.live.database.transaction() as connection:
        throttled.throttle_by_loop_guard(connection, [mail.mail_id])
        assert len(throttled.list_conversations_in_loop(connection, 10)) == 1
    answer(shop)
    with shop.live.database.snapshot() as connection:
        assert throttled.list_conversations_in_loop(connection, 10) == []


@pytest.mark.parametrize("act", ["take-over", "answer"])
def test_a_colleagues_mail_still_goes_to_the_customer(shop: Harness, act: str) -> None:
    shop.write("Where is my parcel?")
    conversation_id = thread(shop).conversation_id
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, conversation_id, "a test", shop.live.now())
    team = f"team+{thread(shop).team_token}@shop.example"
    shop.write("I call you today.", from_address=TESS, to=team, subject="Re: My order")
    once = new_id("once")
    press(shop.log_in(OLGA), conversation_id, act, owner="", text="Hello Ada.", once=once)
    batch = take_batch(conversation_id)
    assert batch is not None
    assert batch["task"] == "forward"
    assert len(forward_team_replies(batch)) == 1
