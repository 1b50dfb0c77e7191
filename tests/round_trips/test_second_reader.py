"""The second reader gets the words alone; it can refuse them, and never holds a reply up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mailagent import services
from mailagent.demo.scripted_model import Fact
from mailagent.domain.operations.circuit_breaker import Failure, Provider
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.store.operations import circuit_breakers
from mailagent.workflows.steps.conversation import second_reader
from tests.cast import ADA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_calls import says
from tests.workflows.camera import batch_of
from tests.workflows.moves import reply_move

# How a verdict is read does not depend on the database.
pytestmark = ONE_DATABASE

WORDS = "Hello Ada, thank you for your mail."


class Reader:
    """A second reader with verdicts, and what it was asked."""

    def __init__(self, *verdicts: dict[str, Any]) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[str] = []

    def ask(
        self,
        instructions: str,
        items: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        cache_key: str,
        customer_hash: str,
        text: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        assert tools == []
        assert text is second_reader._FORMAT
        self.asked.append(items[0]["content"])
        usage = {"input": 10, "output": 1}
        return {"model": "cheap", "usage": usage, **self.verdicts.pop(0)}


def states(kind: str) -> dict[str, Any]:
    return {"kind": "done", "text": json.dumps({"states": kind}), "calls": []}


@pytest.fixture(autouse=True)
def bound_again(shop: Harness) -> Iterator[None]:
    yield
    services.bind(shop.live)


def read_by(shop: Harness, *verdicts: dict[str, Any]) -> Reader:
    reader = Reader(*verdicts)
    services.bind(replace(shop.live, check_model=reader))
    return reader


def test_it_reads_the_words_and_not_the_customers_mail(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    reader = read_by(busy_shop, states("nothing"))
    busy_shop.faults.openai.append(says(WORDS, Fact("order/W1001")))
    busy_shop.write("Secret: where is W1001?")
    assert WORDS in busy_shop.wait_for_mails(ADA)[0].text
    assert [json.loads(asked) for asked in reader.asked] == [[WORDS]]
    assert busy_shop.rows("SELECT 1 FROM model_calls WHERE model = 'cheap'")


def test_words_that_it_refuses_are_composed_again_and_then_given_to_a_person(
    busy_shop: Harness,
) -> None:
    read_by(busy_shop, states("money"), states("deed"))
    busy_shop.faults.openai += [says(WORDS), says("Hello Ada!")]
    busy_shop.write("Hello")
    busy_shop.wait_for_mails(TESS)
    assert WORDS not in busy_shop.wait_for_mails(ADA)[0].text


def test_without_a_verdict_the_reply_goes_out(busy_shop: Harness) -> None:
    outcomes: list[dict[str, Any]] = [
        {"kind": "retry", "why": "away", "after_seconds": None},
        {"kind": "operator", "why": "no such model"},
        {"kind": "done", "text": "fine!", "calls": []},
        {"kind": "done", "text": '{"states": "weather"}', "calls": []},
    ]
    for number, outcome in enumerate(outcomes, 1):
        read_by(busy_shop, outcome)
        busy_shop.faults.openai.append(says(WORDS))
        busy_shop.write("Hello", subject=f"Mail {number}")
        assert WORDS in busy_shop.wait_for_mails(ADA, number)[-1].text


def test_facts_alone_need_no_reader(busy_shop: Harness) -> None:
    reader = read_by(busy_shop)
    busy_shop.faults.openai.append(says(Fact("support_address")))
    busy_shop.write("Hello")
    busy_shop.wait_for_mails(ADA)
    assert reader.asked == []


def test_it_is_not_asked_beyond_the_limits_or_while_the_model_is_away(shop: Harness) -> None:
    batch = batch_of(shop)
    move = reply_move(batch, WORDS)
    reader = read_by(shop, *[states("nothing")] * 5)
    services.bind(replace(services.current(), pace=RateLimit(requests=1)))
    for _ in range(5):
        assert second_reader.find_doubts(batch, move) == []
    asked = len(reader.asked)
    assert asked < 5
    services.bind(replace(services.current(), pace=RateLimit()))
    with shop.live.database.transaction() as connection:
        for _ in range(10):
            failure = Failure("away")
            now = shop.live.now()
            circuit_breakers.record_failure(connection, Provider.OPENAI, failure, now, False)
    assert second_reader.find_doubts(batch, move) == []
    assert len(reader.asked) == asked
