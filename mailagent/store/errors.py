"""Which errors of the database pass by themselves: the same statement, sent again later, may succeed.

All others are mistakes of ours or of the data, and trying again would only hide them.
"""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

# PostgreSQL, appendix A "Error Codes": connection lost; serialisation failure and deadlock; out of
# resources; shut down or starting up; gone while idle in a transaction; a standby that was promoted
# too late; a lock that was not to be had.
_PASSING_CLASSES = ("08", "40", "53", "57")
_PASSING_STATES = frozenset({"25P03", "25006", "55P03"})
# A statement that ran into its time limit, or that somebody cancelled, would do so again.
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


def is_outage(error: BaseException) -> bool:
    """Return whether `error` is trouble of the database that passes by itself."""
    if isinstance(error, sa.exc.TimeoutError):
        return True  # no connection was free in the pool
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        return code & 0xFF in _PASSING_SQLITE  # the low byte; the rest says more about it
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        # psycopg has no state to tell when there is no server to tell it.
        return isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
    passes = state.startswith(_PASSING_CLASSES) and state != _QUERY_CANCELED
    return passes or state in _PASSING_STATES


def is_cancelled(error: BaseException) -> bool:
    """Return whether a statement ran into its time limit, or somebody cancelled it."""
    return (
        isinstance(error, sa.exc.DBAPIError)
        and getattr(error.orig, "sqlstate", None) == _QUERY_CANCELED
    )


# A server that takes no writes: a standby that is yet to be promoted, or one that was demoted.
_READ_ONLY = "25006"


def mark_outages() -> None:
    """Make every engine of this process take these errors for a lost connection: it opens new ones, and DBOS
    tries to write its records until it can. It knows fewer errors as outages than there are, and a run whose
    end it cannot record is nobody's: pending, with a worker that lives."""
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


# PostgreSQL's name for what refuses a statement that was prepared before a migration changed the type of a
# column it returns. The state that it gives, 0A000, has many other meanings, and the words have a language.
_REFUSES_STALE_PLANS = "RevalidateCachedQuery"


def drop_stale_plans(engine: sa.Engine) -> None:
    """Make an engine take such a refusal for a lost connection: all of its connections were opened before the
    migration, and are replaced when they are next asked for. So it is an outage that passes with one more
    try."""
    sa.event.listen(engine, "handle_error", _mark_stale)


def _mark_stale(context: sa.engine.ExceptionContext) -> None:
    told = getattr(context.original_exception, "diag", None)
    if told is not None and told.source_function == _REFUSES_STALE_PLANS:
        context.is_disconnect = True
