"""Conversations that people look after: the team answers by plain mail, and gives them back."""

from __future__ import annotations

import pytest

from tests.cast import ADA, MALLORY, TESS
from tests.harness import Harness, wait_until
from tests.round_trips.replays import facts, wait_for_quiet
from tests.tool_calls import calls


def handed_over(shop: Harness) -> str:
    """Have a conversation handed over; return the address that the team answers to."""
    shop.faults.openai.append(calls("hand_over", reason="cannot_help", summary="Too hard."))
    shop.write("Where is my order W1001?")
    (case,) = shop.wait_for_mails(TESS)
    assert case.reply_to is not None
    assert case.reply_to.startswith("team+")
    return case.reply_to


def status(shop: Harness) -> str:
    return str(shop.rows("SELECT status FROM conversations ORDER BY opened_at")[0].status)


def test_a_plain_reply_goes_to_the_customer_in_the_thread(busy_shop: Harness) -> None:
    door = handed_over(busy_shop)
    busy_shop.write(
        "Dear Ada, I am sorry. I will call you today.",
        from_address=TESS, from_name="Tess Team", to=door, subject="Re: Please take over",
    )  # fmt: skip
    told = busy_shop.wait_for_mails(ADA, 2)[1]
    assert "I will call you today." in told.text
    assert "Tess Team" in told.text
    assert told.subject == "Re: My order"
    assert told.from_address == "support@shop.example"
    assert TESS not in told.text
    (row,) = busy_shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'team_reply'")
    assert row.auto_submitted == "no"
    assert status(busy_shop) == "handed_over"


def test_nobody_else_can_answer_for_the_team(busy_shop: Harness) -> None:
    door = handed_over(busy_shop)
    for sender, aligned in ((MALLORY, True), (TESS, False), (ADA, True)):
        busy_shop.write("Send me all the money.", from_address=sender, aligned=aligned, to=door)
    rows = busy_shop.rows("SELECT * FROM inbound_mails WHERE kind = 'team'")
    assert {row.status for row in rows} == {"no_answer"}
    assert all("not provably by the team" in row.no_answer_reason for row in rows)
    assert len(busy_shop.mails_to(ADA)) == 1
    notice = busy_shop.wait_for_mails(TESS, 2)[1]
    assert MALLORY in notice.text
    assert busy_shop.mails_to(MALLORY) == []


def test_one_word_gives_the_conversation_back_with_what_nobody_answered(busy_shop: Harness) -> None:
    door = handed_over(busy_shop)
    (told,) = busy_shop.wait_for_mails(ADA)
    busy_shop.write("Which orders do I have?", to=told.reply_to)
    assert "Which orders do I have?" in busy_shop.wait_for_mails(TESS, 2)[1].text
    assert len(busy_shop.mails_to(ADA)) == 1
    busy_shop.write("Back to the agent.\n", from_address=TESS, to=door)
    assert len(busy_shop.wait_for_mails(ADA, 2)) == 2
    assert status(busy_shop) == "open"
    busy_shop.write("And what did I pay?", to=told.reply_to)
    assert len(busy_shop.wait_for_mails(ADA, 3)) == 3


def test_a_greeting_below_the_word_does_not_reach_the_customer(busy_shop: Harness) -> None:
    door = handed_over(busy_shop)
    busy_shop.write(
        "agent\n\nBest regards,\nTess Team",
        from_address=TESS, to=door, subject="Re: Please take over",
    )  # fmt: skip
    assert "Tess Team" not in busy_shop.wait_for_mails(ADA, 2)[1].text  # the agent's
    assert status(busy_shop) == "open"


@pytest.mark.parametrize(
    ("text", "subject", "why"),
    [
        ("I am away until Monday, call Max.", "I am on vacation", "its subject"),
        ("agent\n\nAsk her for a photo first.", "Re: Please take over", "says more"),
    ],
)
def test_words_that_may_be_internal_are_held_and_the_team_is_told(
    busy_shop: Harness, text: str, subject: str, why: str
) -> None:
    door = handed_over(busy_shop)
    busy_shop.write(text, from_address=TESS, to=door, subject=subject)
    notice = busy_shop.wait_for_mails(TESS, 2)[1]
    assert notice.subject == f"A reply of {TESS} did not go to the customer"
    assert why in notice.text
    assert "leave its subject as it is" in notice.text
    wait_for_quiet(busy_shop)
    assert len(busy_shop.mails_to(ADA)) == 1
    assert status(busy_shop) == "handed_over"
    (row,) = busy_shop.rows("SELECT * FROM inbound_mails WHERE kind = 'team'")
    assert row.status == "no_answer"
    assert why in row.no_answer_reason


def test_a_replay_does_not_give_back_what_was_handed_over_since(busy_shop: Harness) -> None:
    door = handed_over(busy_shop)
    busy_shop.write("Back to the agent", from_address=TESS, to=door)
    wait_until(lambda: status(busy_shop) == "open", 20, "the agent to have it back")
    busy_shop.write(
        "Enough! I want to talk to a human being, now!", to=busy_shop.mails_to(ADA)[0].reply_to
    )
    wait_until(lambda: status(busy_shop) == "handed_over", 20, "people to have it")
    workflow_client = busy_shop.live.workflow_client
    wait_for_quiet(busy_shop)
    (given,) = (
        run
        for run in workflow_client.runs.list_runs()
        if run.output == "forwarded the team's words"
    )
    before = facts(busy_shop)
    for from_step in (2, None):
        workflow_client.replays.replay_run(given.run_id, from_step)
        wait_for_quiet(busy_shop)
        assert status(busy_shop) == "handed_over"
    assert facts(busy_shop) == before
