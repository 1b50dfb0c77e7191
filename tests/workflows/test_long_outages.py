"""The database is away for longer than a step tries, takes no writes, or has no room: all goes on by itself."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.demo.fakes.webhooks import build_body
from mailagent.workflows.steps import recording
from mailagent.workflows.steps.maintenance.sweep import enqueue_mail
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, MONA, big_order, order
from tests.harness import Harness, letter, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.workflows.trouble import (
    is_sqlite,
    once,
    table_of_runs,
    wait_for_run,
    watched,
)

pytestmark = pytest.mark.both_databases


def quietly(look: Callable[[], bool]) -> Callable[[], bool]:
    """Return what looks, and sees nothing while the database is away."""

    def looked() -> bool:
        try:
            return look()
        except sa.exc.OperationalError:
            return False

    return looked


def sweep_at_once(shop: Harness) -> None:
    """Do what the sweep does for mail a minute later."""
    hurried = replace(shop.live.waits, sweep_after_seconds=0)
    services.bind(replace(shop.live, waits=hurried))
    enqueue_mail()
    services.bind(shop.live)


def test_a_server_away_for_longer_than_a_step_tries_costs_nothing(
    own_server: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, server = own_server, own_server.app.config["SERVER"]
    shop.stock(order(), big_order())
    monkeypatch.setattr(recording, "MOST_TRIES", 2)
    late = build_body(letter(KETTLE_WISH.replace("kettle", "kettle, bought as a present,")))
    with watched("propose_refund before", once(server.stop)) as seen, running(shop):
        shop.write(DESK_WISH)
        wait_until(lambda: seen["propose_refund before"] >= 2, 30, "the step to give up")
        assert [shop.post_inbound(late).status_code for _ in range(2)] == [503, 503]
        monkeypatch.undo()
        server.start()
        back_at = time.time()
        wait_for_run(shop, "conversation", "ERROR")
        assert [shop.post_inbound(late).status_code for _ in range(2)] == [200, 200]
        sweep_at_once(shop)
        shop.wait_for_refund("paid", 60)  # the kettle of the mail that was sent again
        (request,) = shop.wait_for_mails(MONA)
        decide(shop, link_in(request.text), "approve")
        # Within the minute after which DBOS looks without being told: its listener is back.
        paid = "SELECT 1 FROM refunds WHERE status = 'paid'"
        wait_until(lambda: len(shop.rows(paid)) == 2, 40, "the wake-up to be heard")
        beat = "SELECT 1 FROM workers WHERE seen_at > to_timestamp(:at)"
        wait_until(lambda: bool(shop.rows(beat, at=back_at)), 20, "a heartbeat")
        swept = (
            f"SELECT 1 FROM {table_of_runs(shop)} WHERE name = 'sweep' AND status = 'SUCCESS'"
            " AND completed_at > :at"
        )
        wait_until(lambda: bool(shop.rows(swept, at=back_at * 1000)), 90, "the schedule to go on")
    assert len(shop.rows("SELECT * FROM inbound_mails")) == 2
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 2
    assert len(shop.mails_to(ADA)) == 4


def alter(shop: Harness, change: str) -> None:
    """Change how the database takes connections, and end those that it has."""
    url = shop.live.database.engine.url
    engine = sa.create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f'ALTER DATABASE "{url.database}" {change}'))
        for _ in range(2):
            connection.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :it"
                ),
                {"it": url.database},
            )
            # One that was about to begin when it was altered shows itself a moment later.
            time.sleep(0.2)
    engine.dispose()


READ_ONLY = ("SET default_transaction_read_only = on", "RESET default_transaction_read_only")
NO_CONNECTIONS = ("ALLOW_CONNECTIONS false", "ALLOW_CONNECTIONS true")


# The last one is where DBOS has to write what was done, and we have nothing more to do.
@pytest.mark.parametrize(
    ("away", "back", "point"),
    [
        (*READ_ONLY, "pay_refund intended"),
        (*NO_CONNECTIONS, "pay_refund intended"),
        (*READ_ONLY, "pay_refund after"),
    ],
    ids=["read-only", "no connections", "read-only for DBOS"],
)
def test_a_server_that_takes_no_writes_or_nobody_is_waited_for(
    shop: Harness, away: str, back: str, point: str
) -> None:
    if is_sqlite(shop):
        pytest.skip("SQLite has neither standbys nor connections to refuse")
    shop.stock(order())
    body = build_body(letter(KETTLE_WISH))
    is_away = threading.Event()

    def go_away() -> None:
        alter(shop, away)
        is_away.set()

    with watched(point, once(go_away)) as seen, running(shop):
        shop.write(KETTLE_WISH)
        assert is_away.wait(40)
        if point.endswith("intended"):
            wait_until(lambda: seen["pay_refund before"] > 1, 40, "another try")
        assert shop.post_inbound(body).status_code == 503
        assert shop.client.get("/healthz").status_code == 200
        alter(shop, back)
        told = quietly(lambda: len(shop.mails_to(ADA)) == 2 and shop.at_rest())
        wait_until(told, 60, "the receipt")
        assert shop.post_inbound(body).status_code == 200
        wait_until(lambda: len(shop.mails_to(ADA)) >= 3 and shop.at_rest(), 60, "an answer")
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
    assert len(shop.rows("SELECT * FROM inbound_mails")) == 2


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END$$;
CREATE TRIGGER full_disk BEFORE INSERT ON {0} FOR EACH STATEMENT EXECUTE FUNCTION full_disk();
"""


def fill_disk(shop: Harness, table: str) -> Callable[[], None]:
    """Let the disk have no room for a row of a table; return what makes room."""
    engine = shop.live.database.engine
    if is_sqlite(shop):
        engine.dispose()

        def bound(connection: sqlite3.Connection, _record: object) -> None:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages}")

        sa.event.listen(engine, "connect", bound)

        def make_room() -> None:
            sa.event.remove(engine, "connect", bound)
            engine.dispose()

        return make_room
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text(FULL.format(table)))

    def free() -> None:
        with shop.live.database.transaction() as connection:
            connection.execute(sa.text(f"DROP TRIGGER full_disk ON {table}"))

    return free


def test_a_full_disk_stores_no_mail_by_halves_and_it_comes_again(shop: Harness) -> None:
    body = build_body(letter("Which orders of mine do you have? " + "I forgot. " * 100_000))
    make_room = fill_disk(shop, "raw_mails")
    assert shop.post_inbound(body).status_code == 503
    for table in ("inbound_mails", "raw_mails", "conversations", table_of_runs(shop)):
        assert shop.rows(f"SELECT 1 FROM {table}") == []
    make_room()
    with running(shop):
        assert [shop.post_inbound(body).status_code for _ in range(2)] == [200, 200]
        shop.wait_for_mails(ADA)
    assert len(shop.rows("SELECT 1 FROM inbound_mails")) == 1


def test_a_step_that_finds_the_disk_full_tries_again(shop: Harness) -> None:
    room: list[Callable[[], None]] = []
    shop.stock(order())
    table = "ledger_entries"
    with (
        watched("pay_refund intended", once(lambda: room.append(fill_disk(shop, table)))) as seen,
        running(shop),
    ):
        if is_sqlite(shop):
            pytest.skip("a small row finds room on a page of SQLite's that is there already")
        shop.write(KETTLE_WISH)
        wait_until(lambda: seen["pay_refund before"] > 1, 40, "another try")
        room[0]()
        shop.wait_for_refund("paid", 40)
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
