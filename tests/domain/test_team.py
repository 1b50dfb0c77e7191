"""What a team member's mail means: both sides of every rule."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.reply_commands import TeamCommand, decide_team_command

CASE = ("My kettle leaks", "Please take over: Ada Example, My kettle leaks")


@pytest.mark.parametrize("words", ["agent", "@agent", "Back to the agent.", "BACK TO AGENT!"])
@pytest.mark.parametrize(
    "below",
    [
        "",
        "\n\nBest regards,\nTess Team",
        "\n\nThanks!\nTess\n",
        "\nKind regards\nTess Team\nShop Support\nShop Ltd.\n+1 555 0100\nshop.example",
    ],
)
def test_one_line_above_a_greeting_gives_it_back(words: str, below: str) -> None:
    meant = decide_team_command(f"\n{words}{below}", "any subject", CASE)
    assert meant is TeamCommand.FOR_AGENT


@pytest.mark.parametrize(
    "below",
    [
        "Please ask her for the photo.",
        "Could you ask her?",
        "she has written to us three times now",
        "1\n2\n3\n4\n5\n6\n7",
    ],
)
def test_what_says_more_to_the_agent_is_for_nobody(below: str) -> None:
    assert decide_team_command(f"agent\n\n{below}", CASE[0], CASE) is TeamCommand.HELD_AGENT


@pytest.mark.parametrize("text", ["Our agent will call you.", "Hello\nagent", "agents", ""])
def test_a_line_that_only_speaks_of_the_agent_is_for_the_customer(text: str) -> None:
    assert decide_team_command(text, CASE[0], CASE) is TeamCommand.FOR_CUSTOMER


@pytest.mark.parametrize(
    "subject",
    [
        "My kettle leaks",
        "RE: my  kettle LEAKS",
        "AW: Antw: Re[2]: My kettle leaks",
        "Re: Please take over: Ada Example, My kettle leaks",
        "[EXTERNAL] Re: Please take over: Ada Example, My kettle leaks",
        "Re: [EXTERNAL] Please take over: Ada Example, My kettle leaks",
        "Re: Please take over: Ada Exam",
        "Re: Please take over",
        "SV：My kettle leaks (order W1001)",
    ],
)
def test_an_answer_with_the_subject_of_the_case_is_for_the_customer(subject: str) -> None:
    assert decide_team_command("I will call you.", subject, CASE) is TeamCommand.FOR_CUSTOMER


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "Re:",
        "I am on vacation",
        "Out of office",
        "Automatic reply: Please take over: Ada Example, My kettle leaks",
        "Abwesenheitsnotiz: My kettle leaks",
        "My kett",
        "Re: Automatic reply: My kettle leaks",
    ],
)
def test_an_answer_with_a_subject_of_its_own_is_held(subject: str) -> None:
    assert decide_team_command("I am away, call Max.", subject, CASE) is TeamCommand.HELD_SUBJECT


def test_a_case_without_a_subject_can_be_answered() -> None:
    assert decide_team_command("I will call you.", "Re: ", ("",)) is TeamCommand.FOR_CUSTOMER
