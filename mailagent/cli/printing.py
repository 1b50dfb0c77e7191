"""How commands print: tables for people, JSON for programs, database errors in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
import sqlalchemy as sa
from flask.cli import AppGroup

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def limit(order: str) -> Callable[[Any], Any]:
    """Return the option --limit of a list in this order."""
    return click.option(
        "--limit",
        type=click.IntRange(1, 100_000),
        default=50,
        show_default=True,
        help=f"How many, {order}.",
    )


def columns(row: object, names: str) -> dict[str, Any]:
    """Return these attributes of a row, by their names."""
    return {name: getattr(row, name) for name in names.split()}


_DEADLOCK, _SERIALIZATION_FAILURE = "40P01", "40001"
# A table, a column, a function or a schema. A database or a role that is missing is no matter of migrations.
_MISSING = ("42P01", "42703", "42883", "3F000")


class _TellsTrouble(click.Command):
    """Refuses arguments that are not text, and reports a database error in one sentence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for argument in args:
            # Bytes that are not UTF-8 arrive as lone surrogates. No database stores those.
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


class Command(_TellsTrouble):
    """A command that stands alone."""


class Commands(_TellsTrouble, AppGroup):
    """A group of commands."""


def explain(problem: sa.exc.DBAPIError) -> str:
    """Return what a database error means and what to do."""
    text = str(problem.orig).strip().splitlines()[0] if problem.orig else str(problem)
    state = getattr(problem.orig, "sqlstate", None)
    if text.startswith(("no such table", "no such column")) or state in _MISSING:
        return f"the database is not ready ({text}): run `alembic upgrade head`"
    if state in (_DEADLOCK, _SERIALIZATION_FAILURE):
        return f"another process changed the same rows ({text}). Nothing was done; run it again."
    return f"the database cannot be used: {text}. Check DATABASE_URL, our rights, and that the server runs."


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: object) -> str:
    return instant(value) or "" if isinstance(value, datetime) else str(value)


def instant(moment: datetime | None) -> str | None:
    """Return a time in ISO 8601: UTC, to the second, with Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def print_records(
    records: Sequence[Mapping[str, Any]], shown: str, nothing: str, *, as_json: bool
) -> None:
    """Print records as JSON, or the columns `shown` as a table."""
    if as_json:
        print_json(records)
    else:
        heads = shown.split()
        print_table(heads, [[record[name] for name in heads] for record in records], nothing)


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
    """Return a value on one line, without control characters."""
    text = instant(value) if isinstance(value, datetime) else str(value)
    return "".join(each if each.isprintable() else " " for each in text or "")
