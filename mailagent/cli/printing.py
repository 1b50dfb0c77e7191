"""How commands print: tables for people, JSON for programs, database trouble in one sentence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import sqlalchemy as sa
from flask.cli import AppGroup

# More rows than anybody reads; a number that no database takes would be a traceback.
LIMIT = click.IntRange(1, 100_000)

# PostgreSQL's words for transactions that stood in each other's way: deadlock, serialisation failure.
_AGAIN = ("40P01", "40001")


class Commands(AppGroup):
    """A group of commands whose database trouble is told, not traced."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for argument in args:
            # Bytes that are no text arrive as lone surrogates, which no database takes.
            if not argument.isascii() and argument.encode("utf-8", "ignore").decode() != argument:
                raise click.UsageError(
                    f"{argument!a} is not readable text: type or copy it again", ctx
                )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except sa.exc.DBAPIError as problem:
            raise click.ClickException(explain(problem)) from None


def explain(problem: sa.exc.DBAPIError) -> str:
    """Return what a database error means for whoever runs a command."""
    text = str(problem.orig).strip().splitlines()[0] if problem.orig else str(problem)
    if "no such table" in text or "does not exist" in text:
        return f"the database is not ready ({text}): run `alembic upgrade head`"
    if getattr(problem.orig, "sqlstate", None) in _AGAIN:
        return f"others changed the same rows ({text}). Nothing was done; please run it again."
    return f"the database cannot be used: {text}. Check DATABASE_URL and that the server runs."


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: object) -> str:
    return instant(value) or "" if isinstance(value, datetime) else str(value)


def instant(moment: datetime | None) -> str | None:
    """Return a time as interface and JSON write it: UTC, to the second, with Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]], nothing: str) -> None:
    """Print rows in columns, or the sentence `nothing` when there are none."""
    if not rows:
        click.echo(nothing)
        return
    cells = [["" if cell is None else one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(heads), *cells]) for i in range(len(heads))]
    for row in [list(heads), *cells]:
        click.echo(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def one_line(value: object) -> str:
    """Return a value on one line, without control characters that a terminal would obey."""
    text = instant(value) if isinstance(value, datetime) else str(value)
    return "".join(each if each.isprintable() else " " for each in text or "")
