"""Reading: all of one moment, whatever is written meanwhile, and nothing but reading."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Database, in_literals, open_database
from mailagent.store.errors import is_outage, without_details
from mailagent.store.refunds import order_import, orders
from tests.cast import NOW, order
from tests.harness import Harness, running

TEAPOT = {"item_id": "T1", "name": "Teapot", "quantity": 1, "unit_price": "20.00"}


def test_an_order_that_is_replaced_while_it_is_read_is_not_read_half_old_and_half_new(
    shop: Harness,
) -> None:
    old, new = order(), order(items=[TEAPOT], discount="10.00")
    shop.stock(old)
    with shop.live.database.snapshot() as connection:
        rows = connection.execute(sa.select(schema.orders)).all()
        shop.stock(new)
        assert orders.with_parts(connection, rows) == (old,)
        assert orders.find(connection, "W1001") == old
    with shop.live.database.snapshot() as connection:
        assert orders.find(connection, "W1001") == new


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_connection_for_reading_writes_nothing_and_the_next_user_of_it_may(shop: Harness) -> None:
    database = shop.live.database
    with (
        database.snapshot() as connection,
        pytest.raises(sa.exc.DBAPIError, match="read-only transaction"),
    ):
        order_import.save(connection, order(), shop.live.now())
    with database.transaction() as connection:
        assert connection.scalar(sa.text("SHOW transaction_isolation")) == "read committed"
        order_import.save(connection, order(), shop.live.now())


@pytest.mark.parametrize("before", [None, 0o644])
def test_only_its_owner_reads_the_files_of_sqlite(tmp_path: Path, before: int | None) -> None:
    path = tmp_path / "mailagent.db"
    if before is not None:
        path.touch(before)
        path.chmod(before)
    umask = os.umask(0)
    try:
        database = open_database(f"sqlite:///{path}")
        with database.transaction() as connection:
            connection.execute(sa.text("CREATE TABLE mails (words TEXT)"))
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
        database.close()
    finally:
        os.umask(umask)
    assert modes == dict.fromkeys(("mailagent.db", "mailagent.db-wal", "mailagent.db-shm"), 0o600)


READS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT words FROM mails").fetchall()
connection.close()
"""


def test_a_new_connection_leaves_the_locks_of_the_others_alone(tmp_path: Path) -> None:
    path = tmp_path / "mailagent.db"
    with closing(open_database(f"sqlite:///{path}")) as database:
        with database.transaction() as connection:
            connection.execute(sa.text("CREATE TABLE mails (words TEXT)"))
        with database.snapshot(), database.snapshot():
            pass
        # The last connection of all processes takes the -wal with it when it is closed.
        subprocess.run([sys.executable, "-c", READS, str(path)], check=True)
        assert path.with_name("mailagent.db-wal").exists()
        with database.transaction() as connection:
            connection.execute(sa.text("INSERT INTO mails VALUES ('Hello')"))


def test_a_file_of_sqlite_that_cannot_be_made_is_told_by_sqlite(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'missing' / 'mailagent.db'}")
    with pytest.raises(sa.exc.OperationalError, match="unable to open"), database.transaction():
        pass


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_running_shop_leaves_no_file_of_its_database_to_others(shop: Harness) -> None:
    with running(shop):
        files = list(Path(shop.live.database.engine.url.database or "").parent.glob("*.db*"))
        assert len(files) == 3
        assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


# --- outage ---------------------------------------------------------------------------------------


def error_of(database: Database, statement: str) -> BaseException:
    with pytest.raises(sa.exc.SQLAlchemyError) as caught, database.transaction() as connection:
        connection.execute(sa.text(statement))
    return caught.value


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT no_such_column FROM orders",
        "SELECT * FROM no_such_table",
        "SELEC 1",
        "INSERT INTO workers (worker_id) VALUES ('w1')",  # not null
    ],
)
def test_a_mistake_does_not_pass(database: Database, statement: str) -> None:
    assert not is_outage(error_of(database, statement))


def test_other_errors_are_none_of_the_database() -> None:
    assert not is_outage(ValueError("server closed the connection unexpectedly"))


def test_a_lost_connection_passes(database: Database) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no connections to lose")
    ended = "SELECT pg_terminate_backend(pg_backend_pid())"
    assert is_outage(error_of(database, ended))


