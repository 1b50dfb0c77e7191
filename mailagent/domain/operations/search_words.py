"""What somebody typed to search for words: quotes hold a phrase, a minus is without, "or" is either.

The same meaning that PostgreSQL's `websearch_to_tsquery` gives it, for a database that has no such thing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A phrase without its second quote goes on to the end.
_TOKEN = re.compile(r'(?P<minus>(?:-\s*)*)(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_EDGES = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True, slots=True)
class Term:
    """A word, or a phrase with one space between its words; to be had, or not to be had."""

    text: str
    wanted: bool = True


Alternatives = tuple[tuple[Term, ...], ...]


def parse_search(typed: str) -> Alternatives:
    """Return what has to hold: one of the alternatives, and of that one every term. Nothing that can be
    looked for is no alternative, and finds nothing.

    "or" binds less than standing beside each other; at the beginning and at the end it is a word.
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
    """Return what was typed with the same meaning for `websearch_to_tsquery`, without what that refuses, such
    as 40 minus signs in a row; nothing, if there is nothing to look for."""
    return " or ".join(
        " ".join(f'{"" if term.wanted else "-"}"{term.text}"' for term in terms)
        for terms in parse_search(typed)
    )
