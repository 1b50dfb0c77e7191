"""Opens the database, and makes SQLite behave like a database server."""

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

# PostgreSQL ends a transaction that is idle for so long, so that a stopped process does not keep its locks. It
# is shorter than a worker's lease, so that the worker that takes over its runs need not wait for them.
IDLE_IN_TRANSACTION_SECONDS = 20

# When a silent server counts as gone. A server that lost power or network does not close connections, and the
# operating system would wait for hours. After 10 s of silence it gets a keepalive every 5 s. It is gone after
# three without an answer, or if it acknowledged nothing for 20 s. Names and units are libpq's.
GONE_AFTER = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

# The same as SET LOCAL, which takes no parameters: the limit ends with the transaction.
_LIMIT_HERE = sa.select(
    sa.func.set_config("statement_timeout", sa.bindparam("milliseconds", type_=sa.Text), True)
)

# A connection that was idle for longer is pinged before use.
PING_AFTER_SECONDS = 1.0

BATCH = 500  # databases limit the number of parameters of a statement

END_OF_TIME = datetime.max.replace(tzinfo=UTC)

# The execution option of a connection that only reads.
READS = "mailagent_reads"


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """A column of aware UTC times. Raises ValueError for a naive time, because its time zone is unknown."""

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
    """A database with the app's tables; DBOS keeps its own tables beside them. `answered_at`: when it last
    answered this process."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.answered_at: datetime | None = None
        sa.event.listen(engine, "checkin", self._note_answer)
        self._reads: dict[str, Any] = {READS: True}
        self._commits_reads = engine.dialect.name == "postgresql"
        if self._commits_reads:
            # At the usual isolation level each query sees another moment: if an order is replaced between
            # two queries, we would read half of the old and half of the new one.
            self._reads |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Open a transaction: commit it at the end of the block, roll it back on an exception."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self, statement_seconds: float | None = None) -> Iterator[sa.Connection]:
        """Open a read-only transaction in which all queries see the same moment. On SQLite it does not wait for
        writers.

        `statement_seconds`: how long PostgreSQL may take for each statement, with waits for locks. A longer one
        raises an error for which `errors.is_cancelled` is true.
        """
        with self.engine.connect().execution_options(**self._reads) as connection:
            if statement_seconds is not None and connection.dialect.name == "postgresql":
                connection.execute(_LIMIT_HERE, {"milliseconds": f"{statement_seconds * 1000:.0f}"})
            yield connection
            if self._commits_reads and not connection.invalidated:
                # Nothing was written. But a rollback would make psycopg forget all prepared statements.
                connection.commit()

    def _note_answer(self, connection: object, _record: object) -> None:
        if connection is not None:  # None: the connection was lost
            self.answered_at = datetime.now(UTC)

    def close(self) -> None:
        self.engine.dispose()


def open_database(
    url: str, pool_size: int = 10, name: str = "mailagent", pool_seconds: float = 30.0
) -> Database:
    """Return the database at `url` (`sqlite:///…` or `postgresql+psycopg://…`); nothing is connected yet.

    `pool_size`: the most connections, and so the most threads of this process that use the database at once;
    more make Python slower. 0: keep no connection open, and set no bound. `name`: the application name that
    PostgreSQL shows. `pool_seconds`: how long to wait for a free connection before TimeoutError. Time-outs and
    keepalives in the URL win over ours.
    """
    options: dict[str, Any] = {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": pool_seconds,
    }
    if pool_size == 0:
        options = {"poolclass": sa.NullPool}
    # Errors are logged and stored with their run, so they must not quote mail.
    options["hide_parameters"] = True
    if url.startswith("sqlite"):
        engine = sa.create_engine(url, **options)
        sa.event.listen(engine, "do_connect", _keep_private)
        sa.event.listen(engine, "connect", _set_up_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return Database(engine)
    # Leave out what the URL sets, because `connect_args` would win over it.
    said = sa.make_url(url).query
    gone_after = {name: value for name, value in GONE_AFTER.items() if name not in said}
    # Else a database without an encoding answers in bytes, before its encoding can be told.
    connect_args = {"application_name": name, "client_encoding": "utf8", **gone_after}
    engine = sa.create_engine(url, **options, connect_args=connect_args)
    if "idle_in_transaction_session_timeout" not in url:
        sa.event.listen(engine, "connect", _limit_idle_transactions)
    _ping_after_rest(engine)
    leave_out_details(engine)
    return Database(engine)


def _ping_after_rest(engine: sa.Engine) -> None:
    """Replace a connection that the server closed while it was idle.

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
    connection.commit()  # else the pool would roll the setting back


