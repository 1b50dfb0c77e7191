"""Who lives is told in the database's time: no worker's clock has a say."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Database
from mailagent.store.operations import workers


def sign_in(database: Database, *names: str) -> None:
    for name in names:
        with database.transaction() as connection:
            workers.sign_in(connection, name)


def age(database: Database, worker_id: str, seen: float = 0, steady: float = 0) -> None:
    """Let a worker have been seen, and steady, so many seconds longer ago."""
    theirs = schema.workers.c.worker_id == worker_id
    with database.transaction() as connection:
        row = connection.execute(sa.select(schema.workers).where(theirs)).one()
        connection.execute(
            schema.workers.update()
            .where(theirs)
            .values(
                seen_at=row.seen_at - timedelta(seconds=seen),
                steady_since=row.steady_since - timedelta(seconds=steady),
            )
        )


def alive(database: Database) -> set[str]:
    with database.snapshot() as connection:
        return set(connection.scalars(workers.alive(connection)))


def can_be_missed(database: Database) -> bool:
    with database.snapshot() as connection:
        return bool(connection.scalar(sa.select(workers.where_dead_without_lease(connection))))


@pytest.mark.parametrize(
    ("seconds", "living"), [(0, {"w1"}), (28, {"w1"}), (31, set()), (-20, {"w1"}), (-3600, set())]
)
def test_a_worker_lives_as_long_as_it_was_seen_lately(
    database: Database, seconds: float, living: set[str]
) -> None:
    sign_in(database, "w1")
    age(database, "w1", seen=seconds)
    assert alive(database) == living


def test_signing_in_again_keeps_it_alive_and_signing_out_ends_it(database: Database) -> None:
    sign_in(database, "w1")
    age(database, "w1", seen=100)
    sign_in(database, "w1")
    assert alive(database) == {"w1"}
    with database.transaction() as connection:
        workers.sign_out(connection, "w1")
    assert alive(database) == set()


@pytest.mark.parametrize(("steady", "missed"), [(28, False), (31, True)])
def test_nobody_is_missed_before_somebody_was_steady_for_a_lease(
    database: Database, steady: float, missed: bool
) -> None:
    sign_in(database, "w1")
    age(database, "w1", steady=steady)
    assert can_be_missed(database) is missed


def test_after_an_outage_for_all_the_first_that_is_back_misses_nobody(database: Database) -> None:
    sign_in(database, "w1", "w2")
    for name in ("w1", "w2"):
        age(database, name, seen=600, steady=3600)
    sign_in(database, "w1")
    assert alive(database) == {"w1"}
    assert not can_be_missed(database)


@pytest.mark.parametrize(("gap", "missed"), [(13, True), (16, False), (-3600, False)])
def test_a_gap_or_a_clock_set_back_begins_the_count_anew(
    database: Database, gap: float, missed: bool
) -> None:
    sign_in(database, "w1")
    age(database, "w1", seen=gap, steady=600)
    sign_in(database, "w1")
    assert can_be_missed(database) is missed


def test_one_that_is_steady_is_enough_for_one_that_has_just_come(database: Database) -> None:
    sign_in(database, "old", "new")
    age(database, "old", steady=600)
    assert can_be_missed(database)
    age(database, "old", seen=31)
    assert not can_be_missed(database)


def test_who_was_not_seen_for_a_day_is_forgotten(database: Database) -> None:
    sign_in(database, "w1", "w2")
    age(database, "w1", seen=workers.FORGOTTEN_AFTER_SECONDS + 1)
    with database.transaction() as connection:
        workers.forget(connection)
        known = connection.scalars(sa.select(schema.workers.c.worker_id)).all()
    assert known == ["w2"]


def test_postgresql_stamps_with_its_own_clock(database: Database) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no clock of its own")
    statements: list[str] = []
    sa.event.listen(
        database.engine,
        "before_cursor_execute",
        lambda _c, _cursor, statement, *_more: statements.append(statement),
    )
    sign_in(database, "w1")
    assert any("clock_timestamp()" in statement for statement in statements)
