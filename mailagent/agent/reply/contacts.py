"""Links, mail addresses, and telephone, card and account numbers in running text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

_BREAK = re.compile(r"[\s<>()\[\]{}\"'«»„“”|,;`*]+")
_SCHEME = re.compile(r"(?:https?|hxxps?|ftp|mailto|tel|sms|javascript|data):|//", re.IGNORECASE)
_HOST = re.compile(
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+([^\W\d_]{2,24})(?:[:/?#].*)?", re.IGNORECASE
)
_DISGUISED = re.compile(
    r"[\w.+-]{1,64} ?[(\[{] ?at ?[)\]}] ?[\w-]{1,64}|[\w-]{1,64} ?[(\[{] ?dot ?[)\]}]"
    # Spoken: "evil dot example". In French and German "point de" and "Punkt in" are no hosts.
    r"|[\w-]{1,64} (?:dot|punkt|point|punto) (?:com|net|org|info|biz|example|shop|io|app|site)\b",
    re.IGNORECASE,
)
# "is paid.The receipt": a forgotten space, unless a domain may end like that.
_FORGOTTEN_SPACE = re.compile(r"[^\W\d_]+\.[A-ZÄÖÜÉ][^\W\d_]+")
_FILE_ENDINGS = frozenset(
    "jpg jpeg png gif heic webp pdf txt doc docx xls xlsx csv eml mp4".split()
)
_DOMAIN_ENDINGS = frozenset("com net org example info biz shop de fr es eu uk io app site".split())

_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_LONG_NUMBER = re.compile(r"(?<![\w.])\+?\(?\d(?:[ ()/.-]{0,3}\d){7,40}")


def find_contacts(
    text: str, addresses: Collection[str], public_url: str, known_words: Collection[str]
) -> Iterator[str]:
    """Yield every link and mail address in `text` that is not one of the shop's own.

    `addresses` are those that may be named, and so may their domains. `known_words` are names of
    items, some of which look like host names.
    """
    hosts = {address.rpartition("@")[2] for address in addresses} | {urlsplit(public_url).hostname}
    for match in _DISGUISED.finditer(text):
        yield match[0]
    for raw in _BREAK.split(text):
        word = raw.strip(".:!?_…-")
        if _SCHEME.search(word):
            if not _is_own(word, public_url):
                yield word
        elif "@" in word.strip("@"):
            if word.lower() not in addresses:
                yield word
        elif _is_host(word) and word.lower() not in known_words and _host(word) not in hosts:
            yield word


def _is_own(link: str, public_url: str) -> bool:
    """Compare scheme and host as parsed: a prefix also fits https://shop.example@evil.example/."""
    try:
        mine, theirs = urlsplit(public_url), urlsplit(link)
    except ValueError:
        return False
    return (theirs.scheme.lower(), theirs.netloc.lower()) == (mine.scheme, mine.netloc.lower())


def _host(word: str) -> str:
    return re.split("[:/?#]", word.lower(), maxsplit=1)[0]


def _is_host(word: str) -> bool:
    match = _HOST.fullmatch(word)
    if match is None or match[1].lower() in _FILE_ENDINGS:
        return False
    return match[1].lower() in _DOMAIN_ENDINGS or not _FORGOTTEN_SPACE.fullmatch(word)


def find_long_numbers(text: str) -> Iterator[str]:
    """Yield what looks like a telephone, card or account number."""
    for pattern in (_IBAN, _LONG_NUMBER):
        for match in pattern.finditer(text):
            yield match[0].strip()
