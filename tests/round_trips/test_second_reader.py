"""The second reader gets the words alone. Without its verdict none is sent, and no reply waits for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.agent.reply.composition import parse
from mailagent.demo.scripted_model import Fact, Say
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.domain.operations.provider import OPENAI
from mailagent.domain.operations.rate_limit import RateLimit
from mailagent.domain.operations.run_about import hash_customer
from mailagent.store.operations import circuit_breakers, model_calls
from mailagent.workflows.steps.conversation import second_reader
from mailagent.workflows.steps.recording import at_work
from tests.cast import ADA, TESS, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_calls import WHICH_ORDER, says
from tests.workflows.camera import batch_of

# How a verdict is read does not depend on the database.
pytestmark = ONE_DATABASE

WORDS = "Thank you for your mail, Ada."


class Reader:
    """A second reader with verdicts, and what it was asked."""

    def __init__(self, *verdicts: dict[str, Any]) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[str] = []
        self.customers: list[str] = []

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
        self.customers.append(customer_hash)
        usage = {"input": 10, "output": 1}
        return {"model": "cheap", "usage": usage, **self.verdicts.pop(0)}


class Writer:
    """A model that asks a question, and what it was told: instructions and schema."""

    told = ("", "")

    def ask(self, instructions: str, *rest: Any) -> dict[str, Any]:
        self.told = (instructions, str(rest[-1]))
        text, usage = Say([WHICH_ORDER]).text, {"input": 10, "output": 1}
        return {
            "kind": "done",
            "model": "m",
            "text": text,
            "calls": [],
            "items": [],
            "usage": usage,
        }


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
    assert reader.customers == [hash_customer(ADA)]  # as the main model is told


def test_the_model_is_offered_words_where_somebody_reads_them(busy_shop: Harness) -> None:
    for number, reader in enumerate((None, Reader()), 1):
        writer = Writer()
        services.bind(replace(busy_shop.live, model=writer, check_model=reader))
        busy_shop.write("Hello", subject=f"Mail {number}")
        busy_shop.wait_for_mails(ADA, number)
        instructions, schema = writer.told
        assert ('{"words": "..."}' in instructions) is (reader is not None)
        assert ("'words'" in schema) is (reader is not None)


@pytest.mark.parametrize("words", [WORDS, "Your money is with you."])
def test_words_that_either_check_doubts_are_left_out(busy_shop: Harness, words: str) -> None:
    verdict = "money" if words == WORDS else "nothing"
    busy_shop.stock(order())
    reader = read_by(busy_shop, states(verdict))
    busy_shop.faults.openai.append(says(words, WHICH_ORDER))
    busy_shop.write("Hello, it is W1001.")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert words not in told
    assert "Which order is it about?" in told
    assert len(reader.asked) == (words == WORDS)
    assert len(busy_shop.rows("SELECT 1 FROM model_calls WHERE model != 'cheap'")) == 1


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("Ada Paid", "Thank you, it is paid.", False),
        ("evil.example", "Thank you, evil.example", False),
        ("Ada Wright", "Hello Ada Wright,", True),
    ],
)
def test_a_sender_cannot_have_words_said_by_a_name(
    busy_shop: Harness, name: str, words: str, said: bool
) -> None:
    busy_shop.stock(order())
    reader = read_by(busy_shop, states("nothing"))
    busy_shop.faults.openai.append(says(words, WHICH_ORDER))
    busy_shop.write("It is W1001.", from_name=name)
    assert (words in busy_shop.wait_for_mails(ADA)[0].text) is said
    assert bool(reader.asked) is said


@pytest.mark.parametrize("words", ["This is not true:", "Sorry, that is of another order:"])
def test_words_cannot_deny_the_fact_behind_them(busy_shop: Harness, words: str) -> None:
    busy_shop.stock(order())
    reader = read_by(busy_shop, states("nothing"))
    busy_shop.faults.openai.append(says(words, Fact("order/W1001")))
    busy_shop.write("Where is W1001?")
    assert words not in busy_shop.wait_for_mails(ADA)[0].text
    assert reader.asked == []


def test_words_alone_of_which_none_is_left_are_composed_again(busy_shop: Harness) -> None:
    read_by(busy_shop, states("money"), states("deed"))
    busy_shop.stock(order())
    busy_shop.faults.openai += [says(WORDS), says("Thank you, Ada!")]
    busy_shop.write("Hello, it is W1001.")
    busy_shop.wait_for_mails(TESS)
    assert WORDS not in busy_shop.wait_for_mails(ADA)[0].text


def test_the_record_stands_below_a_lie_that_got_through(
    busy_shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailagent.mailers.letter.find_statements", lambda *_: [])
    read_by(busy_shop, states("nothing"))
    busy_shop.stock(order())
    busy_shop.faults.openai.append(says("The money is with you.", Fact("order/W1001")))
    busy_shop.write("Where is my money for W1001?")
    told = busy_shop.wait_for_mails(ADA)[0].text
    assert told.index("The money is with you.") < told.index("Refunded: nothing")


def test_words_are_sent_with_a_record_only(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    for number, text in enumerate(("Hello", "Hello, it is W1001."), 1):
        read_by(busy_shop, states("nothing"))
        busy_shop.faults.openai.append(says(WORDS, WHICH_ORDER))
        busy_shop.write(text, subject=f"Mail {number}")
        told = busy_shop.wait_for_mails(ADA, number)[-1].text
        assert (WORDS in told) is ("On record" in told) is (number == 2)


def test_without_a_verdict_no_words_are_sent(busy_shop: Harness) -> None:
    outcomes: list[dict[str, Any]] = [
        {"kind": "retry", "why": "away", "after_seconds": None},
        {"kind": "operator", "why": "no such model"},
        {"kind": "done", "text": "fine!", "calls": []},
        {"kind": "done", "text": '{"states": "weather"}', "calls": []},
        {"kind": "done", "text": "[" * 100_000, "calls": []},
    ]
    busy_shop.stock(order())
    for number, outcome in enumerate(outcomes, 1):
        read_by(busy_shop, outcome)
        busy_shop.faults.openai.append(says(WORDS, WHICH_ORDER))
        busy_shop.write("Hello, it is W1001.", subject=f"Mail {number}")
        told = busy_shop.wait_for_mails(ADA, number)[-1].text
        assert told.startswith("Hello Ada Example,\n\nWhich order is it about?")
        assert WORDS not in told


def test_facts_alone_need_no_reader(busy_shop: Harness) -> None:
    reader = read_by(busy_shop)
    busy_shop.faults.openai.append(says(Fact("support_address")))
    busy_shop.write("Hello")
    busy_shop.wait_for_mails(ADA)
    assert reader.asked == []


def test_it_is_not_asked_beyond_the_limits_or_while_the_model_is_away(shop: Harness) -> None:
    shop.stock(order())
    batch, composition = batch_of(shop), parse(Say([WORDS, Fact("order/W1001")]).text)
    reader = read_by(shop, *[states("nothing")] * 5)
    services.bind(replace(services.current(), rate_limit=RateLimit(requests=1)))
    for _ in range(5):
        second_reader.find_checked_words(batch, composition)
    asked = len(reader.asked)
    assert 1 <= asked < 5
    services.bind(replace(services.current(), rate_limit=RateLimit()))
    with shop.live.database.transaction() as connection:
        for _ in range(10):
            failure = Failure("away")
            now = shop.live.now()
            circuit_breakers.record_failure(connection, OPENAI, failure, now, False)
    assert second_reader.find_checked_words(batch, composition) == []
    assert len(reader.asked) == asked


def test_a_verdict_that_could_not_be_recorded_is_not_asked_for_again(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.stock(order())
    batch, composition = batch_of(shop), parse(Say([WORDS, Fact("order/W1001")]).text)
    reader = read_by(shop, states("nothing"))
    record, lost = model_calls.record, sa.exc.OperationalError("", None, Exception("cut"))
    lost.connection_invalidated = True
    problems = [lost]
    at_work.open()  # an earlier test may have let its worker leave

    def record_at_the_second_try(*arguments: Any) -> bool:
        if problems:
            raise problems.pop()
        return record(*arguments)

    monkeypatch.setattr(model_calls, "record", record_at_the_second_try)
    assert second_reader.find_checked_words(batch, composition) == [WORDS]
    assert len(reader.asked) == 1
    assert len(shop.rows("SELECT 1 FROM model_calls WHERE model = 'cheap'")) == 1
