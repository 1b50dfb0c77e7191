"""What somebody types to search for words means what it means to PostgreSQL."""

from __future__ import annotations

import pytest

from mailagent.domain.text import Term, parse_search, write_search


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
