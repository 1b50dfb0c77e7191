"""Tables of a TOML file read key by key: what is wrong is told with its line, and reading goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mailagent.adapters.policy_files.toml_lines import Path
from mailagent.domain.text import is_one_line

T = TypeVar("T")

TEXT_MAX_LENGTH = 500


class Problems:
    """What is wrong with a file, each with its line; reading goes on to find more."""

    def __init__(self, lines: Mapping[Path, int]) -> None:
        self._lines = lines
        self.found: list[tuple[int, str]] = []

    def add(self, path: Path, words: str) -> None:
        """Note what is wrong with the key at `path`; `words` go on after its name."""
        self.note(path, f"{_named(path)}{words if words.startswith(':') else f' {words}'}")

    def note(self, path: Path, sentence: str) -> None:
        """Note a problem on the line of a key, or of the table or list that it stands in."""
        place = path
        while place and place not in self._lines:
            place = place[:-1]
        self.found.append((self._lines.get(place, 1), sentence))

    def in_order(self) -> list[str]:
        return [f"line {line}: {words}" for line, words in sorted(self.found)]


def _named(path: Path) -> str:
    name = ""
    for part in path:
        name += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if name else part
    return name


class Table:
    """A table of the file, whose keys are read one by one; what nobody reads is refused."""

    def __init__(self, fields: Mapping[str, Any], path: Path, problems: Problems) -> None:
        self._fields, self._path, self.problems = fields, path, problems
        self._known: list[str] = []

    def read(self, key: str, read: Callable[[Value], T], default: T) -> T:
        """Return the value of a key; the default if it is not there, or wrong, which is noted."""
        self._known.append(key)
        if key not in self._fields:
            return default
        try:
            return read(Value(self._fields[key], (*self._path, key), self.problems))
        except Wrong:
            return default

    def table(self, key: str) -> Table | None:
        """Return the table under a key; None if there is none, or something else, which is noted."""
        return self.read(key, lambda value: value.table(), None)

    def has(self, key: str) -> bool:
        return key in self._fields

    def names(self) -> list[str]:
        return list(self._fields)

    def complain(self, words: str) -> None:
        self.problems.add(self._path, words)

    def refuse_others(self) -> None:
        """Note every key that nothing has read."""
        for key in self._fields.keys() - set(self._known):
            known = ", ".join(sorted(self._known))
            where = f" in {_named(self._path)}" if self._path else ""
            self.problems.note((*self._path, key), f"unknown key {key!r}{where}; known are {known}")


class Wrong(Exception):
    """A value that was noted as wrong."""


class Value:
    """One value of the file, with where it stands."""

    def __init__(self, raw: Any, path: Path, problems: Problems) -> None:
        self.raw, self.path, self.problems = raw, path, problems

    def wrong(self, words: str) -> Wrong:
        """Note what is wrong; raise what this returns."""
        self.problems.add(self.path, words)
        return Wrong()

    def table(self, of: str = "keys") -> Table:
        if not isinstance(self.raw, dict):
            raise self.wrong(f"is {self.raw!r}; it must be a table of {of}")
        return Table(self.raw, self.path, self.problems)

    def elements(self) -> list[Value]:
        if not isinstance(self.raw, list):
            raise self.wrong(f'is {self.raw!r}; write a list like ["one", "two"]')
        return [
            Value(raw, (*self.path, number), self.problems) for number, raw in enumerate(self.raw)
        ]

    def whole(self, least: int, most: int, what: str) -> int:
        # `type` and not isinstance: true is an int to Python.
        if type(self.raw) is not int or not least <= self.raw <= most:
            raise self.wrong(f"is {self.raw!r}; give {what} from {least} to {most}")
        return int(self.raw)

    def text(self, longest: int = TEXT_MAX_LENGTH) -> str:
        raw = self.raw
        if not isinstance(raw, str) or not raw.strip() or not is_one_line(raw):
            raise self.wrong(f"is {raw!r}; write a text of one line")
        if len(raw) > longest:
            raise self.wrong(f"is longer than {longest} characters; write less")
        return raw.strip()
