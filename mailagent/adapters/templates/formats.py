"""Formats money, dates and texts of strangers for mails. It never rounds amounts."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache

from babel import Locale
from babel.dates import format_date, format_time
from babel.numbers import format_decimal
from markupsafe import Markup

from mailagent.domain.money import Money, exponent
from mailagent.domain.refunds.order import method_word
from mailagent.domain.text import tell_day, tell_moment


class Block(str):
    """A text that keeps its line breaks. The templates write every other text on one line."""

    __slots__ = ()


def marker_line(support_address: str) -> str:
    """Return the line that ends every mail to a customer, the same in all languages. By it we recognise a
    quotation of our own mail."""
    return f"~ {support_address} ~"


# A currency code in place of a symbol needs a space (KWD 1.500): CLDR says so, Babel leaves it out.
_NEXT_TO_A_CODE = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")


# The mails and pages of one refund write the same few amounts about twenty times.
@lru_cache(maxsize=1024)
def format_money(amount: Money, locale: Locale) -> str:
    """Return an amount as it is written in `locale`, with all of the currency's decimals.

    Babel's own number of decimals is that of cash: it would round 49.99 AFN to 50.
    """
    pattern = copy.copy(locale.currency_formats["standard"])
    pattern.frac_prec = (exponent(amount.currency),) * 2
    value = Decimal(amount.decimal())
    written = pattern.apply(value, locale, amount.currency, currency_digits=False)
    return _plain_spaces(_NEXT_TO_A_CODE.sub("\u00a0", written))


def format_number(number: int, locale: Locale) -> str:
    return _plain_spaces(format_decimal(number, locale=locale))


def format_day(day: date, locale: Locale) -> str:
    """Return a date in words; of a time, its date in UTC. English is as on our pages, 5 March 2026."""
    if isinstance(day, datetime):
        day = day.astimezone(UTC).date()
    if locale.language == "en":
        return tell_day(day)
    written = format_date(day, "long", locale)
    if locale.language == "fr" and day.day == 1:
        # The first is an ordinal in French; CLDR lacks it.
        written = re.sub(r"^1 ", "1er ", written)
    return _plain_spaces(written)


def format_moment(moment: datetime, locale: Locale) -> str:
    """Return a date and time of day in UTC, with "UTC"."""
    in_utc = moment.astimezone(UTC)
    if locale.language == "en":
        return tell_moment(in_utc)
    return _plain_spaces(
        f"{format_day(in_utc, locale)}, {format_time(in_utc, 'short', locale=locale)} UTC"
    )


def _plain_spaces(text: str) -> str:
    # CLDR uses the narrow no-break space, which old mail programs show as a box.
    return text.replace("\u202f", "\u00a0")


# Direction overrides change the order of the text around them, too.
_OVERRIDES = re.compile("[\u202a-\u202e\u2066-\u2069]")

_SPACES = re.compile(r"[^\S\u00a0]+")


def one_line(text: str) -> str:
    """Return `text` without line breaks, control characters and direction overrides. The spaces that
    hold an amount together stay."""
    if text.isprintable() and "  " not in text:
        return text.strip()  # what has to be removed is not printable
    shown = (" " if unicodedata.category(each) in ("Cc", "Zl", "Zp") else each for each in text)
    return _SPACES.sub(" ", _OVERRIDES.sub("", "".join(shown))).strip()


def plain(text: str) -> Block:
    """Return `text` with its line breaks as plain \\n and without other control characters."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    kept = "".join(each for each in lines if each == "\n" or unicodedata.category(each) != "Cc")
    return Block(_OVERRIDES.sub("", kept).strip())


def aligned(rows: Sequence[Sequence[str]]) -> Block:
    """Return the rows of a table as lines; all columns but the first are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join((name.ljust(widths[0]), *right)))
    return Block("\n".join(lines))


def quote(text: str) -> Block:
    """Return `text` as a quotation, each line behind "> ", so that no line looks like ours."""
    return Block("\n".join(f"> {line}".rstrip() for line in plain(text).splitlines()))


def paragraphs(text: str) -> Markup:
    """Return `text` as escaped HTML paragraphs, each in its own reading direction."""
    parts = [part for part in re.split(r"\n\s*\n", plain(text)) if part.strip()]
    return Markup("\n").join(
        Markup('<p dir="auto" style="margin:{}">{}</p>').format(
            "1em 0 0" if number else "0", Markup("<br>\n").join(part.splitlines())
        )
        for number, part in enumerate(parts)
    )


def named(method: str, names: Mapping[str, str], opens: bool = False) -> str:
    """Return the name of a payment method, or of several with a "+" between them. `names` has the names in the
    language, as within a sentence; `opens`: with a capital, because it begins a line."""
    parts = [each.strip() for each in method.split("+") if each.strip()]
    said = [names.get(method_word(part), part.replace("_", " ")) for part in parts]
    if opens and said and method_word(parts[0]) in names and said[0].split()[0].islower():
        said[0] = said[0][:1].upper() + said[0][1:]  # brands are written as they write themselves
    return " + ".join(said) or method
