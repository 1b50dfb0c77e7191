"""Whose mail is whose: an answer is for what its author saw, and what the team wrote goes to the customer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mailagent.store.ids import new_id
from mailagent.store.mail import conversations, throttled
from mailagent.web.console import assignment
from mailagent.workflows.steps.conversation.batch import take_batch
from mailagent.workflows.steps.conversation.people import forward_team_replies, pass_on_to_people
from tests.cast import OLGA, TESS
from tests.handed_over import by_button, customer_mails, overdue, overdue_while_throttled, thread
from tests.harness import Harness
from tests.web.console.drafts import door, press


def answer(shop: Harness, up_to: str | None) -> None:
    """Let Tess answer what she saw."""
    with shop.live.database.transaction() as connection:
        conversation = conversations.lock(connection, thread(shop).conversation_id)
        once = new_id("once")
        assert assignment.answer(connection, conversation, TESS, "It comes today.", once, up_to)


def test_what_came_after_the_authors_look_is_passed_on_to_them(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    shop.write("And my invoice?", to=door(shop))
    seen, later = (mail.mail_id for mail in customer_mails(shop))
    answer(shop, up_to=seen)
    assert [mail.status for mail in customer_mails(shop)] == ["answered", "unanswered"]
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    assert (batch["task"], batch["mail_ids"]) == ("pass_on", [later])
    assert len(pass_on_to_people(batch)) == 1
    by_button(shop)  # she does not answer it, and the agent is to
    assert [mail.status for mail in customer_mails(shop)] == ["answered", "unanswered"]


@pytest.mark.parametrize("theirs", [overdue, overdue_while_throttled])
def test_mail_that_waited_too_long_is_answered_by_a_person(
    shop: Harness, theirs: Callable[[Harness], None]
) -> None:
    shop.write("Where is my parcel?")
    theirs(shop)
    answer(shop, up_to=None)
    (mail,) = customer_mails(shop)
    assert (mail.status, mail.no_answer_reason) == ("answered", None)
    by_button(shop)
    assert take_batch(thread(shop).conversation_id) is None


def test_what_a_person_answered_is_told_to_nobody_as_throttled(shop: Harness) -> None:
    shop.write("Where is my parcel?")
    (mail,) = customer_mails(shop)
    with shop.live.database.transaction() as connection:
        throttled.throttle_by_loop_guard(connection, [mail.mail_id])
    answer(shop, up_to=mail.mail_id)
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
