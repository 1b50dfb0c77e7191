"""Tells which database errors are transient: the same statement may succeed later.

All others are mistakes in our code or data, and a retry would only hide them. We cut the server's DETAIL lines
from errors, because they quote rows.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import sqlalchemy as sa

# PostgreSQL, appendix A "Error Codes": connection lost; serialisation failure and deadlock; out of resources;
# shut down or starting up; ended while idle in a transaction; a standby that still refuses writes; a lock that
# was not available.
_PASSING_CLASSES = ("08", "40", "53", "57")
_PASSING_STATES = frozenset({"25P03", "25006", "55P03"})
# Not transient: a statement that ran into its time limit, or was cancelled, would do so again.
_QUERY_CANCELED = "57014"

# sqlite.org/rescode.html: the file is locked, or the disk behind it is in trouble.
_PASSING_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)


def is_outage(error: BaseException | None) -> bool:
    """Return whether `error` is a transient failure of the database, after which a retry may succeed."""
    if isinstance(error, sa.exc.TimeoutError):
        return True  # the pool had no free connection
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        return code & 0xFF in _PASSING_SQLITE  # the low byte is the primary result code
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        # Without a server's answer, psycopg's error has no SQLSTATE.
        return isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
    passes = state.startswith(_PASSING_CLASSES) and state != _QUERY_CANCELED
    return passes or state in _PASSING_STATES


def is_cancelled(error: BaseException) -> bool:
    """Return whether a statement ran into its time limit or was cancelled."""
    return (
        isinstance(error, sa.exc.DBAPIError)
        and getattr(error.orig, "sqlstate", None) == _QUERY_CANCELED
    )


# The server takes no writes: it is a standby that is not promoted yet, or a primary that was demoted.
_READ_ONLY = "25006"


def mark_outages() -> None:
    """Make every engine of this process treat transient errors as a lost connection: it opens new connections,
    and DBOS retries to write its records. DBOS itself retries fewer errors. Without this, a run whose end DBOS
    cannot record would stay pending for ever, because its worker is alive."""
    if not sa.event.contains(sa.Engine, "handle_error", _mark):
        sa.event.listen(sa.Engine, "handle_error", _mark)


def _mark(context: sa.engine.ExceptionContext) -> None:
    error = context.sqlalchemy_exception
    if not isinstance(error, sa.exc.DBAPIError):
        return
    state = getattr(error.orig, "sqlstate", None)
    no_server = state is None and not isinstance(error.orig, sqlite3.Error) and is_outage(error)
    if no_server or state == _READ_ONLY:
        context.is_disconnect = True


# --- server words ---------------------------------------------------------------------------------


# The first line of an error says what is wrong and names the constraint. Further lines begin with one of these.
# https://www.postgresql.org/docs/current/protocol-error-fields.html
_ADDED = re.compile(
    r"\n(?:DETAIL|HINT|CONTEXT|QUERY|LINE \d+):.*?(?=\n\[SQL|\n\(Background|\Z)", re.DOTALL
)


def leave_out_details(engine: sa.Engine) -> None:
    """Remove the server's DETAIL and similar lines from this engine's errors, so that they quote no rows."""
    sa.event.listen(engine, "handle_error", _cut)


def _cut(context: Any) -> None:
    for error in (context.original_exception, context.sqlalchemy_exception):
        if error is not None and error.args and isinstance(error.args[0], str):
            error.args = (without_details(error.args[0]), *error.args[1:])


def without_details(text: str) -> str:
    """Return an error's text without what the server added to its first line."""
    return _ADDED.sub("", text)
