"""Amounts and dates in running text, as people write them in English, German, French and Spanish.

A figure that can be read in several ways keeps all readings. Whether one is true is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from mailagent.domain.money import Money, exponent

_DOLLARS = ("USD", "CAD", "AUD", "NZD", "SGD", "HKD", "MXN", "TWD", "BRL", "ARS", "CLP", "COP")
_KRONER = ("SEK", "NOK", "DKK", "ISK")
_WITH_CENTS = ("USD", "EUR", "GBP", "CAD", "AUD", "CHF")

_SIGNS: dict[str, tuple[str, ...]] = {
    **{"us$": ("USD",), "c$": ("CAD",), "ca$": ("CAD",), "a$": ("AUD",), "r$": ("BRL",)},
    **{"$": _DOLLARS, "€": ("EUR",), "£": ("GBP",), "¥": ("JPY", "CNY"), "₹": ("INR",)},
    **{"₩": ("KRW",), "₽": ("RUB",), "₺": ("TRY",), "₪": ("ILS",), "₴": ("UAH",), "₫": ("VND",)},
    **{"zł": ("PLN",), "kč": ("CZK",), "kr": _KRONER, "fr": ("CHF",)},
}
_WORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("dollar", "dollars", "dólar", "dólares", "bucks"), _DOLLARS),
    **dict.fromkeys(("euro", "euros"), ("EUR",)),
    **dict.fromkeys(
        ("pound", "pounds", "quid", "pfund", "livre", "livres", "libra", "libras"), ("GBP",)
    ),
    **dict.fromkeys(("franc", "francs", "franken", "franco", "francos"), ("CHF", "XOF", "XAF")),
    **dict.fromkeys(("yen", "yens", "yenes"), ("JPY",)),
}
_CENTS = frozenset("cent cents centimes céntimo céntimos centavos pence".split())
# ISO 4217, table A.1: what people trade with. Three capitals beside a number may be anything else.
_CODES = frozenset(
    "AED ARS AUD BGN BHD BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JOD JPY"
    " KES KRW KWD MAD MXN MYR NGN NOK NZD OMR PEN PHP PKR PLN QAR RON RSD RUB SAR SEK SGD THB TND"
    " TRY TWD UAH USD VND XAF XOF ZAR".split()
)
_LOWER_CODES = frozenset("usd eur gbp chf cad aud jpy".split())  # "try" and "all" are also words

# "fifty euros": a sum in words cannot be compared, so it is found as an amount without a reading.
_SPELLED = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred"
    r"|thousand|ein|einen|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|\w+zehn|\w+zig"
    r"|dreißig|\w*hundert|\w*tausend|un|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|vingt|trente"
    r"|\w+ante|cents?|mille|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|veinte|\w+enta"
    r"|cien|ciento|\w*cientos|mil)[ -](?:us[- ])?"
    r"(?:dollars?|euros?|pounds?|pfund|livres|libras|francs?|franken|francos|yen|dólares|bucks|quid)\b",
    re.IGNORECASE,
)

_NUMBER = re.compile(
    r"(?<![\w.,])(?:\d{1,3}(?:[.,' ]\d{3}){1,4}|\d{1,12})(?:[.,]\d{1,3})?(?![\d])(?:[.,][-–—]+)?"
)
_AFTER = re.compile(r"\s?(us\$|c\$|ca\$|a\$|r\$|[$€£¥₹₩₽₺₪₴₫]|[^\W\d_]+)", re.IGNORECASE)
_BEFORE = re.compile(
    r"(?:(us\$|ca\$|c\$|a\$|r\$|[$€£¥₹₩₽₺₪₴₫])|(?<![^\W\d_])([^\W\d_]{2,4}\.?))\s?$", re.IGNORECASE
)
_MULTIPLIED = re.compile(
    r"\s?(?:k|tsd|mio|thousand|tausend|mille|mil|millions?|millionen|millones)\b\.?", re.IGNORECASE
)
_BARE = re.compile(r"\d+[.,]\d{2}")
_MEASURED = re.compile(
    r"\s?(?:%|°|[\"”″]|x\b|(?:[kmc]?g|m?l|cl|[kcm]?m|inch|inches|in|ft|lbs?|oz|k?w|v|m?ah|[gtm]b|g?hz"
    r"|uhr|h|am|pm|p\.m|a\.m|liter|litres?|litros?|meter|metres?|metros?|stars?|sterne|étoiles)\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount in a text. Without a currency beside it, `bare` digits may be of any currency."""

    start: int
    end: int
    text: str
    readings: frozenset[Money]
    bare: frozenset[Decimal] = frozenset()

    @property
    def is_nothing(self) -> bool:
        """Whether it is zero, which is the same in any currency."""
        return Decimal(0) in self.bare or any(money.minor == 0 for money in self.readings)

    def is_one_of(self, amounts: Set[Money]) -> bool:
        """Say whether one reading is among `amounts`."""
        if not self.readings.isdisjoint(amounts):
            return True
        return bool(self.bare) and any(Decimal(each.decimal()) in self.bare for each in amounts)


