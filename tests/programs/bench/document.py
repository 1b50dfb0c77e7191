"""Puts measured figures into docs/benchmarks.md, so that nobody copies them by hand.

`python -m tests.programs.bench.document FILE` fills in each part that FILE has. `--change WHAT BEFORE AFTER`
puts in a line about what a change has done, from two such files; the line of the same name is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mailagent.app import ROOT
from tests.programs.bench.flows import APPROVED, QUESTION, REFUND
from tests.programs.bench.told import line_of

DOCUMENT = ROOT / "docs" / "benchmarks.md"

# What a change is judged by: rows of the table of costs and their figures.
COLUMNS = (
    (QUESTION.name, "cpu_ms"),
    (QUESTION.name, "transactions"),
    (REFUND.name, "cpu_ms"),
    (APPROVED.name, "cpu_ms"),
    ("receive", "per_second"),
    ("run", "per_second"),
)


def fill_in(text: str, measured: Mapping[str, Any]) -> str:
    """Return the document with these figures in its marked places. Raises ValueError where one has none."""
    for name, part in measured["parts"].items():
        text = _replace(text, name, _block(measured, part))
    return text


def note_change(text: str, what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the document with a line about a change. Raises ValueError without a place for it."""
    cells = [
        f"{_figure(before, row, figure)} → {_figure(after, row, figure)}" for row, figure in COLUMNS
    ]
    line = f"| {what} | {' | '.join(cells)} |"
    kept = [
        each for each in within(text, "changes").splitlines() if not each.startswith(f"| {what} |")
    ]
    return _replace(text, "changes", "\n".join([*kept, line]))


def _block(measured: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    day = measured["measured_at"][:10]
    versions = ", ".join(f"{name} {number}" for name, number in measured["versions"].items())
    lines = [f"{day}, commit {measured['commit']}; {versions}", "", part["table"], ""]
    lines += [line_of(aim) for aim in part["aims"]]
    plain = "\n".join(line.rstrip() for line in "\n".join(lines).splitlines())
    return f"```\n{plain}\n```"


def _figure(measured: Mapping[str, Any], name: str, figure: str) -> str:
    rows = measured["parts"]["costs"]["figures"]["rows"]
    [found] = [row["mail"][figure] for row in rows if row["name"].strip() == name]
    return f"{found:.1f}"


def _place(name: str) -> re.Pattern[str]:
    begin, end = re.escape(f"<!-- bench: {name} -->\n"), re.escape(f"<!-- end of {name} -->")
    return re.compile(f"({begin})(.*?)({end})", re.DOTALL)


def within(text: str, name: str) -> str:
    """Return what stands in a marked place of the document. Raises ValueError where it has none."""
    found = _place(name).search(text)
    if found is None:
        raise ValueError(f"the document has no place for {name}: <!-- bench: {name} --> …")
    return found[2].rstrip("\n")


def _replace(text: str, name: str, block: str) -> str:
    within(text, name)
    return _place(name).sub(lambda found: f"{found[1]}{block}\n{found[3]}", text)


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("files", nargs=-1, type=_FILE)
@click.option(
    "--change", type=(str, _FILE, _FILE), metavar="WHAT BEFORE AFTER", help="Put in a line."
)
def document(files: tuple[Path, ...], change: tuple[str, Path, Path] | None) -> None:
    """Fill measured figures into docs/benchmarks.md."""
    text = DOCUMENT.read_text("utf-8")
    for file in files:
        text = fill_in(text, _read(file))
    if change is not None:
        what, before, after = change
        text = note_change(text, what, _read(before), _read(after))
    DOCUMENT.write_text(text, "utf-8")


def _read(file: Path) -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return measured


if __name__ == "__main__":
    document()
