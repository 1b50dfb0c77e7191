"""Run every program in full, one after the other: `python -m tests.programs.full_run`.

After an interruption the same command goes on: it does not run again what held before, unless what that
measures has changed since. The results are in docs/results.json, and in the tables of the documents. Exits with
1 if a part failed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import click

from mailagent.app import ROOT
from tests.programs.full_run.parts import Part, load_parts, module_of
from tests.programs.full_run.pieces import Piece, file_name, find_done, keep
from tests.programs.full_run.results import fill_in, read_results, write_results
from tests.programs.proof import this_run

# Raw results and what the programs printed, by commit. Git ignores it.
FOLDER = ROOT / ".results"
_PACKAGES = ("dbos", "sqlalchemy", "psycopg")


@click.command()
@click.option("--only", "names", multiple=True, help="Run these parts only.")
@click.option("--list", "only_list", is_flag=True, help="Run nothing; list the parts.")
@click.option("--tables", is_flag=True, help="Run nothing; write the tables of what ran before.")
@click.option("--again", is_flag=True, help="Run also what held before.")
def full_run(names: tuple[str, ...], only_list: bool, tables: bool, again: bool) -> None:
    """Run every program in full."""
    parts = load_parts()
    if unknown := set(names) - parts.keys():
        raise click.UsageError(f"unknown: {', '.join(unknown)}; use one of {', '.join(parts)}")
    wanted = [part for part in parts.values() if part.name in (names or parts)]
    if only_list:
        for part in wanted:
            click.echo(f"{part.name:16} about {part.minutes:4} minutes")
        return
    failed = [] if tables else [part.name for part in wanted if not _run(part, again)]
    for document, text in fill_in(parts.values(), read_results()).items():
        document.write_text(text, "utf-8")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; what they printed is in {FOLDER}")


def _run(part: Part, again: bool) -> bool:
    """Run the pieces of a part that have not run, and write its result; return whether all of it held."""
    run = this_run()
    folder = FOLDER / run["commit"].replace(" ", "")
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    pieces = [
        (None if again else find_done(part, piece, FOLDER)) or _run_piece(part, piece, run, folder)
        for piece in part.pieces
    ]
    outcome = "held" if all(piece.code == 0 for piece in pieces) else "failed"
    files = [piece.results for piece in pieces]
    if not all(each.exists() for each in files):
        click.echo(f"{part.name}: {outcome}, without figures")
        return False
    oldest = min(pieces, key=lambda piece: piece.date)
    result = {
        "commit": oldest.commit,
        "date": oldest.date,
        "machine": _machine(),
        "seconds": sum(piece.seconds for piece in pieces),
        "outcome": outcome,
        "table": part.render(files),
    }
    write_results(read_results() | {part.name: result})
    click.echo(f"{part.name}: {outcome}, after {time.monotonic() - began:.0f} s")
    return outcome == "held"


def _run_piece(part: Part, command: tuple[str, ...], run: Mapping[str, str], folder: Path) -> Piece:
    """Run one command, and keep what it printed and its outcome."""
    program, *options = command
    file = folder / file_name(command)
    json_options = ["--json", str(file.with_suffix(".json"))] if part.table else []
    whole = [sys.executable, "-m", module_of(program), *options, *json_options]
    click.echo(f"{part.name}: {' '.join(command)} …")
    began = time.monotonic()
    with file.with_suffix(".txt").open("wb") as out, file.with_suffix(".err").open("wb") as error:
        code = subprocess.run(whole, cwd=ROOT, stdout=out, stderr=error, check=False).returncode
    seconds = round(time.monotonic() - began)
    results = file.with_suffix(".json" if part.table else ".txt")
    piece = Piece(code, seconds, run["commit"], run["date"], results)
    keep(piece, file)
    return piece


def _machine() -> dict[str, str]:
    packages = {name: version(name) for name in _PACKAGES}
    return {
        "cores": str(os.cpu_count()),
        "Linux": platform.release().split("-")[0],
        "Python": platform.python_version(),
        **packages,
    }


if __name__ == "__main__":
    full_run()
