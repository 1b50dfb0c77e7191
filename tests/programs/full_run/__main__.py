"""Run every program in full, one after the other: `python -m tests.programs.full_run`.

After an interruption the same command goes on: what ran at this commit is not run again. The results are in
docs/results.json, and in the tables of the documents. Exits with 1 if a part failed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import click

from mailagent.app import ROOT
from tests.programs.full_run.parts import Part, load_parts, module_of
from tests.programs.full_run.results import fill_in, read_results, write_results
from tests.programs.proof import this_run

# Raw results and what the programs printed, by commit. Git ignores it.
FOLDER = ROOT / ".results"
_PACKAGES = ("dbos", "sqlalchemy", "psycopg")


@click.command()
@click.option("--only", "names", multiple=True, help="Run these parts only.")
@click.option("--list", "only_list", is_flag=True, help="Run nothing; list the parts.")
@click.option("--tables", is_flag=True, help="Run nothing; write the tables of what ran before.")
@click.option("--again", is_flag=True, help="Run also what ran at this commit.")
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
    """Run what of a part has not run at this commit, and write its result; return whether all of it held."""
    run = this_run()
    folder = FOLDER / run["commit"].replace(" ", "")
    folder.mkdir(parents=True, exist_ok=True)
    began, outcomes, files = time.monotonic(), [], []
    for number, piece in enumerate(part.pieces, start=1):
        file = folder / f"{part.name.replace(' ', '-')}-{number}"
        files.append(file.with_suffix(".json" if part.table else ".txt"))
        outcomes.append(_run_piece(part, piece, file, again))
    outcome = "held" if all(code == 0 for code, _ in outcomes) else "failed"
    if not all(each.exists() for each in files):
        click.echo(f"{part.name}: {outcome}, without figures")
        return False
    result = {
        **run,
        "machine": _machine(),
        "seconds": round(sum(seconds for _, seconds in outcomes)),
        "outcome": outcome,
        "table": part.render(files),
    }
    write_results(read_results() | {part.name: result})
    click.echo(f"{part.name}: {outcome}, after {time.monotonic() - began:.0f} s")
    return outcome == "held"


def _run_piece(part: Part, piece: tuple[str, ...], file: Path, again: bool) -> tuple[int, float]:
    """Return the exit code of one command and how many seconds it took; from its log, if it ran before."""
    done = file.with_suffix(".done")
    if done.exists() and not again:
        before, took = done.read_text().split()
        return int(before), float(took)
    program, *options = piece
    json_options = ["--json", str(file.with_suffix(".json"))] if part.table else []
    command = [sys.executable, "-m", module_of(program), *options, *json_options]
    click.echo(f"{part.name}: {' '.join(piece)} …")
    began = time.monotonic()
    with file.with_suffix(".txt").open("wb") as out, file.with_suffix(".err").open("wb") as error:
        code = subprocess.run(command, cwd=ROOT, stdout=out, stderr=error, check=False).returncode
    seconds = time.monotonic() - began
    done.write_text(f"{code} {seconds:.0f}\n")
    return code, seconds


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
