"""The results file, and the tables of the documents that are written from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mailagent.app import ROOT
from tests.programs.full_run import history
from tests.programs.full_run.parts import Part
from tests.programs.proof import with_part

FILE = ROOT / "docs" / "results.json"
NOT_MEASURED = 'Not measured yet: `python -m tests.programs.full_run --only "{}"`.'
OLD = "**Out of date**: what this measures has changed since that commit."

Results = dict[str, dict[str, Any]]


def read_results(file: Path = FILE) -> Results:
    """Return the result of each part that ran, by its name."""
    found: Results = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return found


def write_results(results: Results, file: Path = FILE) -> None:
    text = json.dumps(results, indent=1, ensure_ascii=False, sort_keys=True)
    file.write_text(f"{text}\n", "utf-8")


def block_of(part: Part, result: Mapping[str, Any]) -> str:
    """Return what stands in the document: the table, when it was measured, and whether that is out of date."""
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    seconds = result["seconds"]
    took = f", {round(seconds / 60) or 1} minutes" if seconds else ""
    said = [f"Measured at commit {result['commit']}, {result['date']}{took}; {machine}."]
    if result["outcome"] != "held":
        said.append(f"**{result['outcome']}**.")
    if history.has_changed(result["commit"], part.paths):
        said.append(OLD)
    return "\n".join([result["table"].strip("\n"), "", " ".join(said)])


def fill_in(parts: Iterable[Part], results: Results) -> dict[Path, str]:
    """Return the documents with the tables of these results."""
    texts: dict[Path, str] = {}
    for part in parts:
        if part.document:
            text = texts.get(part.document) or part.document.read_text("utf-8")
            found = results.get(part.name)
            block = block_of(part, found) if found else NOT_MEASURED.format(part.name)
            texts[part.document] = with_part(text, part.name, block)
    return texts
