"""What people type into an amount field is read as they mean it, or they are told what was not understood."""

from __future__ import annotations

import re

import pytest
from babel import Locale
from babel.numbers import format_currency
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.templates.formats import format_money
from mailagent.domain.amount_field import parse_typed_amount
from mailagent.domain.money import CURRENCIES, Money, exponent


@pytest.mark.parametrize(
    ("typed", "currency", "minor"),
    [
        ("100,50", "EUR", 10050),
        ("100.50", "EUR", 10050),
        ("100,5", "EUR", 10050),
        ("$500", "USD", 50000),
        ("US$ 500", "USD", 50000),
        ("500 usd", "USD", 50000),
        ("500 $", "CAD", 50000),
        ("1.499,00 €", "EUR", 149900),
        ("1,499.00", "USD", 149900),
        ("1.499", "EUR", 149900),
        ("1,499", "USD", 149900),
        ("1 499,00", "EUR", 149900),
        ("1\u202f499,00\u00a0€", "EUR", 149900),
        ("CHF 1'499.50", "CHF", 149950),
        ("1’499.50 Fr.", "CHF", 149950),
        ("49,90 zł", "PLN", 4990),
        ("1.234.567,89", "EUR", 123456789),
        ("1,500", "JPY", 1500),
        ("¥1500", "JPY", 1500),
        ("1.234", "KWD", 1234),
        ("1,234.5", "KWD", 1234500),
        ("0,99", "EUR", 99),
        ("500,-", "EUR", 50000),
        ("1.499,– €", "EUR", 149900),
        ("CHF 1'250.--", "CHF", 125000),
        ("500.", "USD", 50000),
        (".50", "USD", 50),
        (",50", "EUR", 50),
        ("$.50", "USD", 50),
        ("$ .05", "USD", 5),
        (".99 $", "USD", 99),
        ("Fr..50", "CHF", 50),
        (".500", "KWD", 500),
        ("Fr.50", "CHF", 5000),
        ("500 dollars", "USD", 50000),
        ("1.499,00 Dollar", "USD", 149900),
        ("500 US dollars", "USD", 50000),
        ("1499 Euro", "EUR", 149900),
        ("20 pounds", "GBP", 2000),
        ("499 kronor", "SEK", 49900),
        ("49,90 zl", "PLN", 4990),
        ("50 złotych", "PLN", 5000),
        ("1500円", "JPY", 1500),
        ("CHF 20 Franken", "CHF", 2000),
    ],
)
def test_amounts_are_read_as_people_type_them(typed: str, currency: str, minor: int) -> None:
    assert parse_typed_amount(typed, currency) == Money(minor, currency)


@pytest.mark.parametrize(
    ("typed", "currency", "said"),
    [
        ("ten", "EUR", "“ten” is not an amount. Write it like 49.99 or 49,99."),
        ("", "EUR", "is not an amount"),
        ("USD.50", "USD", "is not an amount"),
        ("dollars .50", "USD", "is not an amount"),
        (".500", "USD", "more than one way"),
        (",500", "KWD", "more than one way"),
        (".50", "JPY", "Write it like 1500."),
        ("5-", "EUR", "Leave out the “-”"),
        ("-5", "EUR", "Leave out the “-”"),
        ("$5", "EUR", "“$” does not fit: this refund is in EUR."),
        ("HK$5", "USD", "“HK$” does not fit: this refund is in USD."),
        ("5 $CA", "USD", "“$CA” does not fit: this refund is in USD."),
        ("₪5", "EUR", "“₪” does not fit: this refund is in EUR."),
        ("5 F CFA", "XPF", "“FCFA” does not fit: this refund is in XPF."),
        ("5 GBP", "EUR", "“GBP” does not fit: this refund is in EUR."),
        ("500 euros", "USD", "“euros” does not fit: this refund is in USD."),
        ("10%", "EUR", "“%” was not understood. Write only the amount."),
        ("about 500", "EUR", "“about” was not understood."),
        ("12oo", "EUR", "“oo” was not understood."),
        ("half of 500", "EUR", "“half of 500” was not understood."),
        ("1,499", "KWD", "more than one way"),
        ("12,3456", "EUR", "more than one way"),
        ("0.500", "USD", "more than one way"),
        ("0,500", "EUR", "more than one way"),
        ("0.500,00", "EUR", "more than one way"),
        ("01.499", "EUR", "more than one way"),
        ("49.999,999", "EUR", "more than one way"),
        ("1,49,900", "INR", "more than one way"),
        ("1.5", "JPY", "Write it like 1500."),
        ("5 and 6", "EUR", "is not an amount"),
        ("9" * 13, "EUR", "too many digits"),
        ("١٢", "EUR", "is not an amount"),
    ],
)
def test_what_is_not_understood_is_said(typed: str, currency: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_typed_amount(typed, currency)


_LOCALES = (
    "en_US",
    "en_GB",
    "de_DE",
    "fr_FR",
    "es_ES",
    "it_IT",
    "nl_NL",
    "pt_PT",
    "pl_PL",
    "de_CH",
)


@given(
    minor=st.integers(0, 99_999_999_999),
    currency=st.sampled_from(("USD", "EUR", "GBP", "PLN", "CHF", "JPY", "SEK")),
    locale=st.sampled_from(_LOCALES),
)
def test_an_amount_as_any_locale_writes_it_is_read_back(
    minor: int, currency: str, locale: str
) -> None:
    money = Money(minor, currency)
    written = format_currency(money.decimal(), currency, locale=locale)
    assert parse_typed_amount(written, currency) == money


@pytest.mark.parametrize("currency", sorted(CURRENCIES))
def test_an_amount_as_our_pages_write_it_is_read_back(currency: str) -> None:
    for minor in (0, 5, 4_990, 123_400, 123_456_789):
        money = Money(minor, currency)
        assert parse_typed_amount(money.tell(), currency) == money
        for locale in _LOCALES:
            written = format_money(money, Locale.parse(locale))
            if exponent(currency) == 3 and "," in written and "." not in written:
                with pytest.raises(ValueError, match="more than one way"):
                    parse_typed_amount(written, currency)
            else:
                assert parse_typed_amount(written, currency) == money, written


@given(typed=st.text(alphabet="0123456789.,'-€$ ", max_size=15))
def test_no_text_is_read_as_more_than_its_digits(typed: str) -> None:
    try:
        amount = parse_typed_amount(typed, "EUR")
    except ValueError:
        return
    digits = "".join(filter(str.isdigit, typed))
    assert amount.minor <= int(digits) * 10 ** exponent("EUR")
    assert str(amount.minor).rstrip("0").lstrip("0") in digits or amount.minor == 0
