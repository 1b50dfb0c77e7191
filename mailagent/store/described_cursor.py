"""A cursor of psycopg that describes the columns of a statement's results once, not for each result anew.

SQLAlchemy asks for the description of each result, though it knows the columns of its own statements: for a
row of thirty columns that costs as much as sending the statement.
"""

from __future__ import annotations

from typing import Any

from psycopg import Column, Cursor

# There are some hundred statements; a console that makes them up as it goes must not fill the memory.
KEPT_MOST = 2_000

# By the statement, and by how many columns came: `RETURNING` may come to nothing.
_kept: dict[tuple[bytes, int], list[Column]] = {}


class DescribedCursor(Cursor[Any]):
    """Shares the descriptions of one statement's results; nobody changes one. What a statement with a `*`
    returns, its table says: that is asked each time."""

    @property
    def description(self) -> list[Column] | None:
        result, query = self.pgresult, self._query
        if result is None or query is None or b"*" in query.query:
            return super().description
        key = query.query, result.nfields
        found = _kept.get(key)
        if found is None:
            found = super().description
            if found is not None and len(_kept) < KEPT_MOST:
                _kept[key] = found
        return found
