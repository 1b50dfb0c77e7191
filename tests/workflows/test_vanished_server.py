"""A server that vanishes closes no connection: each of ours, DBOS's too, gives it up by itself."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.store.database import GONE_AFTER, open_database
from mailagent.store.errors import is_outage
from tests.databases import postgres_copy
from tests.harness import open_shop, running, wait_until
from tests.workflows.line import Line, ends_at, line_to

OPTIONS = {
    "keepalive": (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    "idle": (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
    "interval": (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
    "count": (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
    "timeout": (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
}
IN_FORCE = {"keepalive": 1, "idle": 10, "interval": 5, "count": 3, "timeout": 20_000}


@pytest.fixture
def line(postgres_url: str, migrated_postgres: str) -> Iterator[tuple[Line, str]]:
    with postgres_copy(postgres_url, migrated_postgres) as url, line_to(url) as given:
        yield given


def in_force(port: int) -> list[dict[str, int]]:
    """Return the options of every connection of this process to a port."""
    return [
        {name: end.getsockopt(*option) for name, option in OPTIONS.items()} for end in ends_at(port)
    ]


def test_every_connection_notices_that_its_server_is_gone(
    tmp_path: Path, line: tuple[Line, str]
) -> None:
    far, url = line
    opened = (
        "SELECT application_name, query FROM pg_stat_activity WHERE datname = current_database()"
    )
    with open_shop(tmp_path, url) as shop, running(shop):
        shop.write("Which orders of mine do you have?")
        wait_until(shop.at_rest, 30, "an answer")
        theirs = [row for row in shop.rows(opened) if row.application_name == "dbos_transact"]
        assert [row for row in theirs if row.query.startswith("LISTEN")]
        found = in_force(far.port)
        assert len(found) >= len(theirs) + 1
        assert found == [IN_FORCE] * len(found)


def test_what_the_url_says_stands(line: tuple[Line, str]) -> None:
    far, url = line
    said = sa.make_url(url).update_query_dict({"keepalives_idle": "7", "tcp_user_timeout": "1500"})
    database = open_database(said.render_as_string(hide_password=False))
    with database.snapshot():
        assert in_force(far.port) == [IN_FORCE | {"idle": 7, "timeout": 1500}]
    database.close()


def test_who_writes_to_a_server_that_is_gone_is_told_of_an_outage(
    line: tuple[Line, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The system of a line on this machine acknowledges all that there is room for, so there is more.
    far, url = line
    monkeypatch.setitem(GONE_AFTER, "tcp_user_timeout", 500)
    database = open_database(url)
    problems = list[BaseException]()

    def write() -> None:
        try:
            with database.transaction() as connection:
                connection.execute(sa.text("SELECT 1"))
                far.die()
                connection.execute(sa.text("SELECT length(:mail)"), {"mail": "x" * 20_000_000})
        except sa.exc.DBAPIError as problem:
            problems.append(problem)

    began = time.monotonic()
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(30)
    assert problems, "it waits for ever"
    assert is_outage(problems[0])
    assert time.monotonic() - began < 20
    database.close()
