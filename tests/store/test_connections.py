"""Connections that were cut while they were in the pool are replaced before anybody uses them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
import sqlalchemy as sa

from mailagent.demo.fakes.webhooks import build_body
from mailagent.store.database import PING_AFTER_SECONDS, Database, open_database
from mailagent.store.errors import is_outage
from tests.harness import Harness, letter
from tests.workflows.trouble import cut_connections

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

POOLED = 3


def fill_and_cut(shop: Harness) -> None:
    """Put connections into the pool and cut them."""
    with ExitStack() as stack:
        for _ in range(POOLED):
            stack.enter_context(shop.live.database.snapshot()).execute(sa.select(1))
    assert cut_connections(shop) == POOLED
    time.sleep(PING_AFTER_SECONDS)  # a connection that was just used is not asked


def test_a_connection_that_was_cut_in_the_pool_is_replaced_unseen(shop: Harness) -> None:
    fill_and_cut(shop)
    for _ in range(POOLED):
        with shop.live.database.transaction() as connection:
            connection.execute(sa.select(1))


def test_a_mail_is_taken_at_once_after_the_connections_were_cut(shop: Harness) -> None:
    body = build_body(letter("Where is my kettle?"))
    fill_and_cut(shop)
    assert shop.post_inbound(body).status_code == 200
    assert len(shop.rows("SELECT 1 FROM inbound_mails")) == 1


# --- prepared -------------------------------------------------------------------------------------


# psycopg prepares what it has sent five times.
TIMES = 7


@pytest.fixture
def pair(database_url: str) -> Iterator[Database]:
    """A database to which two connections are open."""
    with closing(open_database(database_url, pool_size=2)) as opened:
        with opened.transaction(), opened.transaction():
            pass
        yield opened


def read_twice(database: Database) -> list[object]:
    """Read a column on two connections at once."""
    query = sa.text("SELECT version FROM kettles WHERE kettle_id = :id")
    with database.snapshot() as one, database.snapshot() as other:
        return [each.scalar(query, {"id": "K1"}) for each in (one, other)]


@pytest.fixture
def kettles(pair: Database) -> Database:
    with pair.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE kettles (kettle_id text, version int)"))
        connection.execute(sa.text("INSERT INTO kettles VALUES ('K1', 1)"))
    return pair


def test_a_column_that_changes_its_type_costs_one_try(kettles: Database, database_url: str) -> None:
    for _ in range(TIMES):
        read_twice(kettles)
    # Elsewhere, as a migration is: psycopg forgets what it has prepared when it sends an ALTER itself.
    with closing(open_database(database_url)) as other, other.transaction() as connection:
        connection.execute(sa.text("ALTER TABLE kettles ALTER version TYPE text"))
    with pytest.raises(sa.exc.DBAPIError, match="cached plan") as caught:
        read_twice(kettles)
    assert is_outage(caught.value)
    assert read_twice(kettles) == ["1", "1"]


def test_who_goes_on_after_a_lost_connection_is_not_told_of_it_twice(kettles: Database) -> None:
    ended = sa.text("SELECT pg_terminate_backend(pg_backend_pid())")
    with kettles.snapshot() as connection, pytest.raises(sa.exc.OperationalError):
        connection.execute(ended)
    assert read_twice(kettles) == [1, 1]


def test_what_the_server_cannot_do_is_no_outage(kettles: Database) -> None:
    with pytest.raises(sa.exc.DBAPIError) as caught, kettles.transaction() as connection:
        connection.execute(
            sa.text("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '0A000'; END $$")
        )
    assert not is_outage(caught.value)
