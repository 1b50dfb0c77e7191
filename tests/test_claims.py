"""Each figure and each guarantee in README.md, guides and decisions is in claims.toml, with what shows it.

A claim is a sentence, a row of a table or a comment of a shell block. What programs write is left out: the
tables of measurements, and the reference. Of a decision, the sections "Decision" and "Consequences" are held
to the list; its context tells what was seen then.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.programs.full_run.parts import load_parts

ROOT = Path(__file__).parent.parent
GUIDES = {f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md")}
DECISIONS = {f"docs/decisions/{each.name}" for each in (ROOT / "docs" / "decisions").glob("*.md")}
# The first hour tells what was seen on one day.
DOCUMENTS = {"README.md"} | GUIDES - {"docs/reference.md", "docs/first-hour.md"} | DECISIONS
CLAIMS = tomllib.loads((ROOT / "tests" / "claims.toml").read_text("utf-8"))

_WRITTEN_BY_PROGRAMS = re.compile(r"<!-- (?!end)[^>]*-->.*?<!-- end of [^>]*-->", re.DOTALL)
_SECTION_THAT_HOLDS = re.compile(
    r"^## (?:Decision|Consequences)\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE
)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\)?\s+(?=[A-Z`\"*\d(])")

_NUMBER = (
    r"(?<![\w.,=-])(?:\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|"
    r"thirty|forty|fifty|sixty|(?:a )?(?:dozen|hundred|thousand|million))"
)
_TIME = r"(?:ms|millisecond|s|second|minute|hour|day|week|month|year)"
_OTHER_UNITS = (
    r"(?:[kMG]i?B|KB|KiB|byte|character|token|bit|core|%|percent|×|time|mail|message|call|turn|attempt|"
    r"connection|thread|request|order|transaction|conversation|run|row|refund|address|addresses|failure|"
    r"people|language|customer|worker|sample|task|repl(?:y|ies)|answer|photo|reminder|click|alert|web process)"
)
FIGURE = re.compile(
    rf"{_NUMBER}(?: more| other| unfinished| automatic| wrong| web)?[ -]?(?:{_TIME}|{_OTHER_UNITS})(?:s|es)?\b"
    rf"|{_NUMBER} ?[%×]|{_NUMBER} a second|\b(?:a|an|each|every) (?!second){_TIME}\b",
    re.IGNORECASE,
)
GUARANTEE = re.compile(
    r"(?i:\b(?:never|always|cannot|can only|at most|at least|exactly|nobody|nothing|twice|for ever|whatever)\b"
    r"|\b(?:loses?|gets?|reads?|moves?|sends?) no\b|\bno (?:button|mail|money|other|GET)\b"
    r"|\bone (?:row|answer|decision|key)\b"
    r"|\bonly\b[^.|]*\b(?:may|can|decides?|counts?|reach|sees?)\b)"
    r"|^(?:Every|No) \w|(?<!at )\bonce\b(?! (?:more|the|it|that|you|they|an?)\b)",
)
# A default is the reference's to state: a setting with its value in brackets, or the other way round.
_SETTING = r"`[A-Z][A-Z_]{4,}"
_DEFAULT = re.compile(rf"(?:\([^)]*{_SETTING}[^)]*\)|{_SETTING}[^`]*` \([^)]*\))")
_FIGURE_OF_A_DEFAULT = re.compile(rf"(?:{FIGURE.pattern}) (?={_DEFAULT.pattern})", re.IGNORECASE)
_ROW_OF_A_SETTING = re.compile(rf"\| {_SETTING}[^|]*` (?:\||$)")


def plain(text: str) -> str:
    """Return Markdown without links, bold, italics and line breaks."""
    return " ".join(_LINK.sub(r"\1", text).replace("*", "").split())


def blocks(document: str) -> Iterator[str]:
    """Return the paragraphs, list items, table rows and shell comments of a document."""
    fence, lines = "", list[str]()
    for line in [*_WRITTEN_BY_PROGRAMS.sub("", document).splitlines(), ""]:
        text = line.strip()
        begins = re.match(r"(?:[-*]|\d+\.) |\|", text)
        if text.startswith("|-"):  # what stands above are the names of columns
            lines = []
        if begins or not text or text.startswith(("#", "<", "```")):
            yield plain(" ".join(lines))
            lines = []
        if text.startswith("```"):
            fence = "" if fence else text
        elif fence == "```sh":
            yield plain("".join(re.findall(r"(?:^|\s)# (.*)", line)))
        elif not fence and text and not text.startswith(("#", "<", "|-")):
            lines.append(text[begins.end() :].rstrip("|") if begins else text)


def sentences(document: str) -> Iterator[str]:
    """Return what may be a claim, in the order of the document."""
    for block in blocks(document):
        yield from (each for each in _BETWEEN_SENTENCES.split(block) if each)


def is_claim(sentence: str) -> bool:
    """Return whether a sentence states a figure or a guarantee, and does not only name its tests."""
    if sentence.startswith("Tests:"):
        return False
    if GUARANTEE.search(sentence):
        return True
    if _ROW_OF_A_SETTING.search(sentence):
        return False
    rest = _DEFAULT.sub("", _FIGURE_OF_A_DEFAULT.sub("", sentence))
    return bool(FIGURE.search(rest))


def what_holds(decision: str) -> str:
    """Return the sections of a decision that state what holds, without status and context."""
    return "".join(_SECTION_THAT_HOLDS.findall(decision))


def text_of(document: str) -> str:
    text = (ROOT / document).read_text("utf-8")
    return what_holds(text) if document in DECISIONS else text


def quotes_of(document: str) -> list[str]:
    lists = (CLAIMS[document].get(name, ()) for name in ("shown_by", "of_others", "no_claims"))
    return [plain(quote) for each in lists for quote in each]


def shown_by() -> dict[str, list[str]]:
    """Return what shows a claim, with the quotes of the claims."""
    found: dict[str, list[str]] = {}
    for document, listed in CLAIMS.items():
        for quote, names in listed.get("shown_by", {}).items():
            assert names, f"{document}: {quote}: delete the sentence, or name what shows it"
            for name in names:
                found.setdefault(name, []).append(f"{document}: {quote}")
    return found


@cache
def functions_in(file: Path) -> set[str]:
    """Return the names of a module's tests, without importing it."""
    tree = ast.parse(file.read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


@cache
def commands_of_full_run() -> list[str]:
    pieces = [piece for part in load_parts().values() for piece in part.pieces]
    return [f"tests.programs.{' '.join(piece)}" for piece in pieces]


def exists(name: str) -> bool:
    """Return whether a test or a check is there, or a program is part of a full run."""
    path, _, test = name.partition("::")
    if test:
        return (ROOT / path).is_file() and test in functions_in(ROOT / path)
    if name.startswith(".ci/"):
        return (ROOT / name).is_file()
    commands = commands_of_full_run()
    return any(command == name or command.startswith(f"{name} ") for command in commands)


def test_every_document_has_its_claims() -> None:
    assert CLAIMS.keys() == DOCUMENTS


@pytest.mark.parametrize("document", CLAIMS)
def test_a_listed_sentence_stands_in_its_document(document: str) -> None:
    stands = [plain(each) for each in sentences(text_of(document))]
    places = {quote: sum(quote in each for each in stands) for quote in quotes_of(document)}
    assert {quote: n for quote, n in places.items() if n != 1} == {}, (
        "each must stand in one sentence"
    )


@pytest.mark.parametrize("document", CLAIMS)
def test_a_sentence_with_a_figure_or_a_guarantee_is_listed(document: str) -> None:
    quotes = quotes_of(document)
    stands = [plain(each) for each in sentences(text_of(document))]
    missing = [
        each for each in stands if is_claim(each) and not any(quote in each for quote in quotes)
    ]
    assert missing == [], "name in tests/claims.toml what shows it, or delete it"


def test_what_shows_a_claim_exists() -> None:
    assert {name: quotes for name, quotes in shown_by().items() if not exists(name)} == {}


@pytest.mark.parametrize(
    ("sentence", "claims"),
    [
        ("The run fails after 40 attempts.", True),
        ("A page takes 200 ms.", True),
        ("No refund is paid twice.", True),
        ("Only the manager who was asked may decide.", True),
        ("The mail is answered.", False),
        ("Set `MAIL_DAYS=30`.", False),
        ("After four hours (`UNANSWERED_SECONDS`) people get it.", False),
        ("After `UNANSWERED_SECONDS` (four hours) people get it.", False),
        ("raw mail | 30 days | `RAW_MAIL_DAYS` | why", False),
        ("What waits for 30 days goes to people, not after `MAIL_DAYS`.", True),
    ],
)
def test_a_figure_or_a_guarantee_is_a_claim_and_a_default_is_none(
    sentence: str, claims: bool
) -> None:
    assert is_claim(sentence) is claims


def test_a_document_is_read_by_sentences_rows_and_comments() -> None:
    text = "# 1\n\nTwo. [Three](x.md)\nfour.\n\n| a |\n|---|\n| **c** | d. E. |\n\n```sh\nrun  # f\n```\n- g\n"
    assert list(sentences(text)) == ["Two.", "Three four.", "c | d.", "E.", "f", "g"]


def test_of_a_decision_only_its_decision_and_its_consequences_are_read() -> None:
    text = "# 1. A\n\n## Context\n\nB.\n\n## Decision\n\nC.\n\n## Consequences\n\n- D.\n"
    assert list(sentences(what_holds(text))) == ["C.", "D."]
