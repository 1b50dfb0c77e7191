"""What every test may use: a fresh migrated database and a shop, on SQLite and on PostgreSQL.

PostgreSQL comes from a package that brings its binaries; TEST_DATABASE_URL names another server
(`postgresql+psycopg://…`), on which the tests make and drop databases of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from mailagent.store.database import Database, open_database
from tests.databases import make_sqlite_template, postgres_copy, postgres_server, postgres_template
from tests.stage import Stage, open_shop, running

# A slow machine is no reason to call a property false.
hypothesis.settings.register_profile("mailagent", deadline=None)
hypothesis.settings.load_profile("mailagent")

# The SDKs would ask a proxy for servers of this machine, too.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server to make databases on."""
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def migrated_postgres(postgres_url: str) -> Iterator[str]:
    """The name of a migrated database that fresh ones are copied from."""
    with postgres_template(postgres_url) as name:
        yield name


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file that fresh ones are copied from."""
    return make_sqlite_template(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, migrated database; a test that asks for it runs on both kinds."""
    if request.param == "sqlite":
        path = tmp_path / "test.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        yield f"sqlite:///{path}"
        return
    server = request.getfixturevalue("postgres_url")
    with postgres_copy(server, request.getfixturevalue("migrated_postgres")) as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A fresh database, opened."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Stage]:
    """A shop whose mail is stored but not worked on."""
    with open_shop(tmp_path, database_url) as stage:
        yield stage


@pytest.fixture
def busy_shop(shop: Stage) -> Iterator[Stage]:
    """A shop whose workflows run."""
    with running(shop) as stage:
        yield stage
