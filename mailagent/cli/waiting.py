"""Starting while the database is away: a process that runs workflows waits for it, and says so."""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa

from mailagent.cli.printing import explain
from mailagent.store.database import Database
from mailagent.store.migration import check_schema
from mailagent.store.outage import is_outage

PAUSE_SECONDS = 2.0
# How often the same words are said, in pauses.
SAID_EVERY = 30


def wait_for_database(database: Database, say: Callable[[str], None]) -> None:
    """Return when the database is reached and migrated.

    A server that is away may be about to start, so this waits for as long as it takes: to end would only
    make the platform start us again and again. Raises SchemaProblem, and sqlalchemy's DBAPIError for what
    does not pass by itself; a file of SQLite's that is not there never comes.
    """
    tries = 0
    while True:
        try:
            check_schema(database)
            return
        except sa.exc.DBAPIError as problem:
            if database.engine.dialect.name == "sqlite" or not is_outage(problem):
                raise
            if tries % SAID_EVERY == 0:
                say(f"{explain(problem)} Waiting for it.")
        tries += 1
        time.sleep(PAUSE_SECONDS)
