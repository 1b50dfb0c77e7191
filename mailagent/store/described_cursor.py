"""A cursor of psycopg that describes the columns of a result once, not for each result anew.

SQLAlchemy asks for the description of each result, though it knows the columns of its own statements: for a
row of thirty columns that costs as much as sending the statement.
"""

from __future__ import annotations

from typing import Any

from psycopg import Column, Cursor

# There are some hundred different results; a console that makes them up as it goes must not fill the memory.
KEPT_MOST = 2_000

_Columns = tuple[tuple[bytes | None, int, int, int], ...]
_kept: dict[_Columns, list[Column]] = {}


class DescribedCursor(Cursor[Any]):
    """Shares the descriptions of equal columns; nobody changes one."""

    @property
    def description(self) -> list[Column] | None:
        result = self.pgresult
        if result is None or not result.nfields:
            return super().description
        key = tuple(
            [
                (result.fname(at), result.ftype(at), result.fmod(at), result.fsize(at))
                for at in range(result.nfields)
            ]
        )
        found = _kept.get(key)
        if found is None:
            found = super().description
            if found is not None and len(_kept) < KEPT_MOST:
                _kept[key] = found
        return found