def _keep_private(
    _dialect: object, _record: object, arguments: Sequence[Any], _more: object
) -> None:
    """Create the SQLite file with access for its owner only, before SQLite does; -wal and -shm get its mode.

    Never open an existing file here: closing it would release all locks that SQLite holds on it in this process
    (sqlite.org/howtocorrupt.html, 2.2).
    """
    path = str(arguments[0])
    if path.startswith("file:"):
        return
    with suppress(OSError):  # it exists; or its folder does not, and connecting says so
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for name in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(OSError):  # it does not exist, or belongs to another user
            os.chmod(name, 0o600)


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # else the driver would begin only at the first write
    for pragma in (
        f"busy_timeout={SQLITE_BUSY_MILLISECONDS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # SQLite has no row locks. A transaction that may write takes the one write lock before it reads: if two
    # took it after reading, one would fail with "database is locked", without waiting.
    reads = connection.get_execution_options().get(READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def insert_once(
    connection: sa.Connection, table: sa.Table, values: Mapping[str, Any], *key: str
) -> bool:
    """Insert a row unless one with the same values in the unique `key` columns exists; return whether it was
    new."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    once = insert(table).on_conflict_do_nothing(index_elements=key).returning(sa.literal(1))
    return connection.scalar(once, values) is not None


def update_rows(
    connection: sa.Connection, table: sa.Table, *where: sa.ColumnElement[bool], **values: Any
) -> int:
    """Set columns of the rows for which all conditions hold; return how many rows these are."""
    return connection.execute(table.update().where(*where).values(**values)).rowcount


def exists(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> bool:
    """Return whether there is a row for which all conditions hold."""
    return connection.scalar(sa.select(sa.literal(1)).where(*where).limit(1)) is not None


def count_rows(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> int:
    """Return for how many rows all conditions hold."""
    return connection.scalar(sa.select(sa.func.count()).where(*where)) or 0


def required(found: Found | None, name: str) -> Found:
    """Return `found`. Raises LookupError with `name`, what was looked for, if it is None."""
    if found is None:
        raise LookupError(f"{name} does not exist")
    return found


def from_row(kind: type[Record], row: Row, /, **values: Any) -> Record:
    """Return a dataclass filled from the columns that have the names of its fields. `values` win over
    columns."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: row._mapping[name] for name in names & row._mapping.keys()} | values)


def columns_of(table: sa.Table, record: object, /, **values: Any) -> dict[str, Any]:
    """Return the values for the columns that have the names of a record's attributes, by name. `values` win
    over attributes."""
    names = [column.name for column in table.columns if hasattr(record, column.name)]
    found = {name: getattr(record, name) for name in names}
    plain = {name: each.value if isinstance(each, Enum) else each for name, each in found.items()}
    return plain | values


def in_literals(column: sa.ColumnElement[Any], *values: str) -> sa.ColumnElement[bool]:
    """Return the condition that a column has one of these values, written into the SQL and not as parameters:
    PostgreSQL's generic plans use a partial index only then. The values are escaped."""
    literals = [sa.literal(value, sa.Text, literal_execute=True) for value in values]
    # SQLite does not see that IN with one value is the condition of a partial index.
    return column.in_(literals) if len(literals) > 1 else column == literals[0]


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield ids in batches that fit one statement in every database."""
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


def overwrite_deleted(connection: sa.Connection) -> None:
    """On SQLite, overwrite what this transaction deletes. Else deleted text stays in the file for some time."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