@pytest.mark.parametrize(
    ("state", "passes"),
    [
        ("40001", True), ("40P01", True), ("53300", True), ("57P03", True), ("55P03", True),
        ("25006", True), ("25P03", True), ("08006", True),
        ("57014", False), ("23505", False), ("42P01", False), ("22001", False),
    ],
)  # fmt: skip
def test_the_servers_word_decides(database: Database, state: str, passes: bool) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no such states")
    raised = f"DO $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '{state}'; END $$"
    assert is_outage(error_of(database, raised)) is passes


def test_a_server_that_is_not_there_passes() -> None:
    assert is_outage(
        error_of(open_database("postgresql+psycopg://nobody@127.0.0.1:1/nothing"), "SELECT 1")
    )


def test_a_locked_file_passes(tmp_path: Path) -> None:
    path = tmp_path / "locked.db"
    database = open_database(f"sqlite:///{path}")
    with database.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE rows (a TEXT)"))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with database.snapshot() as connection:
        connection.execute(sa.text("PRAGMA busy_timeout=1"))
        with pytest.raises(sa.exc.OperationalError) as caught:
            connection.execute(sa.text("INSERT INTO rows VALUES ('a')"))
    assert is_outage(caught.value)
    holder.close()
    database.close()


def test_a_file_in_a_folder_that_is_not_there_passes(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/not/yet/mounted.db")
    assert is_outage(error_of(database, "SELECT 1"))


def test_errors_tell_nothing_of_what_was_written(database: Database) -> None:
    with pytest.raises(sa.exc.DBAPIError) as caught, database.transaction() as connection:
        connection.execute(sa.text("SELECT nothing WHERE :a = :a"), {"a": "a word of hers"})
    assert "a word of hers" not in str(caught.value)


# --- literals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["plain", "it's", "'' OR '1' = '1", "100 %", "%(a)s", "a\\b", ":a"]
)
def test_literals_are_escaped(database: Database, text: str) -> None:
    given = sa.literal(text, sa.Text)
    conditions = (in_literals(given, text), in_literals(given, "x", text), in_literals(given, "x"))
    with database.snapshot() as connection:
        found = [connection.scalar(sa.select(sa.literal(1)).where(each)) for each in conditions]
    assert found == [1, 1, None]


def test_a_literal_is_no_parameter_so_a_partial_index_is_used(database: Database) -> None:
    mails = schema.inbound_mails.c
    told: list[tuple[object, ...]] = []

    def keep(_connection: object, _cursor: object, *text_and_values: object) -> None:
        told.append(text_and_values[:2])

    query = sa.select(mails.received_at).where(in_literals(mails.status, "unanswered"))
    with database.snapshot() as connection:
        sqlite = connection.dialect.name == "sqlite"
        if not sqlite:
            # Of an empty table any plan is a good one.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        sa.event.listen(database.engine, "before_cursor_execute", keep)
        connection.execute(query)
        sa.event.remove(database.engine, "before_cursor_execute", keep)
        text, values = told[-1]
        assert not values
        index = "ix_inbound_mails_unanswered"
        if sqlite:  # it refuses an index that cannot be used
            text = str(text).replace("FROM inbound_mails", f"FROM inbound_mails INDEXED BY {index}")
        plan = connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN ' * sqlite}{text}").all()
    assert index in str(plan)


# --- server words ---------------------------------------------------------------------------------


def test_a_row_that_is_refused_is_not_quoted(database: Database) -> None:
    values: dict[str, Any] = {
        "actor": "nobody",
        "action": "canary",
        "subject": None,
        "details": {},
        "at": NOW,
    }
    with pytest.raises(sa.exc.IntegrityError) as raised, database.transaction() as connection:
        connection.execute(schema.audit.insert().values(**values))
    told = f"{raised.value} {raised.value.orig}"
    assert "audit" in told
    assert "canary" not in told


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("null value in x\nDETAIL:  Failing row (a\nb).", "null value in x"),
        ("bad\nLINE 1: SELECT 'a'\n        ^\nHINT:  none\n[SQL: SELECT]", "bad\n[SQL: SELECT]"),
        ("no such table: x", "no such table: x"),
    ],
)
def test_only_what_was_added_is_left_out(said: str, kept: str) -> None:
    assert without_details(said) == kept
