"""Money: exact, in the currency's own decimals, never mixed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.money import Money, parse_money


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [
        ("49.99", "USD", 4999),
        ("49.9", "USD", 4990),
        ("49", "USD", 4900),
        ("0", "USD", 0),
        ("1500", "JPY", 1500),
        ("1.234", "KWD", 1234),
        ("999999999999.99", "EUR", 99999999999999),
    ],
)
def test_amounts_are_read_exactly(text: str, currency: str, minor: int) -> None:
    assert parse_money(text, currency) == Money(minor, currency)


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("49.999", "USD"),
        ("1.5", "JPY"),
        ("-1.00", "USD"),
        ("1,000.00", "USD"),
        ("1e3", "USD"),
        ("NaN", "USD"),
        (" 1", "USD"),
        ("", "USD"),
        (".5", "USD"),
        ("1.", "USD"),
        ("٤٩", "USD"),  # digits of another script
        (49.99, "USD"),
        (None, "USD"),
        ("9" * 13, "USD"),
    ],
)
def test_what_is_not_an_amount_is_refused(text: object, currency: str) -> None:
    with pytest.raises(ValueError, match=r"amount|decimals"):
        parse_money(text, currency)


@given(minor=st.integers(0, 10**12 - 1), currency=st.sampled_from(["USD", "JPY", "KWD"]))
def test_writing_and_reading_gives_the_same(minor: int, currency: str) -> None:
    assert parse_money(Money(minor, currency).decimal(), currency) == Money(minor, currency)


def test_currencies_are_never_mixed() -> None:
    with pytest.raises(ValueError, match="cannot be added up"):
        Money(1, "USD") + Money(1, "EUR")
