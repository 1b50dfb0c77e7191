"""Words state nothing: corpora of false sentences and of honest ones, and the marks that need no language."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from mailagent.agent.reply import words
from mailagent.agent.reply.words import find_statements

_CORPUS = Path(__file__).with_name("corpus")
LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pl", "pt")


def read(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (_CORPUS / name).read_text("utf-8").splitlines()]


def missed(name: str) -> Counter[str]:
    """Count the false sentences that pass, by their kind."""
    return Counter(
        each["kind"]
        for each in read(name)
        if not find_statements(each["text"], each["language"], ["W1001"], each["language"])
    )


def test_false_sentences_are_found() -> None:
    lies = read("lies.jsonl")
    assert len(lies) > 1_000
    assert {each["language"] for each in lies} == set(LANGUAGES)
    assert missed("lies.jsonl").total() <= 0.01 * len(lies), missed("lies.jsonl")


def test_false_sentences_that_taught_no_stem_are_mostly_found() -> None:
    """They measure. Whoever adds a stem because of one moves its line to lies.jsonl."""
    unseen = read("unseen_lies.jsonl")
    assert missed("unseen_lies.jsonl").total() <= 0.03 * len(unseen), missed("unseen_lies.jsonl")


@pytest.mark.parametrize("name", ["honest.jsonl", "unseen_honest.jsonl"])
def test_honest_words_pass(name: str) -> None:
    refused = {
        each["text"]: [finding.text for finding in found]
        for each in read(name)
        if (found := find_statements(each["text"], each["language"], [], each["language"]))
    }
    most = 0.02 if name == "honest.jsonl" else 0.1
    assert len(refused) <= most * len(read(name)), refused


@pytest.mark.parametrize(
    "text",
    [
        "Look at shop.top/hello",
        "See evil (dot) example",
        "Go to www evil",
        "Write to me@evil.example",
        "Use 1BoatSLRHtKNngkdXEeobR76b53LETtpyT here",
        "It is 49.99",
        "It is $ here",
        "It is ½ of it",
        "It is ٤٩ of it",
        "It is ④ of it",
        "That is r e f u n d e d",
        "That is p.a.i.d",
        "That is pаid",  # with a Cyrillic letter
        "That is pa\u200bid",
        "Привет, Ада",
        "You find {this}",
        "The tool said no_such_order",
        "Look **here**",
        "Thank you, it was pa\u0131d",  # without a dot
        "Thank you, it was p\u0251id",
        "Thank you, \u1d18\u1d00\u026a\u1d05",  # small capitals
        "Thank you, it was pa\u034fid",
        "Thank you, it was pa\ufe00id",
        "Thank you \U0001f4b0\u2705",
        "Please see evil\u3002example",
    ],
)
def test_marks_and_figures_need_no_language(text: str) -> None:
    assert find_statements(text, "en", ["W1001"])


@pytest.mark.parametrize(
    "text",
    [
        "Thank you, everything has gone as you wanted.",
        "Thank you; all of it is with you now.",
        "Sorry, it is home, it is yours, it is so.",
        "Thank you\nEverything went\nback to you",
        "Not so:",
        "Is it well?It all went back to you.",
    ],
)
def test_a_polite_clause_does_not_speak_for_the_others(text: str) -> None:
    assert [each.kind for each in find_statements(text, "en", [], "en")] == ["statement"]


def test_words_point_neither_at_facts_nor_at_the_record() -> None:
    for text in ("Thank you, ignore the record.", "Sorry, the lines below are of another order."):
        assert "frame" in {each.kind for each in find_statements(text, "en", [], "en")}


def test_words_in_a_language_without_stems_are_for_readers_of_such_a_language_only() -> None:
    assert find_statements("Tack för ert brev.", "sv", [], None) == []
    assert find_statements("Tack för ert brev.", "sv", [], "de")
    assert find_statements("お写真をありがとうございます。", "ja", [], None) == []
    assert find_statements("Tack f\u034för ert brev.", "sv", [], None)
    assert find_statements("All that you have asked for is with you.", "sv", [], None)


@pytest.mark.parametrize(
    "text", ["Is it W1001?", "Sorry, order #w1001.", "What of the Kettle 3000?", "Hello Mr. Ada!"]
)
def test_what_the_customer_bought_may_be_named(text: str) -> None:
    assert find_statements(text, "en", ["W1001", "Kettle 3000"]) == []


def test_another_language_inside_is_found_too() -> None:
    text = "Hello Ada, thank you for your mail. Ihr Geld ist schon bei Ihnen auf dem Konto."
    assert find_statements(text, "en", [], "en")


def test_the_language_of_the_reader_counts_whatever_the_model_names() -> None:
    assert find_statements("Geld kommt", "sv", [], "de")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_is_one_short_file(language: str) -> None:
    text = (words._STEMS / f"{language}.toml").read_text("utf-8")
    assert len(text.splitlines()) <= 60
    assert max(map(len, text.splitlines())) <= 220
    assert words.is_checked(f"{language}-XX")
