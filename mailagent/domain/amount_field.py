"""Parses an amount as a person types it: "100,50", "$500", "1.499,00 €", "CHF 1'250.-"."""

from __future__ import annotations

import re

from mailagent.domain.money import CURRENCIES, Money, exponent, parse_money
from mailagent.domain.text import Fill, fill

_DOLLARS = frozenset(
    "USD AUD BBD BMD BND BSD BZD CAD FJD GYD HKD JMD KYD LRD NAD NZD SBD SGD SRD TTD TWD XCD".split()
) | frozenset("ARS CLP COP CVE DOP MXN NIO UYU WST".split())
_POUNDS = frozenset("GBP EGP FKP GIP LBP SHP SSP SYP".split())
_OF_ONE = (  # the signs of one currency only
    "a$=AUD c$=CAD ec$=XCD nt$=TWD r$=BRL si$=SBD €=EUR ₹=INR ₩=KRW ₺=TRY ₴=UAH ₪=ILS ₫=VND ₱=PHP ฿=THB "
    "cg=XCG zł=PLN kč=CZK ft=HUF fr=CHF sfr=CHF jp¥=JPY cn¥=CNY cfpf=XPF fcfp=XPF"
)
# The currencies that each sign or word may stand for. Any other is refused; we never guess a currency.
_SIGNS = {
    "$": _DOLLARS,
    # With the country, in front or, in French, behind.
    **{f"{code[:2]}$".lower(): frozenset((code,)) for code in _DOLLARS},
    **{f"${code[:2]}".lower(): frozenset((code,)) for code in _DOLLARS},
    "£": _POUNDS,
    **{f"£{code[:2]}".lower(): frozenset((code,)) for code in _POUNDS},
    "¥": frozenset(("JPY", "CNY")),
    "fcfa": frozenset(("XAF", "XOF")),
    "kr": frozenset(("DKK", "ISK", "NOK", "SEK")),
    **{sign: frozenset((code,)) for sign, code in (each.split("=") for each in _OF_ONE.split())},
}
_WORDS = {
    word: _SIGNS[sign]
    for sign, words in {
        "$": "dollar dollars dolar dolary dolarów dolares dólar dólares dollaro dollari",
        "us$": "usdollar usdollars us-dollar us-dollars",
        "€": "euro euros",
        "£": "pound pounds pfund pond livre livres libra libras sterlina sterline funt funty funtów",
        "£gb": "sterling poundsterling poundssterling pfundsterling",
        "jp¥": "yen 円",
        "cn¥": "yuan rmb 元",
        "₹": "rupee rupees",
        "₩": "won 원",
        "₺": "lira tl",
        "₴": "hryvnia грн",
        "zł": "zl zloty zlotys zlotych złoty złote złotych",
        "kč": "kc koruna koruny korun",
        "ft": "forint forints",
        "kr": "krona kronor krone kroner kronen",
        "fr": "franc francs franken",
        "r$": "real reais",
    }.items()
    for word in words.split()
}
# People also separate thousands by blanks (ISO 80000-1) and, in Switzerland, by apostrophes.
_BLANKS = re.compile(r"[\s\u00a0\u2009\u202f'’]")
# "500,-" and "500.": no decimals.
_NO_DECIMALS = re.compile(r"(?<=[0-9])[.,][-–—−]{0,2}(?=$|[^0-9.,])")
# A point that belongs to a sign follows a letter, as in "Fr. 500". Before a digit, any other begins decimals.
_FIELD = re.compile(r"([^0-9.,]*(?:(?<=[^\W\d_])\.)?)([.,]?[0-9][0-9.,]*)([^0-9.,]*\.?)")
_GROUPED = re.compile(r"[1-9][0-9]{0,2}([.,])[0-9]{3}(?:\1[0-9]{3})*")


def parse_typed_amount(text: str, currency: str, _: Fill = fill) -> Money:
    """Return the amount that a person typed, with or without the sign or code of `currency` (ISO 4217).

    The last comma or point begins the decimals if as many digits follow as the currency has, or fewer; before
    three digits it separates thousands. `_` translates the messages. Raises ValueError for all else; its text
    tells the person what to write instead.
    """
    found = _FIELD.fullmatch(_NO_DECIMALS.sub("", _BLANKS.sub("", text)))
    # "USD.50" is half a dollar or fifty: a code or a word is no abbreviation.
    if not found or (found[1].endswith(".") and _is_whole(found[1][:-1], currency)):
        none = _("“%(text)s” is not an amount.", text=text)
        raise ValueError(f"{none} {_example(currency, _)}")
    before, number, after = found.groups()
    for sign in (before.rstrip("."), after.rstrip(".")):
        _check_currency(sign, text, currency, _)
    plain = _plain_decimal(number if number[0].isdigit() else f"0{number}", exponent(currency))
    if plain is None:
        unclear = _(
            "“%(text)s” can be read in more than one way, or has too many digits.", text=text
        )
        raise ValueError(f"{unclear} {_example(currency, _)}")
    return parse_money(plain, currency)


def _is_whole(sign: str, currency: str) -> bool:
    return sign.upper() == currency or sign.lower() in _WORDS


def _check_currency(sign: str, text: str, currency: str, _: Fill) -> None:
    meant = _SIGNS.get(sign.lower()) or _WORDS.get(sign.lower()) or {sign.upper()} & CURRENCIES
    if not sign or currency in meant:
        return
    if sign in "-–−+":
        raise ValueError(
            _("Leave out the “%(sign)s”: the amount is what the customer gets.", sign=sign)
        )
    if meant:
        raise ValueError(
            _(
                "“%(sign)s” does not fit: this refund is in %(currency)s.",
                sign=sign,
                currency=currency,
            )
        )
    words = sign if sign in text else text  # with their blanks
    raise ValueError(_("“%(words)s” was not understood. Write only the amount.", words=words))


def _plain_decimal(number: str, decimals: int) -> str | None:
    """Return the number with a point before its decimals and nothing between thousands; None if it can be read
    in two ways, such as 1,499 dinars, or has too many digits."""
    whole, mark, end = _at_last_mark(number)
    if not mark:
        return number if len(number) <= 12 else None
    if mark in whole:  # 1.499.000
        return _without_groups(number)
    if len(end) == 3 and decimals == 3 and mark == "," and whole.isdigit():
        return (
            None  # 1,499 dinars: decimals or thousands? With a point it is as our pages write it.
        )
    if len(end) == 3 and decimals != 3:
        return _without_groups(number)
    ungrouped = _without_groups(whole) if re.search("[.,]", whole) else whole
    if not ungrouped or not 1 <= len(end) <= decimals:
        return None
    return f"{ungrouped}.{end}"


def _at_last_mark(number: str) -> tuple[str, str, str]:
    at = max(number.rfind("."), number.rfind(","))
    return (number[:at], number[at], number[at + 1 :]) if at >= 0 else (number, "", "")


def _without_groups(number: str) -> str | None:
    return re.sub("[.,]", "", number) if _GROUPED.fullmatch(number) else None


def _example(currency: str, _: Fill) -> str:
    example = {0: "1500", 3: "49.990"}.get(exponent(currency))
    return _("Write it like %(example)s.", example=example or _("49.99 or 49,99"))
