"""Runs Alembic's migrations: one process at a time, with a short lock time-out and retries.

A statement that waits for a lock blocks all statements behind it. So a migration waits only a few seconds for a
lock; then it rolls back and tries again. The migrations themselves are in `migrations/`.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from mailagent.store.database import Database

# An arbitrary number. It must stay the same in all releases.
ADVISORY_LOCK = 7_301_144_517

LONGEST_PAUSE_SECONDS = 15.0
_LOCK_NOT_AVAILABLE, _DEADLOCK = "55P03", "40P01"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a migration waits. `lock_milliseconds`: for one lock in one attempt. `seconds`: for all attempts
    together, and for another process that migrates."""

    lock_milliseconds: int = 5_000
    seconds: float = 180.0


class GaveUp(Exception):
    """The migration did not get its locks in time; the text says which process held them and what to do."""


@contextmanager
def one_at_a_time(engine: sa.Engine, patience: Patience, say: Say) -> Iterator[None]:
    """Keep other processes from migrating the same database at the same time. Raises GaveUp.

    It polls for the lock. A statement that waits in the server would be an open transaction, for which a
    concurrent build of an index waits.
    """
    with _lock_of(engine) as take:
        deadline = time.monotonic() + patience.seconds
        while not take():
            if time.monotonic() > deadline:
                raise GaveUp(
                    f"another process has been migrating this database for {patience.seconds:.0f} s: let it"
                    " end, then run this again"
                )
            say("another process migrates this database: waiting for it")
            time.sleep(1.0)
        yield


@contextmanager
def _lock_of(engine: sa.Engine) -> Iterator[Callable[[], bool]]:
    """Yield a function that tries to take the database's lock, and returns whether it has it."""
    if engine.dialect.name == "sqlite":
        with _open_folder(engine) as folder:
            yield lambda: _lock_folder(folder)
        return
    key = {"key": ADVISORY_LOCK}
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        take = sa.text("SELECT pg_try_advisory_lock(:key)")
        try:
            yield lambda: bool(connection.scalar(take, key))
        finally:
            connection.execute(sa.text("SELECT pg_advisory_unlock_all()"))


@contextmanager
def _open_folder(engine: sa.Engine) -> Iterator[int | None]:
    """Open the folder of an SQLite file, to lock it: its own locks do not last for several transactions."""
    folder = Path(engine.url.database or "").parent
    if not folder.is_dir():
        yield None
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        yield opened
    finally:
        os.close(opened)


def _lock_folder(folder: int | None) -> bool:
    if folder is None:
        return True
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def with_patience(
    engine: sa.Engine, migrate: Callable[[], None], patience: Patience, say: Say
) -> None:
    """Call `migrate` again until it gets its locks. It must be safe to repeat. Raises GaveUp."""
    deadline, pause = time.monotonic() + patience.seconds, 1.0
    while True:
        try:
            migrate()
        except sa.exc.DBAPIError as problem:
            if getattr(problem.orig, "sqlstate", None) not in (_LOCK_NOT_AVAILABLE, _DEADLOCK):
                raise
            if time.monotonic() + pause > deadline:
                raise GaveUp(_why(engine, patience)) from None
            say(f"a table is in use; trying again in {pause:.0f} s")
        else:
            return
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _why(engine: sa.Engine, patience: Patience) -> str:
    """Return why it gave up, with the transactions that have been open longest."""
    query = (
        "SELECT pid, coalesce(nullif(application_name, ''), 'without a name') AS name, state,"
        " round(extract(epoch FROM now() - xact_start)) AS seconds FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
        " ORDER BY xact_start LIMIT 3"
    )
    with engine.connect() as connection:
        found = connection.execute(sa.text(query)).all()
    open_ones = "; ".join(f"pid {x.pid} ({x.name}, {x.state}) for {x.seconds} s" for x in found)
    return (
        f"the migration did not get its locks within {patience.seconds:.0f} s. Transactions open longest:"
        f" {open_ones or 'none any more'}. What was begun is undone or bears repetition: end them, or let"
        " them end, and run this again"
    )


@contextmanager
def short_locks(patience: Patience) -> Iterator[None]:
    """Set our lock time-out also for connections that other libraries open in this process, through libpq's
    PGOPTIONS: DBOS migrates its own tables without a limit."""
    before = os.environ.get("PGOPTIONS")
    own = f"-c lock_timeout={patience.lock_milliseconds}"
    os.environ["PGOPTIONS"] = f"{before} {own}" if before else own
    try:
        yield
    finally:
        if before is None:
            del os.environ["PGOPTIONS"]
        else:
            os.environ["PGOPTIONS"] = before


# --- migration ------------------------------------------------------------------------------------


# The number of the newest migration, and of DBOS's own. Tests compare them.
HEAD = "0002"
DBOS_HEAD = {"postgresql": 123, "sqlite": 123}


class SchemaProblem(Exception):
    """The database cannot be used as it is; the text says what to do."""


def check_schema(database: Database, statement_seconds: float | None = None) -> None:
    """Raise SchemaProblem unless our tables and DBOS's are at their newest migration, or newer.

    A newer schema is fine, because older code must run on it. `statement_seconds`: see `Database.snapshot`.
    """
    with database.snapshot(statement_seconds) as connection:
        check_encoding(connection)
        version = find_version(connection)
        if version is None:
            raise SchemaProblem("the database is empty: run `alembic upgrade head`")
        if not re.fullmatch("[0-9]{4}", version):
            raise SchemaProblem(
                f"the database is at migration {version} of another program: check DATABASE_URL"
            )
        if version < HEAD:
            raise SchemaProblem(_is_old("the database", version, HEAD))
        needed, of_dbos = DBOS_HEAD[connection.dialect.name], _find_dbos_version(connection)
        if of_dbos < needed:
            raise SchemaProblem(_is_old("the database, in DBOS's tables,", of_dbos, needed))


def check_encoding(connection: sa.Connection) -> None:
    """Raise SchemaProblem if the database cannot hold every character: then mail would be lost."""
    if connection.dialect.name == "sqlite":
        return
    encoding = connection.scalar(sa.text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise SchemaProblem(
            f"the database has the encoding {encoding}, and mail needs UTF8: make another one with"
            " ENCODING 'UTF8' TEMPLATE template0 (docs/deploy.md)"
        )


def _is_old(what: str, version: str | int, needed: str | int) -> str:
    return f"{what} is at migration {version}, this code needs {needed}: run `alembic upgrade head`"


def find_version(connection: sa.Connection) -> str | None:
    """Return the migration of our tables; None if there are none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return found


def _find_dbos_version(connection: sa.Connection) -> int:
    """Return the migration of DBOS's tables. DBOS itself tells it only by an error when a worker starts."""
    schema = None if connection.dialect.name == "sqlite" else "dbos"
    if not sa.inspect(connection).has_table("dbos_migrations", schema=schema):
        return 0
    table = sa.table("dbos_migrations", sa.column("version", sa.Integer), schema=schema)
    return connection.scalar(sa.select(table.c.version)) or 0
