"""`python -m tests.letters FOLDER`: posts every `.eml` file to a shop of its own, and tells what came of it."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from tests.databases import fresh_databases
from tests.harness import Harness, open_shop
from tests.letters.posting import likely_checks, post
from tests.letters.report import Posted, figures, summary, table


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--dkim",
    default="pass",
    show_default=True,
    help="Result of DKIM for the domain of From, or all of SendGrid's field: {@a.example : pass}.",
)
@click.option("--spf", default="pass", show_default=True, help="SendGrid's word on SPF.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Write everything here, too."
)
def run(folder: Path, dkim: str, spf: str, json_file: Path | None) -> None:
    """Post all mail below FOLDER through the whole inbound path, on a fresh SQLite database.

    Ends with 1 if an answer was not 200, something was raised or a mail was not kept whole.
    """
    with (
        tempfile.TemporaryDirectory(prefix="mailagent-letters-") as keys,
        fresh_databases("sqlite") as fresh,
        open_shop(Path(keys), fresh()) as shop,
    ):
        shop.write("Hello")  # the first request of a process pays for what it loads
        posted = list(_posted(shop, folder, dkim, spf))
    if not posted:
        raise click.ClickException(f"there is no .eml file below {folder}")
    click.echo(f"{table(posted)}\n\n{summary(posted)}")
    if json_file is not None:
        data = {"summary": figures(posted), "mails": [one.data() for one in posted]}
        json_file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if not all(one.outcome.good for one in posted):
        sys.exit(1)


def _posted(shop: Harness, folder: Path, dkim: str, spf: str) -> Iterator[Posted]:
    for path in sorted(folder.rglob("*.eml")):
        mail = path.read_bytes()
        outcome = post(shop, mail, likely_checks(mail, dkim, spf))
        yield Posted(str(path.relative_to(folder)), len(mail), outcome)


if __name__ == "__main__":
    run()
