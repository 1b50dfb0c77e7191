"""Keyset pagination: a page begins behind a certain row, not behind a number of rows.

So pages show no row twice and leave none out while rows come and go, and the thousandth page is as fast as the
first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from mailagent.store.database import Row, UtcDateTime

T = TypeVar("T")

PAGE_SIZE = 50

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_ID = 400  # characters: the id of a timeline's entry may have a mail address in it


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """The position of a row in a list: its time, and its id among rows of the same time."""

    at: datetime
    row_id: str

    def __str__(self) -> str:
        return f"{microseconds(self.at)}~{self.row_id}"


def microseconds(moment: datetime) -> int:
    """Return a time as whole microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def parse_moment(text: str | None) -> datetime | None:
    """Return the time in a text of microseconds since 1970; None for any other text."""
    if not text or not text.isascii() or not text.isdigit() or len(text) > 16:
        return None
    return _EPOCH + timedelta(microseconds=int(text))


def parse_cursor(text: str | None) -> Cursor | None:
    """Return the cursor in a page's URL; None for any other text."""
    moment, _, row_id = (text or "").partition("~")
    at = parse_moment(moment)
    if at is None or not row_id or len(row_id) > _LONGEST_ID or not row_id.isprintable():
        return None
    return Cursor(at, row_id)


@dataclass(frozen=True, slots=True)
class Window:
    """Which page of a list: the rows beside a cursor; without a cursor, the first page."""

    newest_first: bool = True
    newer: Cursor | None = None  # rows newer than this one
    older: Cursor | None = None  # rows older than this one
    size: int = PAGE_SIZE

    @property
    def cursor(self) -> Cursor | None:
        return self.newer or self.older

    @property
    def climbs(self) -> bool:
        """Whether the query reads rows from old to new."""
        return self.newer is not None or (self.older is None and not self.newest_first)


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """One page of a list. `newer` and `older`: the cursors of the next pages in both directions; None at the
    end."""

    rows: tuple[T, ...]
    newer: Cursor | None = None
    older: Cursor | None = None


@dataclass(frozen=True, slots=True)
class Source(Generic[T]):
    """A query for rows of one kind in a list. `at` and `row_id` are columns of `query`; `at` is a time, or a
    number of microseconds since 1970. `read` turns a row into the list's value."""

    query: sa.Select[Any]
    at: sa.ColumnElement[Any]
    row_id: sa.ColumnElement[Any]
    read: Callable[[Row], T]


def read_part(
    connection: sa.Connection,
    sources: Sequence[Source[T]],
    window: Window,
    cursor_of: Callable[[T], Cursor],
) -> Part[T]:
    """Return one page of a list whose rows come from several sources, merged by time."""
    found: list[T] = []
    for source in sources:
        rows = connection.execute(_request(connection, source, window))
        found.extend(source.read(row) for row in rows)
    found.sort(key=cursor_of, reverse=not window.climbs)
    more, shown = len(found) > window.size, found[: window.size]
    if not shown:
        return Part(())
    shown.sort(key=cursor_of, reverse=window.newest_first)
    newest, oldest = max(map(cursor_of, shown)), min(map(cursor_of, shown))
    behind = window.cursor is not None
    return Part(
        tuple(shown),
        newer=newest if (more if window.climbs else behind) else None,
        older=oldest if (behind if window.climbs else more) else None,
    )


def _request(connection: sa.Connection, source: Source[Any], window: Window) -> sa.Select[Any]:
    row_id = source.row_id
    if connection.dialect.name == "postgresql" and isinstance(row_id.type, sa.String):
        row_id = sa.collate(row_id, "C")  # the same order as in Python and SQLite
    query = source.query
    if window.cursor is not None:
        here = sa.tuple_(source.at, row_id)
        there = sa.tuple_(_moment(source, window.cursor), _id(source, window.cursor))
        query = query.where(here > there if window.climbs else here < there)
    if window.climbs:
        query = query.order_by(source.at, row_id)
    else:
        query = query.order_by(source.at.desc(), row_id.desc())
    return query.limit(window.size + 1)


def _moment(source: Source[Any], cursor: Cursor) -> sa.ColumnElement[Any]:
    if isinstance(source.at.type, sa.Integer):
        return sa.literal(microseconds(cursor.at), sa.BigInteger)
    return sa.literal(cursor.at, UtcDateTime)


def _id(source: Source[Any], cursor: Cursor) -> sa.ColumnElement[Any]:
    if isinstance(source.row_id.type, sa.Integer):
        number = int(cursor.row_id) if cursor.row_id.isdecimal() and len(cursor.row_id) < 19 else 0
        return sa.literal(number, sa.BigInteger)
    return sa.literal(cursor.row_id, sa.Text)


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows a list has, up to `most` + 1 in each of its sources, and the time of the oldest row."""

    number: int
    oldest_at: datetime | None
    most: int

    @property
    def words(self) -> str:
        return f"{self.most:,}+" if self.number > self.most else f"{self.number:,}"


def count(connection: sa.Connection, sources: Sequence[Source[Any]], most: int = 1_000) -> Count:
    """Count the rows of a list. In each source, stop at `most` + 1, so that it is fast."""
    number, oldest = 0, None
    for source in sources:
        at = source.at.label("at")
        rows = source.query.with_only_columns(at).order_by(source.at).limit(most + 1).subquery()
        counted = connection.execute(sa.select(sa.func.count(), sa.func.min(rows.c.at))).one()
        number += counted[0]
        first = moment_of(counted[1])
        oldest = min(filter(None, (oldest, first)), default=None)
    return Count(number, oldest, most)


def list_newest(
    connection: sa.Connection, sources: Sequence[Source[Any]], most: int = 100
) -> tuple[datetime, ...]:
    """Return the times of the newest rows of a list, oldest first: at most `most` + 1."""
    moments: list[datetime] = []
    for source in sources:
        newest = source.query.with_only_columns(source.at.label("at")).order_by(source.at.desc())
        found = connection.execute(newest.limit(most + 1))
        moments += filter(None, (moment_of(row.at) for row in found))
    return tuple(sorted(moments)[-most - 1 :])


def moment_of(value: datetime | int | None) -> datetime | None:
    """Return the time from a column of times, or of microseconds since 1970."""
    if value is None or isinstance(value, datetime):
        return value
    return _EPOCH + timedelta(microseconds=int(value))
