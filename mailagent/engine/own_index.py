"""An index on DBOS's table of runs: the successful runs, by the row that they are about. Without it, PostgreSQL
would read all runs to find whether a later one replaces a failed one.

SQLite has no such index: a shop on SQLite is small.
"""

from __future__ import annotations

from textwrap import dedent

import sqlalchemy as sa

_NAME = "mailagent_succeeded"

# Created only where it is missing: creating it waits for every transaction that writes to the table.
_INDEX = dedent(f"""
    DO $do$ BEGIN
        IF to_regclass('dbos.{_NAME}') IS NULL THEN
            CREATE INDEX {_NAME} ON dbos.workflow_status ((attributes ->> 'subject'), created_at)
            WHERE status = 'SUCCESS';
        END IF;
    END $do$
""")


def index_successes(connection: sa.Connection) -> None:
    """Create the index if it is missing. DBOS's tables must exist."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_INDEX)
