"""The list of deliberate bugs, read from `bugs.toml`, and how one is put into a copy of the program."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LIST = Path(__file__).with_name("bugs.toml")


@dataclass(frozen=True, slots=True)
class Edit:
    """What stands in a file exactly once, and what is to stand there instead."""

    file: str
    find: str
    put: str


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug that somebody might make. `hurts`: whom and how, if nobody noticed; `tests`: the files, or
    single tests, of which one must fail."""

    name: str
    promise: int
    hurts: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


class BugMisplacedError(Exception):
    """A bug's text does not stand in its file exactly once: the list has to follow the code."""


def load_bugs() -> tuple[Bug, ...]:
    """Return all bugs of the list, in its order."""
    listed = tomllib.loads(LIST.read_text("utf-8"))["bug"]
    return tuple(_bug(each) for each in listed)


def _bug(entry: dict[str, Any]) -> Bug:
    return Bug(
        name=entry["name"],
        promise=entry["promise"],
        hurts=entry["hurts"],
        edits=tuple(Edit(**edit) for edit in entry["edits"]),
        tests=tuple(entry["tests"]),
    )


def plant(bug: Bug, root: Path) -> None:
    """Put a bug into the program under `root`. Raises BugMisplacedError, having changed nothing."""
    changed: dict[Path, str] = {}
    for edit in bug.edits:
        path = root / edit.file
        text = changed.get(path) or path.read_text("utf-8")
        if text.count(edit.find) != 1:
            raise BugMisplacedError(
                f"{bug.name}: {edit.file} has this {text.count(edit.find)} times, not once:\n{edit.find}"
            )
        changed[path] = text.replace(edit.find, edit.put)
    for path, text in changed.items():
        path.write_text(text, "utf-8")
