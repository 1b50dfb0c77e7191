"""The one database: how it is opened, and how SQLite is made to behave like a server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from mailagent.store.errors import leave_out_details

Row = sa.Row[*tuple[Any, ...]]
Record = TypeVar("Record")
Found = TypeVar("Found")

# DBOS opens the same file with engines of its own, so a writer may have to wait for one of them.
SQLITE_BUSY_MILLISECONDS = 30_000

# A process that stops within a transaction holds its locks no longer than this. It is shorter than a worker's
# lease, so that the worker that takes over its runs does not wait for them.
IDLE_IN_TRANSACTION_SECONDS = 20

# When a silent server counts as gone. One that lost its power or its network closes no connection, and the
# system would wait for hours. After 10 s of silence it gets a keepalive every 5 s; it is gone after three
# without an answer, or if nothing was acknowledged for 20 s. libpq's names and units.
GONE_AFTER = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

# SET LOCAL, which takes no parameters: it ends with the transaction.
_LIMIT_HERE = sa.select(
    sa.func.set_config("statement_timeout", sa.bindparam("milliseconds", type_=sa.Text), True)
)

# A connection that was used more recently is not pinged.
PING_AFTER_SECONDS = 1.0

END_OF_TIME = datetime.max.replace(tzinfo=UTC)

# The option of a connection that only reads.
READS = "mailagent_reads"


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware UTC time; a naive one is refused, because its time zone is unknown."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Database:
    """The app's tables; DBOS keeps its own in the same database. `answered_at`: when it last answered this
    process."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.answered_at: datetime | None = None
        sa.event.listen(engine, "checkin", self._note_answer)
        self._reads: dict[str, Any] = {READS: True}
        self._commits_reads = engine.dialect.name == "postgresql"
        if self._commits_reads:
            # Otherwise each query has a moment of its own, and an order that is replaced in between
            # is read half old and half new.
            self._reads |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Give a connection whose work is committed at the end, or rolled back on an exception."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self, statement_seconds: float | None = None) -> Iterator[sa.Connection]:
        """Give a connection for reading only: all that is read is of one moment. On SQLite it does not
        wait for writers.

        `statement_seconds`: how long PostgreSQL may take for each statement, waits for locks included; one
        that takes longer fails as `is_cancelled` says.
        """
        with self.engine.connect().execution_options(**self._reads) as connection:
            if statement_seconds is not None and connection.dialect.name == "postgresql":
                connection.execute(_LIMIT_HERE, {"milliseconds": f"{statement_seconds * 1000:.0f}"})
            yield connection
            if self._commits_reads and not connection.invalidated:
                # Nothing was written, but psycopg forgets all prepared statements at a rollback.
                connection.commit()

    def _note_answer(self, connection: object, _record: object) -> None:
        if connection is not None:  # it was not lost
            self.answered_at = datetime.now(UTC)

    def close(self) -> None:
        self.engine.dispose()


