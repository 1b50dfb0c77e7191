"""Whether the database's schema is the one that this code was written for."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.store.database import Database

# The newest migration, by its number; a test compares it with the folder `migrations`.
HEAD = "0002"


class SchemaProblem(Exception):
    """The database is not migrated; the text says what to do."""


def check_schema(database: Database) -> None:
    """Raise SchemaProblem unless the schema is at HEAD, or newer.

    A newer one is fine: migrations are written so that the code before them still runs.
    """
    with database.snapshot() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            raise SchemaProblem("the database is empty: run `alembic upgrade head`")
        version = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    if version is None or version < HEAD:
        raise SchemaProblem(
            f"the database is at migration {version}, this code needs {HEAD}: "
            "run `alembic upgrade head`"
        )
