"""On which line each key of a TOML file stands: the standard parser keeps no positions.

Only for text that `tomllib` has read: so it is well-formed, and this scanner checks nothing itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

# Keys and, in lists, positions from 0: ("caps", "order", "count"), ("photo_reasons", 1).
Path = tuple[str | int, ...]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
# Up to two quotation marks may stand right before the three that end it.
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|'(?!''))*'{3,5}", re.DOTALL)
_PLAIN = re.compile(r"[^,\]}#\n]*")


def find_lines(text: str) -> Mapping[Path, int]:
    """Return the line, counted from 1, of every key, table and element of a list in well-formed TOML.

    A table that is only named by longer headers has the line of the first of them.
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._arrays: dict[Path, int] = {}  # the newest element of each array of tables
        self.lines: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        self._take(_SPACE)
        while self._at < len(self._text):
            if self._next() == "[":
                table = self._header()
            else:
                self._pair(table)
            self._take(_SPACE)

    def _header(self) -> Path:
        line = self._line()
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        keys = self._key()
        self._at += 2 if many else 1
        path: Path = ()
        for key in keys[:-1]:
            path = self._newest((*path, key), line)
        path = (*path, keys[-1])
        if many:
            self._arrays[path] = self._arrays.get(path, -1) + 1
        path = self._newest(path, line)
        self.lines.setdefault(path, line)
        return path

    def _newest(self, path: Path, line: int) -> Path:
        self.lines.setdefault(path, line)
        if path not in self._arrays:
            return path
        element = (*path, self._arrays[path])
        self.lines.setdefault(element, line)
        return element

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = table
        for key in self._key():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._at += 1  # the equals sign
        self._take(_BLANK)
        self._value(path)

    def _key(self) -> list[str]:
        """Return the parts of a key, and stop behind it and its blanks."""
        parts = []
        while True:
            self._take(_BLANK)
            parts.append(self._part())
            self._take(_BLANK)
            if self._next() != ".":
                return parts
            self._at += 1

    def _part(self) -> str:
        first = self._next()
        if first == "'":
            return self._take(_LITERAL)[1:-1]
        if first == '"':
            return str(tomllib.loads(f"key = {self._take(_BASIC)}")["key"])
        return self._take(_BARE_KEY)

    def _value(self, path: Path) -> None:
        first = self._next()
        if first == "[":
            self._list(path)
        elif first == "{":
            self._inline_table(path)
        elif first == '"':
            long = self._text.startswith('"""', self._at)
            self._take(_LONG_BASIC if long else _BASIC)
        elif first == "'":
            long = self._text.startswith("'''", self._at)
            self._take(_LONG_LITERAL if long else _LITERAL)
        else:
            self._take(_PLAIN)

    def _list(self, path: Path) -> None:
        self._at += 1
        self._take(_SPACE)
        number = 0
        while self._next() != "]":
            self.lines[(*path, number)] = self._line()
            self._value((*path, number))
            self._separator()
            number += 1
        self._at += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        self._take(_SPACE)
        while self._next() != "}":
            self._pair(path)
            self._separator()
        self._at += 1

    def _separator(self) -> None:
        self._take(_SPACE)
        if self._next() == ",":
            self._at += 1
            self._take(_SPACE)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError(f"line {self._line()}: this is no TOML that the parser takes")
        self._at = match.end()
        return match[0]

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1
