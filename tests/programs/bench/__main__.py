"""Measure what mail costs on PostgreSQL: `python -m tests.programs.bench`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from tests.databases import postgres_server, postgres_template
from tests.processes import ProcessFailed
from tests.programs.bench.ground import HANDFUL, Sizes, open_ground
from tests.programs.bench.parts import DOCUMENT, PARTS, block_of, fill_in, list_wrong, measure

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--only", "names", multiple=True, type=click.Choice(list(PARTS)), help="Measure this part only."
)
@click.option("--mails", type=click.IntRange(1), help=f"How many at once.  [{Sizes().mails}]")
@click.option("--handful", is_flag=True, help="Few of everything: shows only that it works.")
@click.option("--json", "json_file", type=FILE, help="Write the figures to this file, too.")
@click.option(
    "--table", type=FILE, help="Measure nothing; write this file's figures into the docs."
)
def bench(
    names: tuple[str, ...],
    mails: int | None,
    handful: bool,
    json_file: Path | None,
    table: Path | None,
) -> None:
    """Measure what mail costs on PostgreSQL, beside the least that it could cost and what it should cost.

    Exits with 1 if a mail was left unanswered.
    """
    if table is not None:
        measured = json.loads(table.read_text("utf-8"))
        DOCUMENT.write_text(fill_in(DOCUMENT.read_text("utf-8"), measured), "utf-8")
        return
    sizes = HANDFUL if handful else Sizes()
    sizes = replace(sizes, mails=mails or sizes.mails)
    try:
        with (
            postgres_server() as server,
            postgres_template(server) as template,
            open_ground(server, template, sizes) as ground,
        ):
            measured = measure(ground, names or PARTS)
    except ProcessFailed as failed:
        raise click.ClickException(str(failed)) from failed
    for name, part in measured["parts"].items():
        click.echo(f"== {name}\n\n{block_of(measured, part)}\n")
    if json_file is not None:
        json_file.write_text(json.dumps(measured, indent=2) + "\n", "utf-8")
    if wrong := list_wrong(measured):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    bench()