def open_database(
    url: str, pool_size: int = 10, name: str = "mailagent", pool_seconds: float = 30.0
) -> Database:
    """Return the database at `url` (`sqlite:///…` or `postgresql+psycopg://…`); nothing is connected yet.

    `pool_size`: the most connections, and so the most threads of this process that work in the database at
    once: more cost Python more than they gain. 0 keeps none open and sets no bound. `name`: what PostgreSQL
    shows the connections as. `pool_seconds`: how long to wait for a free one before TimeoutError. Time-outs
    and keepalives in the URL win over ours.
    """
    options: dict[str, Any] = {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": pool_seconds,
    }
    if pool_size == 0:
        options = {"poolclass": sa.NullPool}
    # An error is logged and kept with its run; mail has no place there.
    options["hide_parameters"] = True
    if url.startswith("sqlite"):
        engine = sa.create_engine(url, **options)
        sa.event.listen(engine, "do_connect", _keep_private)
        sa.event.listen(engine, "connect", _set_up_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return Database(engine)
    # What stands in `connect_args` would win over the URL.
    said = sa.make_url(url).query
    gone_after = {name: value for name, value in GONE_AFTER.items() if name not in said}
    connect_args = {"application_name": name, **gone_after}
    engine = sa.create_engine(url, **options, connect_args=connect_args)
    if "idle_in_transaction_session_timeout" not in url:
        sa.event.listen(engine, "connect", _limit_idle_transactions)
    _ping_after_rest(engine)
    leave_out_details(engine)
    return Database(engine)


def _ping_after_rest(engine: sa.Engine) -> None:
    """Replace a connection that the server has closed while it was not in use.

    `pool_pre_ping` would ask before each use, which costs a fifth of the CPU of an answered mail.
    """

    @sa.event.listens_for(engine, "checkin")
    def note_return(_connection: object, record: Any) -> None:
        record.info["returned_at"] = time.monotonic()

    @sa.event.listens_for(engine, "checkout")
    def ping(connection: Any, record: Any, _proxy: object) -> None:
        rested = time.monotonic() - record.info.get("returned_at", time.monotonic())
        if rested < PING_AFTER_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.DisconnectionError("the server has closed the connection") from error


def _limit_idle_transactions(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        milliseconds = IDLE_IN_TRANSACTION_SECONDS * 1000
        cursor.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
    connection.commit()  # else the pool would roll it back


def _keep_private(
    _dialect: object, _record: object, arguments: Sequence[Any], _more: object
) -> None:
    """Let only the owner of the file read mail, before SQLite makes it, and -wal and -shm with its mode.

    A file that is there is never opened here: to close it would let go of all locks that SQLite has on it in
    this process (sqlite.org/howtocorrupt.html, 2.2).
    """
    path = str(arguments[0])
    if path.startswith("file:"):
        return
    with suppress(OSError):  # it is there; or no folder is, and to connect says so
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for name in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(OSError):  # not there, or another user's
            os.chmod(name, 0o600)


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin only at the first write
    for pragma in (
        f"busy_timeout={SQLITE_BUSY_MILLISECONDS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # SQLite has no row locks: a transaction that will write takes the one lock there is before it
    # reads. Begun later, two of them would end in "database is locked", which no time-out waits out.
    reads = connection.get_execution_options().get(READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def insert_once(
    connection: sa.Connection, table: sa.Table, values: Mapping[str, Any], *key: str
) -> bool:
    """Insert a row unless one with the same unique `key` columns exists; return whether it was new."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    once = insert(table).on_conflict_do_nothing(index_elements=key).returning(sa.literal(1))
    return connection.scalar(once, values) is not None


def exists(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> bool:
    """Return whether there is a row for which all conditions hold."""
    return connection.scalar(sa.select(sa.literal(1)).where(*where).limit(1)) is not None


def required(found: Found | None, name: str) -> Found:
    """Return what was found. Raises LookupError, with the `name` of what was looked for, if it is None."""
    if found is None:
        raise LookupError(f"{name} does not exist")
    return found


def from_row(kind: type[Record], row: Row, /, **values: Any) -> Record:
    """Return a dataclass made of the columns that are named like its fields. `values` win over columns."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: row._mapping[name] for name in names & row._mapping.keys()} | values)


def columns_of(table: sa.Table, record: object, /, **values: Any) -> dict[str, Any]:
    """Return the values of the columns that are named like attributes of a record. `values` win over them."""
    names = [column.name for column in table.columns if hasattr(record, column.name)]
    found = {name: getattr(record, name) for name in names}
    plain = {name: each.value if isinstance(each, Enum) else each for name, each in found.items()}
    return plain | values


def is_constant(column: sa.ColumnElement[Any], *values: str) -> sa.ColumnElement[bool]:
    """Compare with constants in the statement: PostgreSQL finds a partial index by them only, also when it
    made the plan once for all parameters."""
    return column.in_([sa.literal_column(f"'{value}'") for value in values])


def overwrite_deleted(connection: sa.Connection) -> None:
    """Overwrite on SQLite what this transaction deletes: else the text stays in the file for some time."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
