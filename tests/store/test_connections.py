"""Connections of the pool: one that the server has closed is noticed before it is used."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from mailagent.store import database as module
from mailagent.store.database import Database, open_database


def _end_connections(database: Database) -> None:
    """Close the server's side of every connection to this database but one of our own."""
    other = open_database(database.engine.url.render_as_string(hide_password=False), pool_size=0)
    with other.transaction() as connection:
        connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )


def test_a_connection_that_has_rested_is_tried_and_replaced(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no server")
    with database.transaction() as connection:
        first = connection.scalar(sa.text("SELECT pg_backend_pid()"))
    _end_connections(database)
    monkeypatch.setattr(module, "PING_AFTER_SECONDS", 0.0)
    with database.transaction() as connection:
        assert connection.scalar(sa.text("SELECT pg_backend_pid()")) != first


def test_a_connection_that_was_just_used_is_not_asked_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_connection: object) -> bool:
        raise AssertionError("was asked")

    monkeypatch.setattr(database.engine.dialect, "do_ping", fail)
    for _ in range(5):
        with database.transaction() as connection:
            connection.execute(sa.text("SELECT 1"))
