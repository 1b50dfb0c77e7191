"""Amounts and dates as people write them."""

from __future__ import annotations

from datetime import date

import pytest

from mailagent.agent.reply.figures import find_amounts, find_dates
from mailagent.domain.money import Money


@pytest.mark.parametrize(
    ("text", "money"),
    [
        ("49.99 USD", Money(4999, "USD")),
        ("USD 49.99", Money(4999, "USD")),
        ("usd 49.99", Money(4999, "USD")),
        ("49.99USD", Money(4999, "USD")),
        ("$1,234.56", Money(123456, "USD")),
        ("1.234,56 €", Money(123456, "EUR")),
        ("1 234,56 €", Money(123456, "EUR")),
        ("€ 49", Money(4900, "EUR")),
        ("49,- €", Money(4900, "EUR")),
        ("49,9 Euro", Money(4990, "EUR")),
        ("1.299 EUR", Money(129900, "EUR")),
        ("CHF 1'234.50", Money(123450, "CHF")),
        ("£5", Money(500, "GBP")),
        ("5 pounds", Money(500, "GBP")),
        ("5,000 JPY", Money(5000, "JPY")),
        ("¥5000", Money(5000, "JPY")),
        ("12,500 KWD", Money(12500, "KWD")),
        ("12.500 KWD", Money(12500000, "KWD")),
        ("100 kr", Money(10000, "SEK")),
        ("99 cents", Money(99, "USD")),
        ("20 dólares", Money(2000, "USD")),
        ("20 livres", Money(2000, "GBP")),
    ],
)
def test_an_amount_is_read_in_every_way_people_write_it(text: str, money: Money) -> None:
    (amount,) = find_amounts(f"It was {text} in all")
    assert money in amount.readings
    assert amount.text == text


@pytest.mark.parametrize("text", ["$5k", "5 thousand dollars", "fifty dollars", "1.999 JPY USD x"])
def test_a_sum_that_cannot_be_compared_is_one_of_nothing(text: str) -> None:
    (amount, *_) = find_amounts(f"It was {text} in all")
    assert not amount.is_one_of({Money(500, "USD"), Money(5000, "USD"), Money(500000, "USD")})


@pytest.mark.parametrize(
    "text",
    ["2 mugs", "W1001", "2.40 m", "10.30 Uhr", "1.5 l", "30 days", "100 %", "2 cup", "v2.50.3"],
)
def test_other_numbers_are_no_amounts(text: str) -> None:
    assert find_amounts(f"It was {text} in all") == ()


def test_digits_without_a_currency_may_be_of_any() -> None:
    (amount,) = find_amounts("We refund 49.99 to you")
    assert amount.is_one_of({Money(4999, "EUR")})
    assert not amount.is_one_of({Money(4998, "EUR")})


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-04",
        "4 December 2026",
        "4th of December",
        "December 4th, 2026",
        "Dec. 4",
        "4. Dezember 2026",
        "04.12.2026",
        "4.12.",
        "4 décembre 2026",
        "4 de diciembre de 2026",
        "04/12/2026",
        "12/04/2026",
        "4-12-26",
        "December 2026",
    ],
)
def test_a_date_is_read_in_every_way_people_write_it(text: str) -> None:
    (figure,) = find_dates(f"It ends on {text} for you")
    assert figure.is_one_of([date(2026, 12, 4)])
    assert not figure.is_one_of([date(2026, 11, 5), date(2025, 10, 4)])


@pytest.mark.parametrize("text", ["2 may be late", "1.2.3.4", "99.99.2026", "item 4", "2026"])
def test_other_numbers_are_no_dates(text: str) -> None:
    assert find_dates(f"It is {text} here") == ()
