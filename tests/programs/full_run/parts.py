"""What a full run consists of: parts.toml."""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailagent.app import ROOT

Rows = list[dict[str, Any]]
# The product. A program's own folder is named beside it.
PRODUCT = ("mailagent", "migrations", "templates", "wsgi.py", "requirements.txt")


@dataclass(frozen=True)
class Part:
    """One program, run in full. `pieces`: its commands, each of which can be run by itself. `document`: where
    the table belongs, between the marks with the part's name. `table`: the function that makes the table of the
    rows that the pieces wrote with --json; without it the table is what they print. `measures`: beside
    the product, what makes the figures too old when it changes; `leaves_out`: what of the product does not.
    `minutes`: about how long it takes."""

    name: str
    pieces: tuple[tuple[str, ...], ...]
    minutes: int
    measures: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()
    document: Path | None = None
    table: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """What it measures, as pathspecs of git."""
        return (*PRODUCT, *self.measures, *(f":(exclude){path}" for path in self.leaves_out))

    def render(self, files: Sequence[Path]) -> str:
        """Return the table of what the pieces wrote: rows as JSON, or what they printed."""
        texts = [file.read_text("utf-8") for file in files]
        if self.table is None:
            return "\n".join(["```", *(text.strip("\n") for text in texts), "```"])
        module, _, name = self.table.partition(":")
        render: Callable[[Rows], str] = getattr(importlib.import_module(module), name)
        return render([row for text in texts for row in json.loads(text)])


def module_of(program: str) -> str:
    return program if program == "pytest" else f"tests.programs.{program}"


def load_parts() -> dict[str, Part]:
    """Return all parts, in the order in which they run."""
    text = Path(__file__).with_name("parts.toml").read_text("utf-8")
    read = tomllib.loads(text)
    return {each["name"]: _part(each, read["groups"]) for each in read["part"]}


def _part(values: dict[str, Any], groups: dict[str, list[str]]) -> Part:
    document = values.get("document")
    return Part(
        name=values["name"],
        pieces=tuple(tuple(piece.split()) for piece in values["pieces"]),
        minutes=values["minutes"],
        measures=tuple(values.get("measures", ())),
        leaves_out=tuple(path for name in values.get("leaves_out", ()) for path in groups[name]),
        document=ROOT / document if document else None,
        table=values.get("table"),
    )
