"""Texts that people type or read: allowed characters, names, search queries, messages with facts, and errors
in one line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from mailagent.domain.masking import mask
from mailagent.domain.money import Money

# Stands for the name of an erased customer, and for what people wrote about them.
ERASED_NAME = "erased"
# PostgreSQL refuses NUL, every database refuses a lone surrogate, and terminals act on the others.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROLS_AND_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def without_controls(text: str) -> str:
    """Return `text` without control characters (tabs stay) and lone surrogates; lines end in a line feed."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def storable(value: Any) -> Any:
    """Return JSON data without NUL, which PostgreSQL refuses, and lone surrogates, which are not UTF-8."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [storable(each) for each in value]
    if isinstance(value, dict):
        return {storable(key): storable(each) for key, each in value.items()}
    return value


def is_one_line(text: str) -> bool:
    """Return whether `text` is one line without control characters and lone surrogates."""
    return _CONTROLS_AND_BREAKS.search(text) is None


def tell_day(day: date) -> str:
    """Return a date in English, as our pages and mails write it: 5 March 2026."""
    return f"{day.day} {day:%B %Y}"


def tell_moment(moment: datetime) -> str:
    """Return a time (UTC) in English, as our pages and mails write it: 5 March 2026, 09:30 UTC."""
    return f"{tell_day(moment)}, {moment:%H:%M} UTC"


# A function such as `fill`, which may also translate the message. Callers name the parameter `_`, as gettext
# does.
Fill = Callable[..., str]


def fill(message: str, **facts: object) -> str:
    """Return an English message with its `facts` in place of placeholders such as `%(amount)s`. Money, times
    and whole numbers get the form in which people of the shop read them."""
    return message % {name: _tell(fact) for name, fact in facts.items()}


def _tell(fact: object) -> object:
    match fact:
        case Money():
            return fact.tell()
        case datetime():
            return tell_moment(fact)
        case int():
            return f"{fact:,}"
    return fact


NAME_MAX_LENGTH = 60
# Allowed between the letters of a name. A dot within a word is not, because mail programs make links of it.
_NAME_MARKS = " .,-'’"


def name_to_greet(name: str) -> str | None:
    """Return a person's name for a greeting; None if the text may be something else, such as a link."""
    name = name.strip()
    is_plain = all(unicodedata.category(each)[0] in "LM" or each in _NAME_MARKS for each in name)
    if not name or len(name) > NAME_MAX_LENGTH or not is_plain or re.search(r"\.\S", name):
        return None
    return name


def name_in_address(address: str) -> str:
    """Return the name that an address gives a person: `Tess Team` for tess.team@shop.example."""
    words = re.split(r"[._+-]+", address.partition("@")[0])
    return " ".join(word[:1].upper() + word[1:] for word in words if word)


# --- search words ---------------------------------------------------------------------------------


# A phrase without its second quotation mark extends to the end of the query.
_TOKEN = re.compile(r'(?P<minus>(?:-\s*)*)(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_EDGES = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True, slots=True)
class Term:
    """A word, or a phrase with one space between its words. `wanted`: False for a term behind a minus, which
    must not match."""

    text: str
    wanted: bool = True


Alternatives = tuple[tuple[Term, ...], ...]


def parse_search(typed: str) -> Alternatives:
    """Return the alternatives of a search query; all terms of one alternative must match. A query without
    words has no alternatives, and finds nothing.

    "or" separates alternatives; at the beginning and at the end of the query it is a word.
    """
    alternatives: list[list[Term]] = [[]]
    after_term = False
    for token in _TOKEN.finditer(typed):
        is_or = (token["word"] or "").casefold() == "or" and not token["minus"]
        if is_or and after_term and typed[token.end() :].strip():
            alternatives.append([])
            after_term = False
            continue
        words = (_EDGES.sub("", word) for word in (token["phrase"] or token["word"] or "").split())
        text = " ".join(filter(None, words))
        if text:
            wanted = token["minus"].count("-") % 2 == 0
            alternatives[-1].append(Term(text, wanted))
            after_term = True
    return tuple(tuple(terms) for terms in alternatives if terms)


def write_search(typed: str) -> str:
    """Return the query in a form that PostgreSQL's `websearch_to_tsquery` accepts, which refuses 40 minus signs
    in a row, for example; empty if there are no words."""
    return " or ".join(
        " ".join(f'{"" if term.wanted else "-"}"{term.text}"' for term in terms)
        for terms in parse_search(typed)
    )


# --- failure --------------------------------------------------------------------------------------


LONGEST = 300


class NeedsOperatorError(RuntimeError):
    """A workflow cannot go on until an operator fixes something. DBOS stores the text and its console shows
    it, so write only ids, kinds and reasons."""


def error_message(kind: str, text: str) -> str:
    """Return the text of an error of a type. Python quotes a KeyError's text, and a quoted sentence would be
    masked."""
    return text[1:-1] if kind == "KeyError" and " " in text else text


# A line is cut here before it is masked, because masking long lines is slow.
_LONGEST_MASKED = 2_000


def tell_error(text: str | None) -> str:
    """Return the first line of an error without control characters, at most LONGEST characters, masked by
    `masking.mask`."""
    lines = without_controls(text or "").strip().splitlines() or ["no reason is on record"]
    told = mask(lines[0][:_LONGEST_MASKED])
    return told if len(told) <= LONGEST else told[: LONGEST - 1] + "…"
