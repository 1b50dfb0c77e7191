"""The lists of the inbox: paged without loss or repetition, and the same as what a plain look finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent.engine.client import WorkflowClient
from mailagent.store.console import dismissals
from mailagent.store.console.inbox import Asked, Entry, Lists, Waiting
from mailagent.store.database import Database, open_database
from mailagent.store.pagination import (
    Cursor,
    Part,
    Window,
    count,
    list_newest,
    parse_cursor,
    parse_moment,
)
from tests.cast import MAX, MONA, NOW, TESS
from tests.databases import postgres_copy
from tests.programs.console.fill import Size, fill
from tests.store.lost_mail import lose_mail

LOST = Asked(Waiting.UNDELIVERED)


def look(database: Database, asked: Asked, window: Window) -> Part[Entry]:
    workflow_client = WorkflowClient(database.engine)
    with database.snapshot() as connection:
        return Lists(connection, workflow_client.tables.failed_runs(), NOW).read(asked, window)


def walk(database: Database, asked: Asked, size: int, newest_first: bool = True) -> list[str]:
    """Return the ids of a whole list, page by page, each page in the order in which it is shown."""
    window: Window | None = Window(newest_first, size=size)
    seen: list[str] = []
    while window is not None:
        part = look(database, asked, window)
        seen += [entry.row_id for entry in part.rows]
        following = part.older if newest_first else part.newer
        side = "older" if newest_first else "newer"
        window = Window(newest_first, size=size, **{side: following}) if following else None
    return seen


@pytest.fixture
def ten(database: Database) -> list[str]:
    """Ten mails that did not arrive, most of them written in the same moment, oldest first."""
    with database.transaction() as connection:
        return [lose_mail(connection, f"m{number}", number // 4) for number in range(10)]


def test_a_list_is_whole_whatever_the_size_of_its_pages(database: Database, ten: list[str]) -> None:
    for size in (1, 3, 4, 9, 10, 11):
        assert walk(database, LOST, size, newest_first=True) == ten[::-1]
        assert walk(database, LOST, size, newest_first=False) == ten


def test_rows_that_come_and_go_move_no_page(database: Database, ten: list[str]) -> None:
    first = look(database, LOST, Window(size=4))
    with database.transaction() as connection:
        new = lose_mail(connection, "new", minutes=9)
        dismissals.record(connection, first.rows[-1].row_id, TESS, NOW)
    second = look(database, LOST, Window(older=first.older, size=4))
    assert [entry.row_id for entry in second.rows] == ten[5:1:-1]
    back = look(database, LOST, Window(newer=second.newer, size=4))
    assert [entry.row_id for entry in back.rows] == [new, ten[9], ten[8], ten[7]]
    assert back.newer is None


def test_the_first_page_leads_nowhere_newer_and_the_last_one_nowhere_older(
    database: Database, ten: list[str]
) -> None:
    first = look(database, LOST, Window(size=5))
    last = look(database, LOST, Window(older=first.older, size=5))
    assert (first.newer, last.older) == (None, None)
    assert last.newer is not None
    oldest_first = look(database, LOST, Window(newest_first=False, size=5))
    assert (oldest_first.older, oldest_first.newer) == (
        None,
        Cursor(oldest_first.rows[-1].at, ten[4]),
    )


def test_what_was_dismissed_is_left_out_until_it_is_asked_for(
    database: Database, ten: list[str]
) -> None:
    with database.transaction() as connection:
        for outbound_id in (ten[2], ten[2], ten[7]):
            dismissals.record(connection, outbound_id, TESS, NOW)
    assert set(ten) - set(walk(database, LOST, 4)) == {ten[2], ten[7]}
    everything = look(database, Asked(Waiting.UNDELIVERED, everything=True), Window())
    by = {entry.row_id: entry.dismissed_by for entry in everything.rows}
    assert (len(by), by[ten[2]], by[ten[3]]) == (10, TESS, None)


def test_a_count_stops_a_bit_beyond_its_bound(database: Database, ten: list[str]) -> None:
    workflow_client = WorkflowClient(database.engine)
    with database.snapshot() as connection:
        sources = Lists(connection, workflow_client.tables.failed_runs(), NOW).sources(LOST)
        assert count(connection, sources, most=10).words == "10"
        bounded = count(connection, sources, most=9)
        assert (bounded.words, bounded.oldest_at) == ("9+", NOW)
        times = [NOW + timedelta(minutes=number // 4) for number in range(10)]
        assert list_newest(connection, sources) == tuple(times)
        assert list_newest(connection, sources, most=2) == tuple(times[-3:])


@pytest.mark.parametrize(
    "text",
    ["", None, "~", "5", "5~", "x~y", "-5~y", "5~\x00", "5~a\nb", "9" * 17 + "~y", "５~y", "5~" + "y" * 401],
)  # fmt: skip
def test_what_is_no_cursor_is_none(text: str | None) -> None:
    assert parse_cursor(text) is None


def test_a_cursor_comes_back_from_an_address() -> None:
    cursor = Cursor(NOW + timedelta(microseconds=7), "refund_~x")
    assert parse_cursor(str(cursor)) == cursor
    assert parse_moment("x") is None


# --- the same as a plain look, on a filled database -----------------------------------------------


@pytest.fixture(scope="module")
def filled(postgres_url: str, migrated_postgres: str) -> Iterator[Database]:
    """A small copy of what the benchmark fills."""
    with postgres_copy(postgres_url, migrated_postgres) as url:
        database = open_database(url)
        fill(database.engine, Size(600, 120, 24))
        yield database
        database.close()


_ASKED = (
    "SELECT refund_id FROM approval_requests JOIN approvals USING (approval_id) WHERE manager_email"
)


@pytest.mark.parametrize(
    ("asked", "plain"),
    [
        (Asked(Waiting.APPROVALS), "SELECT refund_id FROM refunds WHERE status = 'awaiting_approval'"),
        (Asked(Waiting.APPROVALS, manager=MAX), f"{_ASKED} = '{MAX}'"),
        (Asked(Waiting.APPROVALS, manager=MONA), f"{_ASKED} = '{MONA}'"),
        (Asked(Waiting.DRAFTS), "SELECT draft_id FROM drafts"),
        (
            Asked(Waiting.PEOPLE),
            "SELECT conversation_id FROM conversations JOIN outbound_mails USING (conversation_id)"
            " WHERE conversations.status = 'handed_over' AND purpose = 'reply'",
        ),
        (
            Asked(Waiting.PEOPLE, everything=True),
            "SELECT conversation_id FROM conversations WHERE status = 'handed_over'",
        ),
        (
            Asked(Waiting.PEOPLE, owner=TESS, everything=True),
            f"SELECT conversation_id FROM conversations WHERE owner_email = '{TESS}'",
        ),
        (
            Asked(Waiting.PEOPLE, owner="", everything=True),
            "SELECT conversation_id FROM conversations WHERE status = 'handed_over'"
            " AND owner_email IS NULL",
        ),
        (
            Asked(Waiting.FAILED),
            "SELECT refund_id FROM refunds WHERE status = 'failed' UNION ALL"
            " SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'ERROR'",
        ),
        (
            Asked(Waiting.UNDELIVERED),
            "SELECT outbound_id FROM outbound_mails WHERE status = 'undelivered'"
            " AND outbound_id NOT IN (SELECT subject FROM dismissals)",
        ),
        (Asked(Waiting.THROTTLED), "SELECT mail_id FROM inbound_mails WHERE status = 'throttled'"),
        (Asked(Waiting.UNANSWERED), "SELECT mail_id FROM inbound_mails WHERE status = 'unanswered'"),
    ],
    ids=lambda value: "-".join(map(str, astuple(value))) if isinstance(value, Asked) else "",
)  # fmt: skip
def test_a_list_is_what_a_plain_look_finds(filled: Database, asked: Asked, plain: str) -> None:
    with filled.snapshot() as connection:
        wanted = set(connection.scalars(sa.text(plain)))
        counted = Lists(connection, WorkflowClient(filled.engine).tables.failed_runs(), NOW).count(
            asked
        )
    assert wanted
    newest, oldest = (walk(filled, asked, 7, newest_first) for newest_first in (True, False))
    assert sorted(newest) == sorted(wanted)
    assert newest == oldest[::-1]
    assert counted.number == len(wanted)


def test_what_replaced_a_failed_run_is_looked_up_by_an_index(filled: Database) -> None:
    failed = WorkflowClient(filled.engine).tables.failed_runs()
    told = failed.compile(filled.engine, compile_kwargs={"literal_binds": True})
    with filled.transaction() as connection:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # of so few any plan is good
        plan = "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {told}"))
    assert "Index Scan using mailagent_succeeded" in plan, plan
    assert "inbound_mails_conversation_id_received_at" in plan, plan
