"""Counts that only ever grow: rows up to a mark are in a tally, rows since are counted when asked.

A worker moves the marks on, bit by bit. So asking costs what the last minutes brought, however many rows
there are, and rows that are purged when they are old have been counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import insert_once

_tallies, _marks = schema.tallies.c, schema.tally_marks.c
_mails, _written, _calls = schema.inbound_mails.c, schema.outbound_mails.c, schema.model_calls.c

# A row has the time at which its transaction began; after this long every such transaction has ended.
SETTLED_AFTER = timedelta(minutes=10)
ROWS_AT_ONCE = 50_000
FAILURES = "failures"

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_ONE = sa.literal(1)

Tally = tuple[str, str, str]  # label, detail, quantity


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to count by `label` and `detail`, which never change once a row is there. `at` has an index."""

    name: str
    at: sa.Column[datetime]
    label: sa.ColumnElement[str]
    detail: sa.ColumnElement[str]
    quantities: Mapping[str, sa.ColumnElement[int]]


_cached = sa.case(  # a server that counts more than it read is taken at its word for what was read
    (_calls.cached_tokens > _calls.input_tokens, _calls.input_tokens), else_=_calls.cached_tokens
)

RECEIVED = Source("received", _mails.received_at, _mails.kind, sa.literal(""), {"mails": _ONE})
WRITTEN = Source("written", _written.created_at, _written.purpose, sa.literal(""), {"mails": _ONE})
CALLS = Source(
    "calls",
    _calls.at,
    _calls.model,
    _calls.outcome,
    {
        "calls": _ONE,
        "input": _calls.input_tokens,
        "cached": _cached,
        "output": _calls.output_tokens,
    },
)
SOURCES = (RECEIVED, WRITTEN, CALLS)


def count(connection: sa.Connection, source: Source) -> Counter[Tally]:
    """Return all there ever was of a source. To be asked in a snapshot: tally and rows of one moment."""
    query = sa.select(_tallies.label, _tallies.detail, _tallies.quantity, _tallies.total)
    found: Counter[Tally] = Counter()
    for label, detail, quantity, total in connection.execute(
        query.where(_tallies.source == source.name)
    ):
        found[label, detail, quantity] += total
    mark = connection.scalar(sa.select(_marks.counted_until).where(_marks.source == source.name))
    return found + _count_rows(connection, source, mark or _BEGINNING, None)


def _count_rows(
    connection: sa.Connection, source: Source, after: datetime, until: datetime | None
) -> Counter[Tally]:
    sums = [sa.func.sum(column).label(name) for name, column in source.quantities.items()]
    query = (
        sa.select(source.label.label("label"), source.detail.label("detail"), *sums)
        .where(source.at > after)
        .group_by("label", "detail")
    )
    if until is not None:
        query = query.where(source.at <= until)
    return Counter(
        {
            (row.label, row.detail, name): int(row._mapping[name])
            for row in connection.execute(query)
            for name in source.quantities
        }
    )


def move_on(connection: sa.Connection, source: Source, now: datetime) -> bool:
    """Add the next rows to a tally and move its mark behind them. Returns whether there may be more.

    Of several workers that do so at once, one does.
    """
    beginning = {"source": source.name, "counted_until": _BEGINNING}
    insert_once(connection, schema.tally_marks, beginning, "source")
    mark = connection.scalar(
        sa.select(_marks.counted_until)
        .where(_marks.source == source.name)
        .with_for_update(skip_locked=True)
    )
    settled = now - SETTLED_AFTER
    if mark is None or mark >= settled:
        return False
    newer = sa.select(source.at).where(source.at > mark, source.at <= settled)
    full = connection.scalar(newer.order_by(source.at).offset(ROWS_AT_ONCE - 1).limit(1))
    # No further than the last row: a clock that is set back may bring rows of the time since.
    until = full or connection.scalar(newer.order_by(source.at.desc()).limit(1))
    if until is None:
        return False
    for tally, total in _count_rows(connection, source, mark, until).items():
        _add(connection, source.name, tally, total)
    connection.execute(
        sa.update(schema.tally_marks)
        .where(_marks.source == source.name)
        .values(counted_until=until)
    )
    return full is not None


def count_failure(connection: sa.Connection, provider: str) -> None:
    """Count a call that a provider did not answer as it should."""
    _add(connection, FAILURES, (provider, "", FAILURES), 1)


def list_failures(connection: sa.Connection) -> dict[str, int]:
    """Return how many calls each provider has failed, those without any left out."""
    query = sa.select(_tallies.label, _tallies.total).where(_tallies.source == FAILURES)
    return {row.label: row.total for row in connection.execute(query)}


def _add(connection: sa.Connection, source: str, tally: Tally, total: int) -> None:
    label, detail, quantity = tally
    key = {"source": source, "label": label, "detail": detail, "quantity": quantity}
    insert_once(connection, schema.tallies, {**key, "total": 0}, *key)
    connection.execute(
        sa.update(schema.tallies)
        .where(*(schema.tallies.c[name] == value for name, value in key.items()))
        .values(total=_tallies.total + total)
    )
