"""`alembic upgrade head` on PostgreSQL beside others who work: it waits its turn, gives up in time, dies and
is run again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.store.database import open_database
from mailagent.store.migration import SchemaProblem, check_schema
from mailagent.store.schema import metadata
from tests.cast import ADA, DESK_WISH, MONA, big_order
from tests.databases import ROOT, migrate, postgres_at
from tests.harness import Harness, running, wait_until
from tests.migrations.rules import find_blocking
from tests.round_trips.approvals import decide, link_in

# The first release, and the migration of the sample.
BEFORE, SAMPLE = "0002", "9999"
SHORT = ("app_only=yes", "lock_milliseconds=200")


@pytest.fixture
def old_url(postgres_url: str) -> Iterator[str]:
    """An empty database of the first release."""
    with postgres_at(postgres_url, BEFORE) as url:
        yield url


@contextmanager
def watched(watch: Callable[[str, bool], None]) -> Iterator[None]:
    """Show every statement of a migration before it goes to the database, and whether it is committed by
    itself."""

    def look(connection: sa.Connection, _cursor: object, statement: str, *_more: object) -> None:
        if statement.split(maxsplit=1)[0] in (
            "CREATE",
            "ALTER",
            "DROP",
            "UPDATE",
            "INSERT",
            "DELETE",
        ):
            alone = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
            watch(statement, alone)

    sa.event.listen(sa.Engine, "before_cursor_execute", look)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", look)


def is_current(url: str) -> bool:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        version = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    engine.dispose()
    return bool(version == SAMPLE)


@contextmanager
def open_transaction(url: str) -> Iterator[sa.Connection]:
    """Hold a transaction open that sees a moment of the past, as a backup or a forgotten psql does."""
    named = {"application_name": "forgotten"}
    engine = sa.create_engine(url, connect_args=named, isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT 1"))
        yield connection
    engine.dispose()


UPGRADE = "import sys; from tests.databases import migrate; migrate(*sys.argv[1:], sample=True)"


def upgrade_in_a_child(url: str, *arguments: str, code: str = UPGRADE) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, url, "head", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_no_migration_stops_those_who_write(old_url: str) -> None:
    seen: list[str] = []
    together: list[str] = []

    def note(statement: str, alone: bool) -> None:
        if "alembic_version" not in statement:
            seen.append(statement)
            together.extend([] if alone else [statement])

    with watched(note):
        migrate(old_url, "head", "app_only=yes", sample=True)
    assert any("CREATE INDEX CONCURRENTLY" in each for each in seen)
    assert find_blocking(seen) == []
    # Two tables locked in one transaction, and mail that locks them the other way round: a deadlock.
    assert together == []


class Died(BaseException):
    """The process is gone: nothing that catches exceptions sees to it."""


def test_an_upgrade_that_dies_between_its_statements_is_run_again(old_url: str) -> None:
    for deadly in range(1, 100, 2):
        left = [deadly]

        def die(_statement: str, _alone: bool, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Died

        try:
            with watched(die):
                migrate(old_url, "head", *SHORT, sample=True)
        except (Died, sa.exc.PendingRollbackError):  # its connection went with it
            assert not is_current(old_url)
        else:
            break  # it has fewer statements than that
    assert deadly > 15
    assert is_current(old_url)


def test_an_upgrade_that_is_killed_while_it_builds_an_index_is_run_again(old_url: str) -> None:
    with open_transaction(old_url):  # the index waits for it
        child = upgrade_in_a_child(old_url, "app_only=yes", "lock_milliseconds=60000")
        engine = sa.create_engine(old_url)
        waiting = "SELECT 1 FROM pg_index WHERE NOT indisvalid"

        def half_built() -> bool:
            with engine.connect() as connection:
                return bool(connection.execute(sa.text(waiting)).all())

        wait_until(half_built, 60, "an index that is being built")
        child.send_signal(signal.SIGKILL)
        child.communicate()
    migrate(old_url, "head", *SHORT, "seconds=30", sample=True)
    assert is_current(old_url)
    assert not half_built()
    engine.dispose()


KILLED = """
import os, signal, sys
import sqlalchemy as sa
from tests.databases import migrate

@sa.event.listens_for(sa.Engine, "after_cursor_execute")
def die(_connection, _cursor, statement, *_more):
    if statement.strip().startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

