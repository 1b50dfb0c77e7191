"""Descriptions of results are shared, and say what psycopg's own cursor says."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from mailagent.store import described_cursor
from mailagent.store.database import Database, open_database

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

QUERIES = (
    "SELECT 1 AS one, 'two'::varchar(7) AS two, 3.5::numeric(5, 2) AS three",
    "SELECT 1::bigint AS one, 'two'::varchar(9) AS two, 3.5::numeric(5, 3) AS three",
    'SELECT now() AS "größe", NULL::jsonb',
    "SELECT",
)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = open_database(database_url)
    yield opened
    opened.close()


def describe(cursor: psycopg.Cursor[object], query: str) -> list[tuple[object, ...]]:
    cursor.execute(query.encode())
    assert cursor.description is not None
    return [(*column, column.type_display) for column in cursor.description]


@pytest.mark.parametrize("query", QUERIES)
def test_a_description_is_that_of_psycopg(database: Database, query: str) -> None:
    with database.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        ours, theirs = raw.cursor(), psycopg.Cursor(raw)
        for _ in range(2):
            assert describe(ours, query) == describe(theirs, query)


def test_the_results_of_a_statement_are_described_once(database: Database) -> None:
    found = []
    with database.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        for number in range(raw.prepare_threshold + 2):  # the last ones are of a prepared statement
            cursor = connection.exec_driver_sql("SELECT %s::int AS here", (number,)).cursor
            assert cursor is not None
            found.append(cursor.description)
    assert all(each is found[0] for each in found)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT count(*) AS a_count, 2 * 3 AS a_product", True),
        ("SELECT 3 AS three, EXISTS (SELECT * \nFROM (SELECT 2) AS two)", True),
        ("SELECT 1 AS one, * FROM (SELECT 2) AS two", False),
        ("SELECT * FROM (SELECT 4) AS four WHERE EXISTS (SELECT * FROM (SELECT 2) AS two)", False),
        ("SELECT two.* FROM (SELECT 2) AS two", False),
        ("select\n* FROM (SELECT 2) AS two", False),
    ],
)
def test_what_all_columns_are_is_asked_each_time(
    database: Database, query: str, kept: bool
) -> None:
    with database.engine.connect() as connection:
        connection.exec_driver_sql(query).all()
    assert any(query == each for each, _ in described_cursor._kept) is kept


def test_a_column_by_another_name_is_told(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text("CREATE TEMP TABLE things (one int) ON COMMIT DROP"))
        assert list(connection.execute(sa.text("SELECT * FROM things")).keys()) == ["one"]
        connection.execute(sa.text("ALTER TABLE things RENAME one TO two"))
        assert list(connection.execute(sa.text("SELECT * FROM things")).keys()) == ["two"]


def test_what_gives_no_rows_has_none(database: Database) -> None:
    with database.transaction() as connection:
        assert not connection.execute(sa.text("SET LOCAL lock_timeout = 1000")).returns_rows


def test_no_more_are_kept_than_may(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described_cursor, "KEPT_MOST", 0)
    with database.engine.connect() as connection:
        (row,) = connection.execute(sa.text("SELECT 7 AS a_name_of_its_own"))
    assert row.a_name_of_its_own == 7
    assert not any("a_name_of_its_own" in query for query, _ in described_cursor._kept)
