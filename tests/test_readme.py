"""The documents are tested: the reference is the code's, and every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from flask import Flask

from mailagent import cli
from mailagent.settings import SETTINGS
from tests.programs import reference
from tests.programs.reference import whole_app
from tests.programs.screens import APPROVALS, CAPTIONS, DOCUMENT, OPENING, WINDOWS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

_LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.fixture
def app() -> Iterator[Flask]:
    with whole_app() as opened:
        yield opened


def named(document: Path) -> str:
    return str(document.relative_to(ROOT))


def test_the_reference_is_what_the_code_says(app: Flask) -> None:
    written = reference.DOCUMENT.read_text("utf-8")
    assert written == reference.render(app), "run: python -m tests.programs.reference"


def commands_in(document: Path) -> list[str]:
    """Return every `flask …` in a document's shell blocks and code spans."""
    text = document.read_text("utf-8")
    lines = [
        line for kind, block in _FENCE.findall(text) if kind == "sh" for line in block.split("\n")
    ]
    lines += _SPAN.findall(_FENCE.sub("", text))
    parts = [part for line in lines for part in re.split(r"&&|[|#;)]", line)]
    found = [re.search(r"(?:^|[\s/(])flask (.+)", part) for part in parts]
    return [match[1].strip() for match in found if match]


def find_problem(command: click.Command, words: list[str]) -> str | None:
    """Say which word of a command line does not exist, or None."""
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        following = command.commands.get(words[0])
        if following is None:
            return words[0]
        command, words = following, words[1:]
    known = {name for parameter in command.params for name in parameter.opts}
    # A lone hyphen is standard input.
    options = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
    return next((option for option in options if option not in known), None)


def test_documents_name_only_commands_that_exist() -> None:
    flask = click.Group(commands=cli.load_all())
    found = {(named(each), command) for each in DOCUMENTS for command in commands_in(each)}
    assert len(found) > 15
    problems = {
        (document, command): problem
        for document, command in found
        if (problem := find_problem(flask, re.sub(r"[\[\]]", " ", command).split()))
    }
    assert problems == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_modules_to_run_exist(document: Path) -> None:
    for module in re.findall(r"python -m (tests\.[\w.]+)", document.read_text("utf-8")):
        path = ROOT / module.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), module


def slugs(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCE.sub("", document.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_link_leads_somewhere(document: Path) -> None:
    text = _FENCE.sub("", document.read_text("utf-8"))
    targets = [link or source for link, source in _LINK.findall(text)]
    for target in targets:
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (document.parent / path).resolve() if path else document
        assert place.exists(), f"{target} does not exist"
        assert ROOT in (place, *place.parents), f"{target} leads out of the repository"
        assert not anchor or anchor in slugs(place), f"{target}: there is no such heading"


def test_every_picture_is_shown_or_kept_by_the_script() -> None:
    script = (ROOT / "tests" / "programs" / "screens.py").read_text("utf-8")
    shown = "".join(document.read_text("utf-8") for document in DOCUMENTS)
    for picture in (ROOT / "docs" / "pictures").iterdir():
        stem = re.sub(r"-(light|dark)$", "", picture.stem)
        assert picture.name in shown or stem in script, f"nobody shows {picture.name}"


def test_the_screens_are_those_that_the_program_takes() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert text.startswith(OPENING)
    shown = re.findall(r'src="pictures/(\S+)-light\.png"', text)
    assert re.findall(r'srcset="pictures/(\S+)-dark\.png"', text) == shown
    pages = [f"{name}-{window}" for name in CAPTIONS for window in WINDOWS]
    assert shown == [*APPROVALS, *pages]


def test_the_console_has_the_version_of_dbos() -> None:
    (pinned,) = re.findall(r"^dbos==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    told = "".join(document.read_text("utf-8") for document in DOCUMENTS)
    assert set(re.findall(r"dbos\[enterprise\]==([\d.]+)", told)) == {pinned}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_no_document_speaks_of_a_setting_that_is_not_there(document: Path) -> None:
    known = {each.name for each in SETTINGS}
    told = set(re.findall(r"\bMAILAGENT_[A-Z_]+", document.read_text("utf-8")))
    assert told <= known