migrate(sys.argv[1])
"""


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE inbound_mails", "CREATE TABLE workflow_status", "INSERT INTO dbos_migrations"],
)
def test_an_upgrade_that_is_killed_on_sqlite_is_run_again(tmp_path: Path, statement: str) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, url, statement], cwd=ROOT, check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    migrate(url)
    check_schema(open_database(url))


def test_upgrades_on_sqlite_at_once_wait_for_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    plain = UPGRADE.replace(", sample=True", "")  # that one is for PostgreSQL
    upgrades = [upgrade_in_a_child(url, code=plain) for _ in range(3)]
    said = [each.communicate(timeout=60)[0] for each in upgrades]
    assert [each.returncode for each in upgrades] == [0, 0, 0], said


def test_a_release_before_finds_nothing_to_migrate(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _set_version(database_url, "9999")
    migrate(database_url)
    assert "at migration 9999, and this release ends at 0002: nothing" in capsys.readouterr().err
    _set_version(database_url, "f00dcafe1234")
    with pytest.raises(SystemExit, match="of another program: check DATABASE_URL"):
        migrate(database_url)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_letter_is_refused(
    postgres_url: str, encoding: str
) -> None:
    words = f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    with postgres_at(postgres_url, "base", words) as url:
        told = f"the database has the encoding {encoding}, and mail needs UTF8"
        with pytest.raises(SystemExit, match=told):
            migrate(url)
        database = open_database(url)
        with pytest.raises(SchemaProblem, match=told):
            check_schema(database)
        database.close()


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_text("SECRET_KEY=x\n" * 500)
    with pytest.raises(SystemExit, match="cannot be used: file is not a database"):
        migrate(f"sqlite:///{tmp_path}/shop.db")


def test_a_role_that_may_not_create_tables_is_told(postgres_url: str) -> None:
    with postgres_at(postgres_url, "base") as url:
        owner, role = sa.create_engine(url), sa.make_url(url).set(username="weak")
        with owner.begin() as connection:
            connection.execute(sa.text("CREATE ROLE weak LOGIN"))
        try:
            with pytest.raises(SystemExit, match="permission denied for schema public"):
                migrate(role.render_as_string(hide_password=False))
        finally:
            with owner.begin() as connection:
                connection.execute(sa.text("DROP ROLE weak"))
            owner.dispose()


def _set_version(url: str, version: str) -> None:
    database = open_database(url)
    with database.transaction() as connection:
        connection.execute(
            sa.text("UPDATE alembic_version SET version_num = :version"), {"version": version}
        )
    database.close()


def test_an_upgrade_gives_up_in_time_names_who_is_in_the_way_and_is_run_again(old_url: str) -> None:
    with open_transaction(old_url) as holder:
        holder.execute(sa.text("LOCK TABLE inbound_mails IN ROW EXCLUSIVE MODE"))
        began = time.monotonic()
        with pytest.raises(SystemExit) as given_up:
            migrate(old_url, "head", *SHORT, "seconds=2", sample=True)
        assert time.monotonic() - began < 10
        assert "did not get its locks within 2 s" in str(given_up.value)
        assert "(forgotten, idle in transaction) for" in str(given_up.value)
        assert not is_current(old_url)
    migrate(old_url, "head", *SHORT, sample=True)
    assert is_current(old_url)


def test_an_upgrade_waits_for_a_transaction_that_ends(old_url: str) -> None:
    held, told = threading.Event(), threading.Event()

    def hold() -> None:
        with open_transaction(old_url) as holder:
            holder.execute(sa.text("LOCK TABLE inbound_mails IN ROW EXCLUSIVE MODE"))
            held.set()
            told.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    tries = []

    def count(statement: str, _alone: bool) -> None:
        if "ALTER TABLE inbound_mails" in statement:
            tries.append(statement)
            if len(tries) == 2:  # it has waited in vain once
                told.set()
                holder.join()

    with watched(count):
        migrate(old_url, "head", *SHORT, sample=True)
    assert len(tries) >= 2
    assert is_current(old_url)


def test_two_upgrades_at_once_both_end_well(postgres_url: str) -> None:
    with postgres_at(postgres_url, "base") as url:
        children = [upgrade_in_a_child(url), upgrade_in_a_child(url)]
        said = [child.communicate(timeout=120)[0] for child in children]
        assert [child.returncode for child in children] == [0, 0], said
        assert is_current(url)


# --- one ahead ------------------------------------------------------------------------------------


def add_everywhere(shop: Harness) -> None:
    """Do to every table what a migration may do, and say that it was done."""
    with shop.live.database.transaction() as connection:
        for table in metadata.tables:
            for column in ("of_tomorrow TEXT", "counted_tomorrow INTEGER NOT NULL DEFAULT 0"):
                connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column}"))
            connection.execute(
                sa.text(f"CREATE INDEX ix_{table}_tomorrow ON {table} (of_tomorrow)")
            )
        connection.execute(sa.text("CREATE TABLE visits_of_tomorrow (visit_id TEXT PRIMARY KEY)"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))


def test_code_of_today_works_on_the_schema_of_tomorrow(shop: Harness) -> None:
    shop.stock(big_order())
    with running(shop):
        shop.write(DESK_WISH)
        (request,) = shop.wait_for_mails(MONA)
        add_everywhere(shop)  # while it runs, and a refund waits
        check_schema(shop.live.database)
        decide(shop, link_in(request.text), "approve")
        shop.wait_for_refund("paid")
        shop.wait_for_mails(ADA, 2)
        shop.write("Which orders of mine do you have?", from_address="grace@example.org")
        shop.wait_for_mails("grace@example.org")
