"""Measure what mail costs on PostgreSQL: `python -m tests.programs.bench`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from tests.databases import postgres_server, postgres_template
from tests.processes import ProcessFailed
from tests.programs.bench.ground import HANDFUL, Sizes, open_ground
from tests.programs.bench.parts import PARTS, block_of, list_wrong, measure
from tests.programs.proof import write_results

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--only", "names", multiple=True, type=click.Choice(list(PARTS)), help="Measure this part only."
)
@click.option("--mails", type=click.IntRange(1), help=f"How many at once.  [{Sizes().mails}]")
@click.option("--handful", is_flag=True, help="Few of everything: shows only that it works.")
@click.option("--json", "json_file", type=FILE, help="Write the figures to this file, too.")
def bench(
    names: tuple[str, ...],
    mails: int | None,
    handful: bool,
    json_file: Path | None,
) -> None:
    """Measure what mail costs on PostgreSQL, beside the least that it could cost and what it should cost.

    Exits with 1 if a mail was left unanswered.
    """
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
    for row in measured:
        click.echo(f"== {row['name']}\n\n{block_of(row)}\n")
    write_results(json_file, measured)
    if wrong := list_wrong(measured):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    bench()
