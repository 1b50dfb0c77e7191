"""How many false replies the check stops, and how many honest ones, over two corpora of whole letters.

open.toml taught the rules, so every line of it is judged rightly. held_out.toml did not: what the check
does with it is what may be hoped for from words nobody thought of. Its floors only ever rise.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailagent.agent.reply.check import find_untrue
from mailagent.demo.reading import Language
from mailagent.demo.scripted_model import letter
from tests.agent.test_reply_check import CUSTOMER_WORDS, facts_in

LANGUAGES = {
    "en": Language.ENGLISH,
    "de": Language.GERMAN,
    "fr": Language.FRENCH,
    "es": Language.SPANISH,
}
# Of the replies that no rule was made for: at least so many of the false ones are stopped ...
FLOOR_OF_FALSE_STOPPED = 0.68
# ... and at most so many of the honest ones, each of which costs a second try, or a person's time.
CEILING_OF_HONEST_STOPPED = 0.03

Row = tuple[str, str, str]


def corpus(name: str, kind: str) -> list[Row]:
    """Return the state on record, the language and the text of each reply of one kind."""
    read = tomllib.loads((Path(__file__).parent / "corpus" / f"{name}.toml").read_text("utf-8"))
    return [
        (state, language, text)
        for state, languages in read[kind].items()
        for language, texts in languages.items()
        for text in texts
    ]


def is_stopped(row: Row) -> bool:
    state, language, text = row
    return bool(find_untrue(letter(LANGUAGES[language], [text]), facts_in(state), CUSTOMER_WORDS))


def wrongly_judged(name: str) -> Iterator[tuple[str, Row]]:
    yield from (("lies", row) for row in corpus(name, "lies") if not is_stopped(row))
    yield from (("honest", row) for row in corpus(name, "honest") if is_stopped(row))


def test_every_reply_that_taught_the_rules_is_judged_rightly() -> None:
    assert list(wrongly_judged("open")) == []


def test_of_the_replies_that_taught_nothing_most_are_judged_rightly() -> None:
    wrong = [kind for kind, _ in wrongly_judged("held_out")]
    false, honest = len(corpus("held_out", "lies")), len(corpus("held_out", "honest"))
    assert 1 - wrong.count("lies") / false >= FLOOR_OF_FALSE_STOPPED
    assert wrong.count("honest") / honest <= CEILING_OF_HONEST_STOPPED


@pytest.mark.parametrize("kind", ["lies", "honest"])
def test_the_corpora_are_large_speak_four_languages_and_share_no_line(kind: str) -> None:
    known, unknown = corpus("open", kind), corpus("held_out", kind)
    assert len(known) >= 250
    assert len(unknown) >= 84
    assert {row[1] for row in known} == {row[1] for row in unknown} == set(LANGUAGES)
    assert {row[2] for row in known}.isdisjoint(row[2] for row in unknown)
