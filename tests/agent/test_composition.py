"""The model's answer is read strictly; what does not fit is told to the model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mailagent.agent.reply.composition import (
    ALL_WORDS_MAX_LENGTH,
    CompositionProblem,
    FactName,
    PhraseName,
    Words,
    answer_format,
    parse,
)
from tests.growth import assert_linear

HELLO = {"words": "Hello"}
PARTS = [{"phrase": "welcome"}, HELLO, {"fact": "refund/W1001"}]


def answer(**changes: Any) -> str:
    return json.dumps({"language": "en", "parts": PARTS} | changes)


def test_parts_keep_their_order() -> None:
    composition = parse(answer())
    assert composition.language == "en"
    phrase, fact = PhraseName(phrase="welcome"), FactName(fact="refund/W1001")
    assert composition.parts == [phrase, Words(words="Hello"), fact]
    assert composition.keep_words(["Hello"]) == composition
    assert composition.keep_words([]).parts == [phrase, fact]


@pytest.mark.parametrize("language", ["de", "pt-BR", "es-419", "zh-Hant"])
def test_a_language_may_have_a_region(language: str) -> None:
    assert parse(answer(language=language)).language == language


def test_a_code_block_around_it_is_taken_off() -> None:
    assert parse(f"```json\n{answer()}\n```") == parse(answer())


def test_a_hostile_code_block_takes_linear_time() -> None:
    def read(spaces: str) -> None:
        with pytest.raises(CompositionProblem):
            parse(f"```{spaces}x")

    assert_linear(read, " ", 300)


@pytest.mark.parametrize(
    "text",
    [
        "Hello Ada, your refund was paid.",
        "[]",
        "{}",
        answer(language="English"),
        answer(language="en\n"),
        answer(parts=[HELLO] * 31),
        answer(parts=[{"words": "Hello", "fact": "refund/W1001"}]),
        answer(parts=[{"words": ""}]),
        answer(parts=[{"words": "Hello\0"}]),
        answer(parts=[{"words": "Hello\ud83d"}]),
        answer(parts=[{"phrase": "welcome\0"}]),
        answer(parts=[{"fact": "no_order/W9999\0"}]),
        answer(parts=[{"phrase": ["welcome"]}]),
        answer(parts=[{"words": 7}]),
        answer(parts=["Hello"]),
        answer(subject="Refund"),
        answer(parts=[{"words": "a" * 1_500}] * (ALL_WORDS_MAX_LENGTH // 1_500 + 1)),
        "[" * 100_000,
    ],
)
def test_what_does_not_fit_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(CompositionProblem) as refused:
        parse(text)
    assert len(str(refused.value)) < 300


def test_the_format_is_strict_at_every_level() -> None:
    def objects(schema: Any) -> list[dict[str, Any]]:
        if isinstance(schema, list):
            return [found for each in schema for found in objects(each)]
        if not isinstance(schema, dict):
            return []
        own = [schema] if schema.get("type") == "object" else []
        return own + [found for each in schema.values() for found in objects(each)]

    for with_words, parts in ((False, "phrase fact"), (True, "phrase fact words")):
        found = objects(answer_format(["welcome", "nice_day"], with_words)["format"]["schema"])
        assert [next(iter(each["properties"])) for each in found[1:]] == parts.split()
        assert all(each["additionalProperties"] is False for each in found)
        assert all(each["required"] == list(each["properties"]) for each in found)
        assert found[1]["properties"]["phrase"]["enum"] == ["welcome", "nice_day"]
