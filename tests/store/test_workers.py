"""Who lives is told in the database's time: no worker's clock has a say."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent.store import schema, workers
from mailagent.store.database import Database


def age(database: Database, seconds: float) -> None:
    """Let a worker have been seen so long ago."""
    with database.transaction() as connection:
        seen_at = connection.scalar(sa.select(schema.workers.c.seen_at))
        assert seen_at is not None
        connection.execute(
            schema.workers.update().values(seen_at=seen_at - timedelta(seconds=seconds))
        )


@pytest.mark.parametrize(("seconds", "alive"), [(0, {"w1"}), (40, {"w1"}), (46, set())])
def test_a_worker_lives_as_long_as_it_was_seen_lately(
    database: Database, seconds: float, alive: set[str]
) -> None:
    with database.transaction() as connection:
        workers.sign_in(connection, "w1")
    age(database, seconds)
    with database.snapshot() as connection:
        assert workers.list_alive(connection, 45) == alive


def test_signing_in_again_keeps_it_alive_and_signing_out_ends_it(database: Database) -> None:
    with database.transaction() as connection:
        workers.sign_in(connection, "w1")
    age(database, 100)
    with database.transaction() as connection:
        workers.sign_in(connection, "w1")
        assert workers.list_alive(connection, 45) == {"w1"}
        workers.sign_out(connection, "w1")
        assert workers.list_alive(connection, 45) == set()


def test_postgresql_stamps_with_its_own_clock(database: Database) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no clock of its own")
    statements: list[str] = []
    sa.event.listen(
        database.engine,
        "before_cursor_execute",
        lambda _c, _cursor, statement, *_more: statements.append(statement),
    )
    with database.transaction() as connection:
        workers.sign_in(connection, "w1")
    assert any("clock_timestamp()" in statement for statement in statements)
