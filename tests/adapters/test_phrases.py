"""The phrases of replies: complete in every language, and none of them states anything."""

from __future__ import annotations

import json

import pytest

from mailagent.adapters.templates.engine import Templates
from mailagent.adapters.templates.mail_samples import COMMON
from mailagent.agent.prompt import estimate_tokens
from mailagent.agent.reply.words import find_statements
from mailagent.domain.mail.language import find_language

LANGUAGES = ("en", "de", "es", "fr", "it", "nl", "pl", "pt")
OURS = Templates(COMMON)
# What the lists find in a phrase although it states nothing.
HARMLESS = {"ask_want_refund": {"money"}}  # it asks whether we understood the customer's wish
# Findings that say nothing of a fixed sentence: "statement" is any that is no question, thanks or sympathy;
# "change" is a stem such as "done" in "graag gedaan"; decisions have a test of their own. Pointing at
# facts ("frame") is for phrases.
ALLOWED = {"statement", "change", "decision", "frame"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_phrase_states_anything(language: str) -> None:
    for phrase_id, text in OURS.phrases(language).items():
        found = {finding.kind for finding in find_statements(text, language, [], language)}
        assert found - ALLOWED == HARMLESS.get(phrase_id, set()), text
        assert "%" not in text
        assert text == text.strip()
        assert text.endswith((".", "?", "!", ":"))


def test_only_one_phrase_speaks_of_a_decision() -> None:
    spoken = {
        phrase_id
        for language in LANGUAGES
        for phrase_id, text in OURS.phrases(language).items()
        if "decision" in {each.kind for each in find_statements(text, language, [], language)}
    }
    assert spoken - {"cannot_change_decision"} == {"ask_reason"}  # French: la raison


def test_every_language_has_every_phrase_in_its_own_words() -> None:
    english = OURS.phrases()
    assert len(english) >= 50
    for language in LANGUAGES:
        phrases = OURS.phrases(language)
        assert list(phrases) == list(english), "the order is that of the prompt"
        assert len(set(phrases.values())) == len(phrases)
        assert language == "en" or not set(phrases.values()) & set(english.values())
        assert find_language("\n".join(phrases.values())) == language


def test_the_list_of_phrases_costs_little() -> None:
    assert estimate_tokens(json.dumps(OURS.phrases())) < 1_000


@pytest.mark.parametrize("locale", ["sv", "xx", "en-GB"])
def test_a_language_without_a_catalogue_has_the_english_phrases(locale: str) -> None:
    assert OURS.phrases(locale) == OURS.phrases()
