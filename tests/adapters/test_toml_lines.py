"""Positions in TOML: in these texts every number is the number of its line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest

from mailagent.adapters.policy_files.toml_lines import Path, find_lines

TEXTS = {
    "plain": "a = 1\n\n# a = 9\n  b = 4 # c = 4\nc=5",
    "strings": 'a = "x # y = [\\" "\nb = \'[\' # {\nc = 3\nd = "" \ne = 5\n',
    "long strings": 'a = """\nb = 9\n\\"""\n"""\nc = 5\nd = \'\'\'\n[e]\n\'\'\'\nf = 9\n',
    "quotes at an end": "a = \"\"\"x\"\"\"\"\"\nb = 2\nc = '''x'''''\nd = 4\n",
    "keys": '"a b" = 1\n\'c.d\' = 2\ne . f.g = 3\n"\\u0061" = 4\n1.2 = 5\n',
    "tables": "[a]\nx = 2\n[ a . b ] # c\nx = 4\n[a.c.d]\nx = 6\n",
    "arrays": 'a = [\n  2, # [\n  3,\n  [4,\n  5], {x = 5}, "]",\n  6\n]\nb = [ ]\nc = 9\n',
    "inline tables": 'a = { x = 1, y.z = 1, "w]" = [1, {v = 1}] }\nb = {}\nc = 3\n',
    "arrays of tables": "[[a]]\nx = 2\n[[a]]\nx = 4\n[a.b]\nx = 6\n[[a.c]]\nx = 8\n[[a.c]]\nx = 10\n",
    "windows": 'a = 1\r\nb = """\r\n"""\r\nc = 4\r\n[d]\r\ne = 6\r\n',
    "empty": "# nothing\n",
}


def leaves(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in pairs:
            yield (*path, key), None
            yield from leaves(each, (*path, key))
    else:
        yield path, value


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_everything_in_a_file_has_its_line(text: str) -> None:
    lines = find_lines(text)
    found = list(leaves(tomllib.loads(text)))
    assert {path for path, _ in found} == set(lines)
    numbers = {path: value for path, value in found if isinstance(value, int)}
    assert numbers == {path: lines[path] for path in numbers}


def test_tables_and_strings_have_a_line_too() -> None:
    lines = find_lines('[a.b]\nc = [\n"x",\n"y"]\n[[d]]\n')
    assert lines[("a",)] == lines[("a", "b")] == 1
    assert (lines[("a", "b", "c", 0)], lines[("a", "b", "c", 1)]) == (3, 4)
    assert lines[("d", 0)] == 5