def find_amounts(text: str) -> tuple[Amount, ...]:
    """Return the amounts of money in `text`: numbers with a currency, and bare ones like 49.99."""
    figures = (_amount(text, match) for match in _NUMBER.finditer(text))
    spelled = (
        Amount(match.start(), match.end(), match[0], frozenset())
        for match in _SPELLED.finditer(text)
    )
    return (*(amount for amount in figures if amount is not None), *spelled)


def _amount(text: str, number: re.Match[str]) -> Amount | None:
    values = tuple(_values(number[0]))
    multiplied = _MULTIPLIED.match(text, number.end())
    after = _AFTER.match(text, multiplied.end() if multiplied else number.end())
    before = _BEFORE.search(text, max(0, number.start() - 6), number.start())
    left = _currencies((before[1] or before[2]).rstrip("."), False) if before else ()
    right = _currencies(after[1], True) if after else ()
    cents = after is not None and after[1].lower() in _CENTS
    if left or right or cents:
        start = before.start() if before and left else number.start()
        end = after.end() if after and (right or cents) else number.end()
        readings = frozenset(() if multiplied else _readings(values, (*left, *right), cents))
        return Amount(start, end, text[start:end].strip(), readings)
    if not _BARE.fullmatch(number[0]) or _MEASURED.match(text, number.end()):
        return None
    bare = frozenset(value for value, _ in values)
    return Amount(number.start(), number.end(), number[0], frozenset(), bare)


def _currencies(name: str, follows: bool) -> tuple[str, ...]:
    lowered = name.lower()
    if name in _CODES or lowered in _LOWER_CODES:
        return (name.upper(),)
    return _SIGNS.get(lowered) or (_WORDS.get(lowered, ()) if follows else ())


def _values(number: str) -> Iterable[tuple[Decimal, int]]:
    """Yield each value that the digits can stand for, with the number of decimals it was read with."""
    digits = number.rstrip("-–—").rstrip(".,").replace(" ", "").replace("'", "")
    marks = [mark for mark in digits if mark in ".,"]
    if not marks:
        yield Decimal(digits), 0
        return
    whole, _, decimals = digits.rpartition(marks[-1])
    plain = whole.replace(".", "").replace(",", "")
    if len(decimals) == 3 and len(set(marks)) == 1:
        yield Decimal(plain + decimals), 0
    if marks.count(marks[-1]) == 1:
        yield Decimal(f"{plain}.{decimals}"), len(decimals)


def _readings(
    values: Iterable[tuple[Decimal, int]], currencies: Iterable[str], cents: bool
) -> Iterable[Money]:
    for value, decimals in values:
        if cents and decimals == 0:
            yield from (Money(int(value), currency) for currency in _WITH_CENTS)
        for currency in currencies:
            minor = value.scaleb(exponent(currency))
            # "1.234 EUR" is a thousand and more: only a currency of mills has three decimals.
            if (decimals < 3 or exponent(currency) == 3) and minor == minor.to_integral_value():
                yield Money(int(minor), currency)


