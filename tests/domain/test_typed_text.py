"""Typed text: what is taken out, and what counts as one line."""

from __future__ import annotations

import pytest

from mailagent.domain.text import is_one_line, without_controls


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("fine", "fine"),
        ("two\r\nlines\rand\tmore\n", "two\nlines\nand\tmore\n"),
        ("o\x00k", "ok"),
        ("\x1b[31mred\x07", "[31mred"),
        ("a\x7f\x80\x85\x9fb", "ab"),
        ("half \ud83d a pair", "half  a pair"),
        ("\U0001f600 für Jürgen’s\u00a0Kessel", "\U0001f600 für Jürgen’s\u00a0Kessel"),
    ],
)
def test_control_characters_are_taken_out_and_the_rest_stays(typed: str, kept: str) -> None:
    assert without_controls(typed) == kept


@pytest.mark.parametrize("text", ["", "W1001", "Kessel\u00a0groß", "\U0001f600", "a\u200bb"])
def test_one_line_is_one_line(text: str) -> None:
    assert is_one_line(text)


@pytest.mark.parametrize(
    "character", "\x00 \x1f \x7f \x85 \x9f \n \r \t \u2028 \u2029 \ud800 \udfff".split(" ")
)
def test_breaks_controls_and_surrogates_are_not_one_line(character: str) -> None:
    assert not is_one_line(f"W1{character}")
