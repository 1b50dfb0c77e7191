"""Masks what must not be stored, shown or sent to a model: card numbers, secrets, erased addresses."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# How many digits a card number has (ISO/IEC 7812-1). A longer group of digits is another number.
_LENGTHS = range(13, 20)
_LAST_KEPT = 4

_SEPARATORS = (
    "\u00a0\u2000-\u200a\u202f\u205f\u3000 \u00ad\u200b-\u200f\u2060\ufeff\u2010\u2011\u2013-"
)
_RUN = re.compile(rf"[0-9]++(?:[{_SEPARATORS}][0-9]++)*+")
_GROUP = re.compile(r"[0-9]+")
# How digits are grouped on cards: 4-4-4-4, with a shorter last or a fifth group, 4-6-5 and 4-6-4.
_EMBOSSED = re.compile(r"444[1-4][1-3]?|46[45]")
_GROUPS = range(3, 6)
_FIRST_DIGITS = "23456"  # of the networks that shops take

# Other marks between groups. Lists, dates and amounts have them, too, so that here a number must also begin
# like a card of a network, and have its groups.
_MARK = rf"[\t.,/_*|>\u2012\u2014\u2015\u2212{_SEPARATORS}]"
_BETWEEN = rf"(?:{_MARK}{{1,3}}|{_MARK}{{0,2}}\r?\n{_MARK}{{0,2}})"
# A look-ahead, which consumes nothing: a card may begin inside what looks like another one.
_SPACED_OUT = re.compile(
    rf"""(?<![0-9])(?=(
        (?:[4-6][0-9]|2[2-7]|35)[0-9]{{2}}(?:{_BETWEEN}[0-9]{{4}}){{3}}
        |3[47][0-9]{{2}}{_BETWEEN}[0-9]{{6}}{_BETWEEN}[0-9]{{5}}
        |3[0689][0-9]{{2}}{_BETWEEN}[0-9]{{6}}{_BETWEEN}[0-9]{{4}}
    )(?![0-9]))""",
    re.VERBOSE,
)
_DIGITS_SPACED_OUT = re.compile(rf"(?<![0-9])[0-9](?:{_BETWEEN}[0-9](?![0-9]))++")
_DIGIT = re.compile(r"\d")  # of any script
_FOREIGN_DIGITS = re.compile(r"[^\D0-9]+")
_NO_DIGITS = bytes(set(range(128)) - set(b"0123456789"))
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # and the digits of that added up


def mask_card_numbers(text: str) -> str:
    """Return `text` with asterisks in place of all but the last four digits of each card number. Its length
    does not change.

    A card number has 13 to 19 digits of any script and a valid Luhn sum (ISO/IEC 7812-1 annex B). Between
    single spaces or hyphens, digits may be grouped in any way; between up to three other marks or a line
    break, only as on a network's cards. Customers write an expiry date or an order number right beside the
    card, so in a longer run of numbers we also try groups as they are printed on cards.
    """
    if len(_DIGIT.findall(text)) < _LENGTHS.start:
        return text
    out = list(text)
    rest = _FOREIGN_DIGITS.sub(_folded, text)
    for find in (_close_spans, _spaced_out_spans):
        left = list(rest)
        for start, end in find(rest):
            digits = [at for at in range(start, end) if rest[at].isdecimal()]
            for at in digits[:-_LAST_KEPT]:
                out[at] = "*"
            left[start:end] = "x" * (end - start)
        rest = "".join(left)
    return "".join(out)


def _folded(match: re.Match[str]) -> str:
    return "".join(str(unicodedata.digit(digit)) for digit in match[0])


def _close_spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _RUN.finditer(text):
        at = match.start()
        for start, end in _card_spans(match[0]):
            if match.start() + start >= at:
                at = match.start() + end
                yield match.start() + start, at


def _card_spans(run: str) -> Iterator[tuple[int, int]]:
    if len(run) < _LENGTHS.start:
        return
    if _is_card(run):
        yield 0, len(run)
        return
    groups = [group.span() for group in _GROUP.finditer(run)]
    sizes = "".join(str(end - start) if end - start < 10 else "x" for start, end in groups)
    for first, (start, group_end) in enumerate(groups):
        if group_end - start in _LENGTHS and _is_card(run[start:group_end]):
            yield start, group_end
        elif run[start] in _FIRST_DIGITS:
            for last in (first + count for count in _GROUPS):
                end = groups[min(last, len(groups)) - 1][1]
                if _EMBOSSED.fullmatch(sizes, first, last) and _is_card(run[start:end]):
                    yield start, end
                    break


def _spaced_out_spans(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for match in _SPACED_OUT.finditer(text):
        start, end = match.span(1)
        if start >= at and _is_card(match[1]):
            at = end
            yield start, end
    for match in _DIGITS_SPACED_OUT.finditer(text):
        if match[0][0] in _FIRST_DIGITS and _is_card(match[0]):
            yield match.span()


def _is_card(text: str) -> bool:
    digits = text.encode("ascii", "ignore").translate(None, _NO_DIGITS)
    if len(digits) not in _LENGTHS:
        return False
    total = sum(digits[-1::-2]) + sum(digits[-2::-2].translate(_DOUBLED))
    return (total - ord("0") * len(digits)) % 10 == 0


# --- secrets --------------------------------------------------------------------------------------


_WORD = r"[A-Za-z0-9_-]"
# What mail programs put into a long word: zero-width characters, and line breaks with quotation marks, also in
# JSON's spelling. At most three at a time, so that no text makes the search slow.
_GAP = (
    r"(?:[\u00ad\u034f\u200b-\u200f\u2028\u2029\u2060\ufeff]"
    r"|(?:=|[ \t])?(?:\r\n|\n|\r|(?:\\r)?\\n)[ \t>|]{0,12}+){0,3}+"
)
# A slash in a path: plain, in links that a mail filter has rewritten (Proofpoint writes `_` and `-2F`), and in
# HTML.
_SLASH = r"(?:/|_|%(?:25){0,2}2f|-2f|&#0{0,4}47;|&#x0{0,4}2f;|&sol;)"


def _spread(word: str) -> str:
    return _GAP.join(map(re.escape, word))


def _long(least: int) -> str:
    """Return a pattern for a word of at least so many letters, also over several lines."""
    return rf"(?:{_WORD}{_GAP}){{{least - 1}}}{_WORD}(?:{_WORD}|[.~])*+"


SECRET_LENGTH = 43  # of a signature and of a login's secret, as base64 writes 256 bits
# Every token of an approval is signed JSON that begins with `["approval_`, as base64 writes it.
_BEGINNING = "WyJhcHByb3ZhbF"
_APPROVAL = re.compile(
    rf"{_spread(_BEGINNING)}{_GAP}"
    rf"(?:(?:{_WORD}{_GAP}){{4,600}}?\.{_GAP}{_long(SECRET_LENGTH)}|(?:{_WORD}|[.~])*+)"
)
# itsdangerous compresses some tokens. Such a token has no known beginning; `.eJ` and its signature show it.
_COMPRESSED = re.compile(rf"\.eJ{_WORD}{{20,600}}+\.{_WORD}{{{SECRET_LENGTH}}}(?!{_WORD})")
_LINK = re.compile(
    rf"{_SLASH}{_GAP}(approvals|helped|ops{_SLASH}login){_SLASH}{_GAP}"
    rf"(?:{_long(SECRET_LENGTH)}|(?<![\s>|])[A-Za-z0-9_.~-]{{8,}})",
    re.IGNORECASE,
)
_SECRET = re.compile(rf"(?<!{_WORD}){_long(SECRET_LENGTH)}")
_GAPS = re.compile(_GAP)


def without_keys(text: str, is_secret: Callable[[str], bool] | None = None) -> str:
    """Return a text with "…" in place of approval tokens and of links that log in: a reader could decide on a
    refund or log in with them.

    `is_secret` says whether a word of `SECRET_LENGTH` characters is the secret of a login; without it, only
    complete links are replaced.
    """
    text = _APPROVAL.sub("…", text)
    text = _COMPRESSED.sub("…", text)
    text = _LINK.sub(lambda found: f"/{_plain(found[1])}/…", text)
    return _SECRET.sub(lambda found: _judged(found[0], is_secret), text) if is_secret else text


def _plain(path: str) -> str:
    return {"a": "approvals", "h": "helped"}.get(path[0].lower(), "ops/login")


def _judged(found: str, is_secret: Callable[[str], bool]) -> str:
    """Return "…" for a long word that begins or ends with a secret, else the word."""
    word = _GAPS.sub("", found).rstrip(".")
    ends = (word[:SECRET_LENGTH], word[-SECRET_LENGTH:])
    return "…" if any(is_secret(each) for each in ends) else found


# The same for the bytes of files. We remove the gaps first, because patterns with gaps are slow on megabytes.
_ANY = re.compile(
    rf"{_BEGINNING}|\.eJ{_WORD}{{20,600}}+\.{_WORD}{{{SECRET_LENGTH}}}"
    rf"|ops(?i:{_SLASH})login(?i:{_SLASH}){_WORD}{{{SECRET_LENGTH}}}".encode()
)
_ALONE = re.compile(rf"(?<!{_WORD}){_WORD}{{{SECRET_LENGTH}}}(?!{_WORD})".encode())
_GAP_BYTES = b" \t\r\n\0>|="
_NO_WIDTH = tuple(sign.encode() for sign in "\u00ad\u200b\u200c\u200d\u2060\ufeff")


def holds_key(data: bytes, is_secret: Callable[[str], bool] | None = None) -> bool:
    """Return whether the bytes of a file have a secret that `without_keys` would remove from a text."""
    dense = data.translate(None, _GAP_BYTES)
    for sign in _NO_WIDTH:
        dense = dense.replace(sign, b"")
    if _ANY.search(dense):
        return True
    return is_secret is not None and any(is_secret(each.decode()) for each in _ALONE.findall(data))


# --- links ----------------------------------------------------------------------------------------


_DOT_IN_NAME = re.compile(r"(?<=\w)([.\u3002\uff0e\uff61])(?=[^\W\d_]{2})")


def inert(text: str) -> str:
    """Return `text` with URLs and mail addresses broken up, so that no mail program makes links of them:
    `https[:]//evil[.]example`. The marks are visible, because invisible ones get lost in copying."""
    return _DOT_IN_NAME.sub(r"[\1]", text.replace("://", "[:]//"))


def inert_address(address: str) -> str:
    """Return a mail address; broken up if mail programs may make a link of its start (`evil.example/a@…`)."""
    local = address.rpartition("@")[0]
    return inert(address) if any(sign in local for sign in "/?#") else address


# --- mention --------------------------------------------------------------------------------------


# What would make a match only the end of a longer address. RFC 5322 (section 3.2.3) also allows characters that
# people put around addresses: those count only behind a letter or digit (`o'ada@…`, but not `'ada@…'`). The
# characters that links and returned mail put before an address (`/`, `=`, `&`, `?`, `|`) never count.
_GOES_ON_BEFORE = r"(?<![\w.+-])(?<!\w[!#$%'*^`{}~])(?<!\w&#39;)(?<!\w\[\.\])"
# What would make a match only the beginning of a longer address: a full stop or hyphen only if letters follow.
_GOES_ON_BEHIND = r"(?![^\W_]|\.\w|\[\.\]\w|-+\w)"


class Mention:
    """Finds a stored address in texts, but not as a part of a longer address. ASCII letters match in either
    case, letters of other scripts do not, as in `normalise_address`."""

    def __init__(self, email: str) -> None:
        in_html = html.escape(email).replace("&#x27;", "&#39;")  # Jinja writes &#39;
        # Our own mails put the full stops of other people's texts in brackets (`inert`).
        spellings = {
            re.escape(spelt).replace(r"\.", r"(?:\.|\[\.\])") for spelt in (email, in_html)
        }
        # A part that every text with the address has, apart from capitals: for a coarse search in SQL.
        self.core = next(part for part in email.split(".") if "@" in part)
        either = "|".join(sorted(spellings, key=len, reverse=True))
        self._pattern = re.compile(f"{_GOES_ON_BEFORE}(?ai:{either}){_GOES_ON_BEHIND}")

    def is_in(self, *texts: str | None) -> bool:
        """Return whether any of the texts names the address."""
        return any(self._pattern.search(text) for text in texts if text)

    def replaced(self, text: str, alias: str) -> str:
        """Return `text` with `alias` in place of the address."""
        return self._pattern.sub(alias, text)

    def replaced_within(self, value: Any, alias: str) -> Any:
        """Return a JSON value with `alias` in place of the address, also in keys."""
        if isinstance(value, str):
            return self.replaced(value, alias)
        if isinstance(value, Mapping):
            return {
                self.replaced(key, alias): self.replaced_within(each, alias)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.replaced_within(each, alias) for each in value]
        return value
