"""A shop's rows as a release left them, put back into the schema of that release."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent.store.database import open_database
from tests.databases import migrate
from tests.histories.history import FOLDER, ROWS


@dataclass(frozen=True)
class OldShop:
    """What was written down of a shop: its newest migration, the links it had mailed, its rows."""

    migration: str
    links: tuple[str, ...]
    rows: dict[str, list[dict[str, Any]]]

    def put_back(self, database_url: str) -> None:
        """Make the rows anew in an empty SQLite file, under the migrations that the release had."""
        migrate(database_url, self.migration)
        database = open_database(database_url)
        with database.transaction() as connection, _without_triggers(connection):
            # The rows were whole when they were written down, in whatever order they come back.
            connection.execute(sa.text("PRAGMA defer_foreign_keys = ON"))
            for table, rows in self.rows.items():
                for row in rows:
                    _insert(connection, table, row)
        database.close()


def read_old_shop(release: str, story: str) -> OldShop:
    """Return the rows that a release left at the end of a story that was cut."""
    path = FOLDER / release / f"{ROWS}{story.replace(' ', '-')}.json"
    values = json.loads(path.read_text())
    return OldShop(values["migration"], tuple(values["links"]), values["rows"])


@contextmanager
def _without_triggers(connection: sa.Connection) -> Iterator[None]:
    """Keep triggers from counting once more what they had counted when the rows were written."""
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    triggers = connection.execute(sa.text(query)).all()
    for name, _ in triggers:
        connection.exec_driver_sql(f"DROP TRIGGER {name}")
    yield
    for _, statement in triggers:
        connection.exec_driver_sql(statement)


def _insert(connection: sa.Connection, table: str, row: dict[str, Any]) -> None:
    places = ", ".join(f":{name}" for name in row)
    statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})"
    connection.execute(sa.text(statement), {name: _raw(value) for name, value in row.items()})


def _raw(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
