"""The lists of conversations: the same as a plain look, page by page, and found by an index."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from mailagent.store.console import conversation_lists, search
from mailagent.store.console.conversation_lists import View, Wanted
from mailagent.store.database import Database, open_database
from mailagent.store.pagination import Window
from tests.cast import TESS
from tests.databases import postgres_copy
from tests.programs.console.fill import Size, fill

NOW = datetime(2027, 1, 1, tzinfo=UTC)
AWAKE = "snoozed_until IS NULL"
IDS = "SELECT conversation_id FROM conversations WHERE"


@pytest.fixture(scope="module")
def filled(postgres_url: str, migrated_postgres: str) -> Iterator[Database]:
    """A small copy of what the benchmark fills."""
    with postgres_copy(postgres_url, migrated_postgres) as url:
        database = open_database(url)
        fill(database.engine, Size(4000, 800, 40))
        yield database
        database.close()


def walk(database: Database, wanted: Wanted, newest_first: bool) -> list[str]:
    """Return the ids of a whole list, page by page."""
    window: Window | None = Window(newest_first, size=7)
    seen: list[str] = []
    while window is not None:
        with database.snapshot() as connection:
            part = conversation_lists.read(connection, wanted, window, NOW)
        seen += [row.conversation_id for row in part.rows]
        following = part.older if newest_first else part.newer
        side = "older" if newest_first else "newer"
        window = Window(newest_first, size=7, **{side: following}) if following else None
    return seen


@pytest.mark.parametrize(
    ("wanted", "plain"),
    [
        (Wanted(View.OPEN), f"{IDS} progress = 'open' AND {AWAKE}"),
        (Wanted(View.PENDING, tag="tag 1"), f"{IDS} progress = 'pending' AND {AWAKE} AND"
         " conversation_id IN (SELECT conversation_id FROM conversation_tags WHERE tag = 'tag 1')"),
        (Wanted(View.PENDING, owner=TESS), f"{IDS} progress = 'pending' AND {AWAKE}"
         f" AND owner_email = '{TESS}'"),
        (Wanted(View.OPEN, owner=""), f"{IDS} progress = 'open' AND {AWAKE} AND owner_email IS NULL"),
        (Wanted(View.SNOOZED), f"{IDS} snoozed_until IS NOT NULL"),
        (Wanted(View.CLOSED), f"{IDS} progress = 'closed' AND {AWAKE}"),
    ],
)  # fmt: skip
def test_a_list_is_what_a_plain_look_finds(filled: Database, wanted: Wanted, plain: str) -> None:
    with filled.snapshot() as connection:
        expected = set(connection.scalars(sa.text(plain)))
    assert expected
    newest, oldest = (walk(filled, wanted, newest_first) for newest_first in (True, False))
    assert sorted(newest) == sorted(expected)
    assert newest == oldest[::-1]


def test_tags_are_listed_without_reading_every_row(filled: Database) -> None:
    with filled.snapshot() as connection:
        found = conversation_lists.list_tags(connection)
    assert (len(found), found[0], found == sorted(found)) == (21, "parcel", True)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (Wanted(View.CLOSED), "ix_conversations_progress_last_mail_at"),
        (Wanted(View.SNOOZED), "ix_conversations_snoozed"),
        (Wanted(View.OPEN, owner=TESS), "ix_conversations_owner"),
        (Wanted(View.OPEN, tag="vip"), "ix_conversation_tags_tag_last_mail_at"),
    ],
)
def test_each_list_has_an_index(database: Database, wanted: Wanted, index: str) -> None:
    with database.snapshot() as connection:
        source = conversation_lists.source_of(wanted, NOW)
        query = source.query.order_by(source.at.desc()).limit(51)
        plan = _plan(connection, query)
    assert index in plan, plan


def _plan(connection: sa.Connection, query: sa.Select[tuple[object, ...]]) -> str:
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:  # of an empty table any plan is a good one
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        connection.exec_driver_sql("SET LOCAL enable_sort = off")
    compiled = query.compile(connection.engine, compile_kwargs={"render_postcompile": True})
    explain = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
    values = compiled.params if not is_sqlite else compiled.construct_params()
    positional = tuple(values[name] for name in compiled.positiontup or ())
    rows = connection.exec_driver_sql(f"{explain} {compiled}", positional if is_sqlite else values)
    return "\n".join(str(tuple(row)) for row in rows)


def plans_of_search(database: Database, words: str) -> str:
    """Return the plans of what a search for conversations asks the database."""
    asked: list[tuple[str, object]] = []
    explain = "EXPLAIN QUERY PLAN" if database.engine.dialect.name == "sqlite" else "EXPLAIN"

    def keep(
        _connection: object, _cursor: object, text: str, values: object, *_more: object
    ) -> None:
        if text.startswith(("SELECT 'conversation'", "WITH", "SELECT $1", "SELECT %(")):
            asked.append((text, values))

    with database.snapshot() as connection:
        sa.event.listen(database.engine, "before_cursor_execute", keep)
        search.find(connection, search.Wanted(words, search.Kind.CONVERSATIONS), Window())
        sa.event.remove(database.engine, "before_cursor_execute", keep)
        texts = [connection.exec_driver_sql(f"{explain} {text}", values) for text, values in asked]  # type: ignore[arg-type]
        return "\n".join(str(tuple(row)) for rows in texts for row in rows)


def test_names_are_found_by_an_index_of_postgresql(filled: Database) -> None:
    assert "ix_conversations_words" in plans_of_search(filled, "Customer 77")
