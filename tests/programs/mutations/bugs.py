"""The list of deliberate bugs, `bugs.toml`, and how one is put into a copy of the program."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel

LIST = Path(__file__).with_name("bugs.toml")


class Edit(BaseModel):
    """Text that a file has exactly once, and what replaces it."""

    file: str
    find: str
    put: str


class Bug(BaseModel):
    """A bug that somebody might make. `hurts`: what it would do if no test noticed. `tests`: files or single
    tests, one of which must fail."""

    name: str
    promise: int
    hurts: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


class BugMisplacedError(Exception):
    """A bug's text does not stand in its file exactly once: the list has to follow the code."""


def load_bugs() -> list[Bug]:
    """Return all bugs of the list, in its order."""
    return [Bug(**each) for each in tomllib.loads(LIST.read_text("utf-8"))["bug"]]


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
