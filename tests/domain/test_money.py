"""Money: exact, in the currency's own decimals, never mixed."""

from __future__ import annotations

from datetime import date

import pytest
from babel.core import get_global
from babel.numbers import get_territory_currencies
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.money import Money, parse_currency, parse_money

TODAY = date(2026, 11, 1)


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


def tender() -> set[str]:
    """The currencies that are legal tender somewhere, as CLDR has it."""
    territories = get_global("territory_currencies")
    return {code for each in territories for code in get_territory_currencies(each, TODAY)}


# What CLDR has not caught up with, or sees otherwise than ISO 4217: El Salvador's and Venezuela's second
# currency, the Caribbean guilder of 2025, and Bulgaria's lev, which gave way to the euro in 2026.
BESIDE_CLDR = {"SVC", "VED", "XCG"}
REPLACED = {"BGN"}


def test_every_currency_that_people_pay_with_is_one() -> None:
    for code in (tender() | BESIDE_CLDR) - REPLACED:
        assert parse_currency(code) == code


@pytest.mark.parametrize("code", ["ZZZ", "UDS", "XTS", "XXX", "XAU", "CLF", "HRK", "DEM", "BGN"])
def test_a_currency_that_iso_4217_does_not_have_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match=f"{code} is no currency of ISO 4217"):
        parse_currency(code)


@pytest.mark.parametrize("text", ["usd", "US", "USDT", "US1", "", None, 840, ["USD"]])
def test_what_is_no_code_at_all_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a currency code such as USD"):
        parse_currency(text)