_MONTH_NAMES = (
    "january jan januar januari janvier janv enero ene",
    "february feb februar février févr febrero",
    "march märz maerz mrz mär mars marzo",
    "april apr avril avr abril abr",
    "may mai mayo",
    "june jun juni juin junio",
    "july jul juli juillet juil julio",
    "august aug août agosto",
    "september sept sep septembre septiembre",
    "october oct oktober okt octobre octubre",
    "november nov novembre noviembre",
    "december dec dezember dez décembre déc diciembre dic",
)
_MONTHS = {
    name: number for number, names in enumerate(_MONTH_NAMES, start=1) for name in names.split()
}
_MONTH = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"

_DATES = (
    # 2026-12-04
    re.compile(r"(?<![\d-])(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?![\d-])"),
    # 4 December 2026, 4. Dezember, 1er décembre 2026, 4 de diciembre de 2026, 4th of December
    re.compile(
        r"(?<!\d)(?P<d>\d{1,2})(?:st|nd|rd|th|er|º|o|\.)? (?:of |de )?"
        rf"(?P<name>{_MONTH})(?:,? (?:de |del )?(?P<y>\d{{4}})(?!\d))?",
        re.IGNORECASE,
    ),
    # December 4, 2026
    re.compile(
        rf"\b(?P<name>{_MONTH}) (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,? (?P<y>\d{{4}})(?!\d))?",
        re.IGNORECASE,
    ),
    # December 2026
    re.compile(rf"\b(?P<name>{_MONTH}) (?:de )?(?P<y>\d{{4}})(?!\d)", re.IGNORECASE),
    # 04.12.2026, 12/04/2026, 4-12-26
    re.compile(
        r"(?<![\d./-])(?P<d>\d{1,2})(?P<mark>[./-])(?P<m>\d{1,2})(?P=mark)"
        r"(?P<y>\d{4}|\d{2})(?![\d/-])"
    ),
    # 4.12.
    re.compile(r"(?<![\d.])(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?!\d)"),
)


@dataclass(frozen=True, slots=True)
class DateFigure:
    """A date in a text; each reading is (year, month, day), with None for what is not said."""

    start: int
    end: int
    text: str
    readings: tuple[tuple[int | None, int, int | None], ...]

    def is_one_of(self, dates: Iterable[date]) -> bool:
        return any(
            month == each.month and year in (None, each.year) and day in (None, each.day)
            for each in dates
            for year, month, day in self.readings
        )


def find_dates(text: str) -> tuple[DateFigure, ...]:
    """Return the calendar dates in `text`, each once."""
    found: list[DateFigure] = []
    rest = text
    for pattern in _DATES:
        for match in pattern.finditer(rest):
            readings = tuple(_date_readings(match.groupdict()))
            if readings and match.groupdict().get("name") != "may":
                found.append(DateFigure(match.start(), match.end(), match[0].strip(), readings))
        rest = blank(rest, found)
    return tuple(sorted(found, key=lambda figure: figure.start))


def _date_readings(parts: dict[str, str | None]) -> Iterable[tuple[int | None, int, int | None]]:
    year = _number(parts.get("y"))
    if year is not None and year < 100:
        year += 2000
    day = _number(parts.get("d"))
    if parts.get("name"):
        yield year, _MONTHS[str(parts["name"]).lower().rstrip(".")], day
        return
    first, second = day or 0, _number(parts.get("m")) or 0
    if 1 <= second <= 12 and 1 <= first <= 31:
        yield year, second, first
    # Americans write the month first.
    if parts.get("mark") and 1 <= first <= 12 and 1 <= second <= 31:
        yield year, first, second


def _number(digits: str | None) -> int | None:
    return int(digits) if digits else None


def blank(text: str, figures: Iterable[Amount | DateFigure], filler: str = " ") -> str:
    """Return `text` with every figure overwritten, so that places in it stay the same."""
    pieces, at = [], 0
    for figure in sorted(figures, key=lambda each: each.start):
        start = max(at, figure.start)
        if start < figure.end:
            pieces += [text[at:start], filler * (figure.end - start)]
            at = figure.end
    return "".join([*pieces, text[at:]])
