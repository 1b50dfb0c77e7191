"""Handing over and back, replayed: a step that comes too late undoes nothing that people did since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mailagent import handback
from mailagent.store.mail import conversations, inbound
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.steps.conversation.people import (
    forward_team_replies,
    hand_over,
    pass_on_to_people,
)
from mailagent.workflows.steps.conversation.reply import write_reply
from tests.cast import TESS
from tests.harness import Harness
from tests.workflows.moves import person_move, reply_move

SPENT = {"model_turns": 1, "tokens": 1}


def thread(shop: Harness) -> Any:
    return shop.rows("SELECT * FROM conversations")[0]


def take(shop: Harness) -> Batch:
    batch = take_batch(thread(shop).conversation_id)
    assert batch is not None
    return batch


def give_to_people(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        conversations.hand_over(connection, thread(shop).conversation_id, "a test", shop.live.now())


def give_to_agent(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        handback.give_back(connection, thread(shop).conversation_id)


def asked_by_customer(shop: Harness) -> Batch:
    shop.write("Hello, is anybody there?")
    return take(shop)


def asked_again(shop: Harness) -> Batch:
    batch = asked_by_customer(shop)
    give_to_people(shop)
    return batch | {"task": "pass_on"}


def written_by_team(shop: Harness, *texts: str, subject: str = "Re: My order") -> Batch:
    """Let the team write into a conversation that it looks after."""
    hand_over(asked_by_customer(shop), person_move("CUSTOMER_ASKED"))
    door = f"team+{thread(shop).team_token}@shop.example"
    for text in texts:
        shop.write(text, from_address=TESS, from_name="Tess Team", to=door, subject=subject)
    return take(shop)


def everything(shop: Harness) -> list[object]:
    """Return every row that these steps could change."""
    tables = ("conversations", "inbound_mails", "outbound_mails", "audit")
    return [shop.rows(f"SELECT * FROM {table}") for table in tables]


HAND_OVER = pytest.param(
    asked_by_customer,
    lambda batch: hand_over(batch, person_move("CUSTOMER_ASKED")),
    give_to_agent,
    id="hand_over",
)
PASS_ON = pytest.param(asked_again, pass_on_to_people, give_to_agent, id="pass_on")
FORWARD = pytest.param(
    lambda shop: written_by_team(shop, "Dear Ada, I will call you.", "Back to the agent"),
    forward_team_replies,
    give_to_people,
    id="forward",
)


HOLD = pytest.param(
    lambda shop: written_by_team(shop, "I am away, call Max.", subject="I am on vacation"),
    forward_team_replies,
    give_to_agent,
    id="hold",
)


@pytest.mark.parametrize(("asked", "step", "since"), [HAND_OVER, PASS_ON, FORWARD, HOLD])
def test_a_replayed_step_changes_nothing_and_knows_its_mails(
    shop: Harness,
    asked: Callable[[Harness], Batch],
    step: Callable[[Batch], list[str]],
    since: Callable[[Harness], None],
) -> None:
    batch = asked(shop)
    written = step(batch)
    assert written
    since(shop)
    before = everything(shop)
    assert step(batch) == written
    assert everything(shop) == before


@pytest.mark.parametrize(("asked", "step", "since"), [HAND_OVER, PASS_ON])
def test_a_mail_that_was_dealt_with_elsewhere_is_not_given_to_people_again(
    shop: Harness,
    asked: Callable[[Harness], Batch],
    step: Callable[[Batch], list[str]],
    since: Callable[[Harness], None],
) -> None:
    batch = asked(shop)
    since(shop)
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE inbound_mails SET status = 'no_answer', no_answer_reason = 'a test'"
        )
    before = everything(shop)
    assert step(batch) == []
    assert everything(shop) == before


def test_a_replay_forwards_only_what_was_not_forwarded(shop: Harness) -> None:
    batch = written_by_team(shop, "Dear Ada, I will call you.", "It will be today.")
    half = batch | {"mail_ids": batch["mail_ids"][:1]}
    first = forward_team_replies(half)
    both = forward_team_replies(batch)
    assert both[:1] == first
    rows = shop.rows("SELECT 1 FROM outbound_mails WHERE purpose = 'team_reply'")
    assert (len(both), len(rows)) == (2, 2)


def test_a_batch_of_which_people_took_one_mail_gets_no_answer_of_the_agents(shop: Harness) -> None:
    first = shop.write("Hello, is anybody there?")
    shop.write("Hello again.", in_reply_to=first.message_id)
    batch = take(shop)
    assert len(batch["mail_ids"]) == 2
    with shop.live.database.transaction() as connection:
        inbound.leave_unanswered(connection, batch["mail_ids"][:1], "a test")
    write_reply(batch, reply_move(batch, "Good morning."), SPENT)
    assert shop.rows("SELECT 1 FROM outbound_mails") == []


def test_what_was_answered_stays_answered_when_a_stop_comes_late(shop: Harness) -> None:
    batch = asked_by_customer(shop)
    write_reply(batch, reply_move(batch, "Good morning."), SPENT)
    with shop.live.database.transaction() as connection:
        inbound.leave_unanswered(connection, batch["mail_ids"], "the loop guard stopped it")
    (mail,) = shop.rows("SELECT status, no_answer_reason FROM inbound_mails")
    assert (mail.status, mail.no_answer_reason) == ("answered", None)
