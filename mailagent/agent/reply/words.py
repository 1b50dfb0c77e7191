"""Checks the words of a reply: they may state nothing, since facts are named and written by code.

Three checks. First, marks, figures and foreign letters, in any language. Second, each sentence must
be a question, or in each clause plainly thanks, sympathy, a greeting or a closing. Third, no
sentence may have a stem of what only facts may state, or of a word for the facts or the record,
because it could deny a fact. The last two use short lists, one file for each language in `stems`.
They miss some statements, so a second reader must agree before words are sent.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mailagent.domain.mail.language import find_language

_STEMS = Path(__file__).with_name("stems")


@dataclass(frozen=True, slots=True)
class Finding:
    """A piece of text that may state something, of a kind such as `money`, `statement` or `letters`."""

    kind: str
    text: str


_TITLES = "".join(rf"(?<!\b{title}\.)" for title in ("Mr", "Mrs", "Ms", "Dr", "Sr", "Sra", "Exmos"))
_END_OF_SENTENCE = re.compile(rf"(?<=[.!?:;…]){_TITLES}\s+|\s*\n\s*|\s[–—-]\s")


def find_statements(
    words: str, language: str, known: Collection[str], reader_language: str | None = None
) -> list[Finding]:
    """Return what may state something in `words`, at most one finding of each kind.

    `language` is the one that the model named, `reader_language` the customer's; `known` are order numbers
    and item names, which may be repeated.
    """
    text = unicodedata.normalize("NFKC", words).replace("’", "'").replace("`", "'")
    found = [*_marks(text), *_figures(text, known)]
    if is_checked(language):
        found += _strange_letters(text, known)
    elif reader_language is not None:
        found.append(Finding("language", language))  # the customer reads one that can be checked
    for name in sorted(known, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", text, flags=re.IGNORECASE)
    always = {"en", language[:2], reader_language, find_language(text)}
    for sentence in _END_OF_SENTENCE.split(text):
        written = find_language(sentence)
        spoken = _with_stems(always | {written})
        folded = _folded(sentence)
        for each in spoken:
            found += (one for one in _stems_in(folded, each) if not _is_asked(one, folded))
        if (is_checked(language) or written) and not _is_harmless(folded, spoken):
            found.append(Finding("statement", sentence.strip()))
    return list({finding.kind: finding for finding in reversed(found)}.values())[::-1]


def _with_stems(languages: Collection[str | None]) -> list[str]:
    return [each for each in sorted(filter(None, languages)) if is_checked(each)]


@cache
def is_checked(language: str) -> bool:
    """Return whether there are stems for a language, such as `de`."""
    return (_STEMS / f"{language[:2]}.toml").is_file()


def _strange_letters(text: str, known: Collection[str]) -> Iterator[Finding]:
    """Yield what no language with stems is written in: other alphabets, small capitals, pictures."""
    for name in known:
        text = text.replace(unicodedata.normalize("NFKC", name), " ")
    strange = re.sub(rf"[\sa-z\d{_MARKS_OF_WRITING}{_MORE_LETTERS}]+", "", _folded(text))
    if strange:
        yield Finding("letters", strange[:40])


# --- marks and figures ------------------------------------------------------------------------------

_HOST = r"[^\W_](?:[\w-]*[^\W_])?"
_MARKS = (
    ("contact", re.compile(r"(?:https?|hxxps?|ftp|mailto|tel|sms|data)\s?:|//|www\b|\S*@\S*", re.I)),
    # A host: no blank after the full stop, or the ending of a domain behind it.
    ("contact", re.compile(rf"{_HOST}\s?\.\s?(?:com|net|org|info|biz|shop|io|app|site|top|xyz)\b", re.I)),
    ("contact", re.compile(rf"(?<!\w){_HOST}\.[^\W\d_]{{2,24}}(?:[/:?#]\S*)?(?!\w)")),
    ("contact", re.compile(r"[(\[{<]\s?(?:at|dot|punkt|point|punto|ponto|kropka|chiocciola)\s?[)\]}>]", re.I)),
    ("contact", re.compile(r"\b[A-Za-z0-9]{24,}\b")),
    ("money", re.compile(r"[$€£¥₿₹%‰]|\b(?:USD|EUR|GBP|CHF|PLN|JPY|CAD|AUD|BRL|BTC|ETH|USDT)\b")),
    ("code", re.compile(r"[{}<>\[\]|\\]|\w_\w|\*\*|^#+ |^\s*[-*] \S+:", re.M)),
)  # fmt: skip
# Letters that are none of a to z without their accents: "ł" and "ß" are folded.
_MORE_LETTERS = "æœø"
_MARKS_OF_WRITING = re.escape(".,:;!?¡¿…'\"„“”‚‘«»‹›()-–—&/+#")
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ .*_~-]{1,2}[^\W\d_](?![^\W_])){3,}")
_HIDDEN = frozenset({"Cf", "Cc", "Co", "Cn"})
# Letters and marks that are drawn as nothing, in no category of their own.
_DRAWN_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]"
)


def _marks(text: str) -> Iterator[Finding]:
    for kind, pattern in _MARKS:
        match = pattern.search(text)
        if match:
            yield Finding(kind, match[0])
    spaced = _SPACED.search(text)
    if spaced:
        yield Finding("letters", spaced[0])
    for word in re.findall(r"[^\W\d_]+", text):
        if len({_script(letter) for letter in word}) > 1:
            yield Finding("letters", word)
    is_hidden = (unicodedata.category(each) in _HIDDEN and each not in "\n\t\r" for each in text)
    if any(is_hidden) or _DRAWN_AS_NOTHING.search(text):
        yield Finding("letters", "a hidden character")


@cache
def _script(letter: str) -> str:
    """Return the alphabet of a letter: the first word of its name in Unicode. Japanese is written in three."""
    if unicodedata.combining(letter):
        return ""
    return re.sub("^(HIRA|KATA).*", "CJK", unicodedata.name(letter, "?").split()[0])


def _figures(text: str, known: Collection[str]) -> Iterator[Finding]:
    allowed = {name.casefold().lstrip("#") for name in known}
    allowed |= {part for name in allowed for part in re.split(r"[^\w-]+", name)}
    for match in re.finditer(
        r"[^\s,;:!?()\"'„“”«»…]*[^\W\D][^\s,;:!?()\"'„“”«»…]*|[^\s\w]*[\u00bc-\u00be\u2150-\u218b\u2460-\u24ff]",
        text,
    ):
        if match[0].casefold().strip("#.") not in allowed:
            yield Finding("figure", match[0])


# --- stems ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stems:
    allowed: re.Pattern[str]
    safe: re.Pattern[str]
    by_kind: tuple[tuple[str, re.Pattern[str]], ...]


@cache
def _stems(language: str) -> _Stems:
    """Read a file of stems.

    Between blanks stand beginnings of words. `=word`: the whole word; `*stem`: anywhere in a word; `_`: a blank
    or a hyphen. `allowed` has what is harmless although a stem is in it.
    """
    lists = tomllib.loads((_STEMS / f"{language[:2]}.toml").read_text("utf-8"))
    allowed, safe = _pattern(lists.pop("allowed")), _pattern(lists.pop("safe"))
    return _Stems(allowed, safe, tuple((kind, _pattern(stems)) for kind, stems in lists.items()))


def _pattern(stems: str) -> re.Pattern[str]:
    found = []
    for stem in _folded(stems).split():
        body = re.escape(stem.lstrip("=*")).replace("_", r"[\s-]+")
        before = r"\w*" if stem.startswith("*") else r"(?<!\w)"
        found.append(before + body + (r"(?!\w)" if stem.startswith("=") else r"\w*"))
    return re.compile("|".join(found))


def _folded(text: str) -> str:
    """Return text in small letters without accents: `Rückgabe` as `ruckgabe`."""
    plain = unicodedata.normalize("NFD", text.casefold().replace("ł", "l").replace("ß", "ss"))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


# So few words beside the polite ones add nothing: "sorry, Mrs Baker, for the trouble".
_OTHER_WORDS = 3
# Clauses that begin with these belong to the one before: "sorry that", "schade, wenn".
_BELONGING = frozenset(
    "that when if dass wenn que quand che quando dat als ze gdy jesli co ktory ktora ktore".split()
)


def _is_harmless(folded: str, languages: Collection[str]) -> bool:
    """Return whether a sentence is a question, or each of its clauses plainly polite."""
    if folded.rstrip().endswith("?") or not re.search(r"\w", folded):
        return True
    if not _is_polite(folded, languages):
        return False
    clauses = [each for each in re.split(r",\s", folded) if not _is_polite(each, languages)]
    spoken = [re.findall(r"\w+", each) for each in clauses]
    return (
        sum(len(each) for each in spoken if each[:1] and each[0] not in _BELONGING) <= _OTHER_WORDS
    )


def _is_polite(folded: str, languages: Collection[str]) -> bool:
    return any(_stems(language).safe.search(folded) for language in languages)


def _is_asked(found: Finding, folded: str) -> bool:
    """Return whether a question asks what became of something: "Has the parcel arrived?"."""
    return found.kind == "change" and folded.rstrip().endswith("?")


def _stems_in(folded: str, language: str) -> Iterator[Finding]:
    stems = _stems(language)
    text = stems.allowed.sub(" ", folded)
    for kind, pattern in stems.by_kind:
        match = pattern.search(text)
        if match:
            yield Finding(kind, match[0].strip())
