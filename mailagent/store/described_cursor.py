"""A cursor of psycopg that describes the columns of a statement's results once, not for each result anew.

SQLAlchemy asks for the description of each result, though it knows the columns of its own statements: for a
row of thirty columns that costs as much as sending the statement.
"""

from __future__ import annotations

import re
from typing import Any

from psycopg import Column, Cursor

# There are some hundred statements; a console that makes them up as it goes must not fill the memory.
KEPT_MOST = 2_000

# What `*` stands for, where it multiplies nothing, is not all that `count` counts and not only asked whether
# there is a row, the table says.
_ALL_COLUMNS = re.compile(
    r"(?:(?<!\bexists \()\bselect(?:\s+(?:all|distinct))?|\breturning|,|\.)\s*\*", re.IGNORECASE
)

# By the statement, and by how many columns came: `RETURNING` may come to nothing.
_kept: dict[tuple[str, int], list[Column]] = {}


class DescribedCursor(Cursor[Any]):
    """Shares the descriptions of one statement's results; nobody changes one. A statement that asks for all
    columns of a table is described each time."""

    @property
    def description(self) -> list[Column] | None:
        result, query = self.pgresult, self._last_query
        if result is None or not isinstance(query, str):
            return super().description
        key = query, result.nfields
        found = _kept.get(key)
        if found is None:
            found = super().description
            if found is not None and len(_kept) < KEPT_MOST and not _ALL_COLUMNS.search(query):
                _kept[key] = found
        return found
