"""Starting while the database is away: a process that runs workflows waits for it, and says so."""

from __future__ import annotations

import signal
from collections.abc import Callable
from queue import Empty, SimpleQueue

import sqlalchemy as sa

from mailagent.cli.printing import explain
from mailagent.store.database import Database
from mailagent.store.errors import is_outage
from mailagent.store.migration import check_schema

PAUSE_SECONDS = 2.0
# How often the same words are said, in pauses.
SAID_EVERY = 30


def hear_signals() -> SimpleQueue[int]:
    """Return where SIGTERM and Ctrl-C are put from now on; they do nothing else any more.

    To be called before anything that takes long: the first process of a container gets no signal that it
    does not handle.
    """
    # Not an Event: setting one is not safe in a handler that another signal may interrupt.
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: signals.put(received))
    return signals


def wait_for_database(
    database: Database, say: Callable[[str], None], signals: SimpleQueue[int]
) -> bool:
    """Return True when the database is reached and migrated, False when one of the `signals` came first.

    A server that is away may be about to start, so this waits for as long as it takes: to end would only
    make the platform start us again and again. Raises SchemaProblem, and sqlalchemy's DBAPIError for what
    does not pass by itself; a file of SQLite's that is not there never comes.
    """
    tries = 0
    while signals.empty():
        try:
            check_schema(database)
            return True
        except sa.exc.DBAPIError as problem:
            if database.engine.dialect.name == "sqlite" or not is_outage(problem):
                raise
            if tries % SAID_EVERY == 0:
                say(f"{explain(problem)} Waiting for it.")
        tries += 1
        if _comes_within(PAUSE_SECONDS, signals):
            say("Asked to end before the database was reached.")
            break
    return False


def _comes_within(seconds: float, signals: SimpleQueue[int]) -> bool:
    try:
        signals.get(timeout=seconds)
    except Empty:
        return False
    return True
