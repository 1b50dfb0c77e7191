"""Every cell of every table, to look for what must be in none of them."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from tests.harness import Harness


def cells(shop: Harness) -> list[tuple[str, str, str]]:
    """Return every cell of every table, the workflow engine's too: table, column, text."""
    engine = shop.live.database.engine
    inspector = sa.inspect(engine)
    schemas = [None] if engine.dialect.name == "sqlite" else ["public", "dbos"]
    found = []
    with engine.connect() as connection:
        for name in schemas:
            for table in inspector.get_table_names(name):
                quoted = f'"{name}"."{table}"' if name else f'"{table}"'
                for row in connection.exec_driver_sql(f"SELECT * FROM {quoted}").mappings():
                    found += [(table, column, _text(value)) for column, value in row.items()]
    return found


def _text(value: Any) -> str:
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("latin-1")
    if isinstance(value, str):
        # JSON that is kept as text writes what is not ASCII in escapes.
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
