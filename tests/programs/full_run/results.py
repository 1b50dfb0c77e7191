"""The results file, and the tables of the documents that are written from it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mailagent.app import ROOT
from tests.programs.full_run import history
from tests.programs.full_run.parts import Part
from tests.programs.proof import with_part

FILE = ROOT / "docs" / "results.json"
NOT_MEASURED = 'Not measured yet: `python -m tests.programs.full_run --only "{}"`.'
WHOLE_RUN = "whole run"
WHOLE_RUN_FILE = ROOT / "docs" / "reliability.md"
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
    took = f", {_minutes(seconds)}" if seconds else ""
    said = [f"Measured at commit {result['commit']}, {result['date']}{took}; {machine}."]
    if result["outcome"] != "held":
        said.append(f"**{result['outcome']}**.")
    if history.has_changed(result["commit"], part.paths):
        said.append(OLD)
    return "\n".join([result["table"].strip("\n"), "", " ".join(said)])


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60) or 1
    return f"{minutes} minutes" if minutes > 1 else "1 minute"


def whole_run(parts: Collection[Part], results: Results) -> str:
    """Return how long all parts took together, and which are not of today's code."""
    known = [part for part in parts if part.name in results]
    took = _minutes(sum(results[part.name]["seconds"] for part in known))
    old = [
        each.name for each in known if history.has_changed(results[each.name]["commit"], each.paths)
    ]
    missing = [part.name for part in parts if part.name not in results]
    said = [f"{len(known)} of {len(parts)} parts took {took} of work."]
    said += [f"Out of date: {', '.join(old)}."] if old else []
    said += [f"Not measured: {', '.join(missing)}."] if missing else []
    return " ".join(said)


def fill_in(parts: Collection[Part], results: Results) -> dict[Path, str]:
    """Return the documents with the tables of these results."""
    text = WHOLE_RUN_FILE.read_text("utf-8")
    texts = {WHOLE_RUN_FILE: with_part(text, WHOLE_RUN, whole_run(parts, results))}
    for part in parts:
        if part.document:
            text = texts.get(part.document) or part.document.read_text("utf-8")
            found = results.get(part.name)
            block = block_of(part, found) if found else NOT_MEASURED.format(part.name)
            texts[part.document] = with_part(text, part.name, block)
    return texts
