"""Reading: all of one moment, whatever is written meanwhile, and nothing but reading."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import open_database
from mailagent.store.refunds import order_import, orders
from tests.cast import order
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
