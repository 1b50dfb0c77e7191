"""Which errors of a real database pass by themselves, and which are mistakes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.store.database import Database, open_database
from mailagent.store.errors import is_outage


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
