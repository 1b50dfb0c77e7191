"""What every test may use: a fresh migrated database and a shop, on SQLite and on PostgreSQL.

PostgreSQL comes from a package that brings its binaries; TEST_DATABASE_URL names another server
(`postgresql+psycopg://…`), on which the tests make and drop databases of their own.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import hypothesis
import pytest

from mailagent.store.database import Database, open_database
from tests import second_try
from tests.databases import make_sqlite_template, postgres_copy, postgres_server, postgres_template
from tests.harness import Harness, open_shop, running
from tests.sample import keep_one_way
from tests.shared_work import share

# A slow machine is no reason to call a property false.
hypothesis.settings.register_profile("mailagent", deadline=None)
hypothesis.settings.load_profile("mailagent")

# Tests that take long run on one database: few of them differ by it, and those are marked `both_databases`. The
# store's tests and all others run on both.
DATABASES = ("sqlite", "postgresql")
DATABASE_OF_FOLDER = {
    "browser": "sqlite",
    "demo": "sqlite",
    "round_trips": "postgresql",
    "money": "postgresql",
    "upgrades": "postgresql",
    "web": "postgresql",
    "workflows": "postgresql",
}

# Their tests take longest, so they come first. With --dist worksteal, a process that has no tests left takes
# some of another's: by default each keeps hundreds, and at the end all but one wait.
LONGEST_FIRST = ("money", "browser", "evals", "migrations", "round_trips", "workflows", "demo")

# A shell ignores SIGINT for what it starts in the background, and children inherit that. The tests send SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The SDKs would ask a proxy for servers of this machine, too.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
os.environ["FLASK_SKIP_DOTENV"] = "1"  # a developer's .env is not for tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole", action="store_true", help="every test on both databases; what is sampled, whole"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "both_databases(every_case): in a folder whose tests run on one, on both; of several cases each on "
        "one, unless every_case is True",
    )
    config.addinivalue_line(
        "markers", "one_way(fixtures): each case with one value of these fixtures"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if second_try.ROOMS & set(item.path.parts):
            second_try.give(item)
    if not config.getoption("whole"):
        kept = keep_one_way(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
    items.sort(key=_turn_of)


def _folder_of(test: pytest.Item) -> str:
    return test.path.relative_to(Path(__file__).parent).parts[0]


def _turn_of(test: pytest.Item) -> int:
    folder = _folder_of(test)
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


def pytest_collection_finish() -> None:
    # What was imported stays: searching it for garbage again and again costs a tenth of the time.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _shared_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share(patch, str(tmp_path_factory.mktemp("templates")))
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = any(
        "database_url" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    )
    if "database_url" in metafunc.fixturenames and not chosen:
        metafunc.parametrize("database_url", _databases_of(metafunc.definition), indirect=True)


def _databases_of(test: pytest.Item) -> Sequence[str]:
    """Return the kinds of database that a test runs on."""
    if test.config.getoption("whole") or test.get_closest_marker("both_databases"):
        return DATABASES
    folder = _folder_of(test)
    return [DATABASE_OF_FOLDER[folder]] if folder in DATABASE_OF_FOLDER else DATABASES


def pytest_sessionfinish(session: pytest.Session) -> None:
    again = second_try.names(second_try.needed_by(session.config))
    if second_try.is_too_many(again) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    again = second_try.needed_by(config)
    if not again:
        return
    terminalreporter.section(second_try.verdict(second_try.names(again)))
    for report in again:
        terminalreporter.line(f"SECOND TRY {report.nodeid}")
        terminalreporter.line(report.longreprtext)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server to make databases on."""
    with postgres_server(durable=False) as url:
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


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, migrated database. `pytest_generate_tests` says of which kinds."""
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
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop whose mail is stored but not worked on."""
    with open_shop(tmp_path, database_url) as harness:
        yield harness


@pytest.fixture
def busy_shop(shop: Harness) -> Iterator[Harness]:
    """A shop whose workflows run."""
    with running(shop) as harness:
        yield harness
