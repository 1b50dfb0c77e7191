"""Processes that play samples: they ask who plays the customer, and one that breaks is replaced."""

from __future__ import annotations

from mailagent.evals.customer import Message
from mailagent.evals.episode import Agent
from mailagent.evals.pool import Pool
from mailagent.evals.task import Task, read_file
from tests.evals.conftest import MEASURE

LAZY = Agent("scripted:lazy", {})


def paid() -> Task:
    task = next(iter(read_file(MEASURE)))
    return task.model_copy(update={"card": "Your kettle from W1001 is broken."})


def test_a_model_plays_the_customer_from_the_other_process(worlds: Pool) -> None:
    asked: list[list[Message]] = []

    def ask(role: str, messages: list[Message]) -> str:
        assert role == "customer"
        asked.append(messages)
        return "DONE" if len(asked) > 1 else "And what about order W7777?"

    record = worlds.play(paid(), LAZY, ask=ask)
    assert record.letters == (paid().turns[0].mail, "And what about order W7777?")
    assert record.invented == ("W7777",)
    assert "Thank you for your message." in asked[0][-1]["content"]


def test_a_customer_that_cannot_be_asked_breaks_one_sample_only(worlds: Pool) -> None:
    def ask(_role: str, _messages: list[Message]) -> str:
        raise RuntimeError("no credit")

    assert worlds.play(paid(), LAZY, ask=ask).error == "the sample broke: RuntimeError: no credit"
    records = [worlds.play(paid(), LAZY) for _ in range(2)]
    assert [record.error for record in records] == ["", ""]
