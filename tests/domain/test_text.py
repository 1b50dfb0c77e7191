"""Typed text: what is taken out, and what counts as one line."""

from __future__ import annotations

import pytest

from mailagent.domain.text import (
    LONGEST,
    Term,
    error_message,
    is_one_line,
    parse_search,
    tell_error,
    without_controls,
    write_search,
)


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


# --- search words ---------------------------------------------------------------------------------


def plain(typed: str) -> str:
    """Return what was understood in one line: a space is and, a bar is or, a minus is without."""
    return "|".join(
        " ".join(f"{'' if term.wanted else '-'}[{term.text}]" for term in terms)
        for terms in parse_search(typed)
    )


@pytest.mark.parametrize(
    ("typed", "understood"),
    [
        ("kettle", "[kettle]"),
        ("red kettle", "[red] [kettle]"),
        ("kettle -broken", "[kettle] -[broken]"),
        ("-broken", "-[broken]"),
        ("--broken", "[broken]"),
        ("- broken", "-[broken]"),
        ('"just  like\tthis"', "[just like this]"),
        ('kettle -"just like" this', "[kettle] -[just like] [this]"),
        ('"unclosed phrase', "[unclosed phrase]"),
        ('red"hot kettle"', "[red] [hot kettle]"),
        ("lovely or broken", "[lovely]|[broken]"),
        ("lovely OR broken red", "[lovely]|[broken] [red]"),
        ("red kettle or -blue", "[red] [kettle]|-[blue]"),
        ("or kettle", "[or] [kettle]"),
        ("kettle or", "[kettle] [or]"),
        ("kettle or or blue", "[kettle]|[or] [blue]"),
        ('kettle "or" blue', "[kettle] [or] [blue]"),
        ("order oregano", "[order] [oregano]"),
        ("100%, (really)", "[100] [really]"),
        ("e-mail ada@example.com", "[e-mail] [ada@example.com]"),
        ("kettle or !", "[kettle]"),
        ("", ""),
        ('"', ""),
        ('- "" & !', ""),
    ],
)
def test_what_is_typed_is_understood(typed: str, understood: str) -> None:
    assert plain(typed) == understood


def test_a_term_says_whether_it_is_to_be_had() -> None:
    assert parse_search("a -b") == ((Term("a"), Term("b", wanted=False)),)


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("kettle", '"kettle"'),
        ("red kettle -blue", '"red" "kettle" -"blue"'),
        ("--broken", '"broken"'),
        ('kettle -"just like" this', '"kettle" -"just like" "this"'),
        ("lovely or broken red", '"lovely" or "broken" "red"'),
        ("or kettle", '"or" "kettle"'),
        ('"unclosed phrase', '"unclosed phrase"'),
        ("-" * 3_000, ""),
        ("- " * 3_000 + "kettle", '"kettle"'),
        ("& | ! : <-> ( )", ""),
        ("", ""),
    ],
)
def test_what_is_typed_is_written_for_postgresql_with_nothing_superfluous(
    typed: str, written: str
) -> None:
    assert write_search(typed) == written
    assert parse_search(written) == parse_search(typed)


# --- failure --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, "no reason is on record"),
        ("  ", "no reason is on record"),
        ("refund refund_01 could not be paid in 40 attempts", None),
        ("KeyError: 'amount'", None),
        ("no mail for ada@example.com here", "no mail for [address] here"),
        ("401: the key is wrong\nDETAIL: Ada wrote this", "401: the key is wrong"),
        ("x" * 400, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_one_line_without_what_a_person_wrote(error: str | None, told: str | None) -> None:
    assert tell_error(error) == (told or error)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("invalid byte \x00 in a\x00 mail", "invalid byte  in a mail"),
        ("\x00\nthe cause", "the cause"),
        ("\x00", "no reason is on record"),
        ("a lone \ud800surrogate", "a lone surrogate"),
    ],
)
def test_an_error_is_told_without_what_a_database_refuses(error: str, told: str) -> None:
    assert tell_error(error) == told


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("amount"), "'amount'"),
        (KeyError("no payment is left"), "no payment is left"),
        (ValueError("no 'payment' is left"), "no 'payment' is left"),
    ],
)
def test_a_sentence_of_a_key_error_is_not_quoted(error: Exception, text: str) -> None:
    assert error_message(type(error).__name__, str(error)) == text
