"""Raw mail goes after its time, oldest first and bit by bit; what was read of it stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import Result
from dbos import DBOS

from mailagent import services
from mailagent.demo.fakes.webhooks import build_body
from mailagent.store.database import Database
from mailagent.store.mail import arrivals, inbound, raw_mail
from mailagent.store.mail.inbound import Filing
from mailagent.store.mail.raw_mail import RawMail
from mailagent.workflows import launch
from mailagent.workflows.maintenance import sweep
from mailagent.workflows.steps.maintenance import housekeeping
from mailagent.workflows.steps.maintenance import sweep as steps
from mailagent.workflows.steps.recording import at_work
from tests.cast import NOW
from tests.harness import Harness, open_shop, running
from tests.store.parsed import parsed_mail

pytestmark = pytest.mark.both_databases

BODY = b"card 4111 1111 1111 1111, in full"


def keep(database: Database, received_at: datetime, count: int = 1) -> list[str]:
    """Record mails with their raw bytes; return their ids."""
    kept: list[str] = []
    with database.transaction() as connection:
        for _ in range(count):
            key = f"key-{received_at.timestamp()}-{len(kept)}"
            mail = parsed_mail(dedup_key=key)
            filed = Filing(raw=RawMail("text/plain", BODY))
            mail_id = inbound.record(connection, mail, None, "a test", received_at, filed)
            assert mail_id is not None
            kept.append(mail_id)
    return kept


def raw_ids(database: Database) -> list[str]:
    with database.snapshot() as connection:
        return sorted(connection.scalars(sa.text("SELECT mail_id FROM raw_mails")))


def purge(database: Database, before: datetime, limit: int = 100) -> int:
    with database.transaction() as connection:
        return raw_mail.purge(connection, before, limit)


def flask_purge(shop: Harness) -> Result:
    return shop.app.test_cli_runner().invoke(args=["purge"])


@pytest.mark.parametrize(("seconds", "purged"), [(-1, 1), (0, 0), (1, 0)])
def test_only_what_came_before_the_time_goes(database: Database, seconds: int, purged: int) -> None:
    keep(database, NOW + timedelta(seconds=seconds))
    assert purge(database, NOW) == purged
    assert len(raw_ids(database)) == 1 - purged


def test_the_oldest_go_first_and_no_more_than_asked(database: Database) -> None:
    newer = keep(database, NOW - timedelta(days=1), 2)
    keep(database, NOW - timedelta(days=2), 3)
    assert purge(database, NOW, 3) == 3
    assert raw_ids(database) == sorted(newer)
    assert [purge(database, NOW, 3), purge(database, NOW, 3)] == [2, 0]


def test_what_was_read_of_a_mail_stays_and_so_does_its_key(database: Database) -> None:
    (mail_id,) = keep(database, NOW)
    purge(database, NOW + timedelta(days=1))
    with database.snapshot() as connection:
        assert raw_mail.find(connection, mail_id) is None
        mail = inbound.find(connection, mail_id)
        assert mail is not None
        assert mail.new_text == parsed_mail().new_text
        again = parsed_mail(dedup_key=f"key-{NOW.timestamp()}-0")
        assert arrivals.look_up(connection, again).stored


def test_two_purges_at_once_do_not_wait_for_each_other(database: Database) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    keep(database, NOW, 5)
    later = NOW + timedelta(days=1)
    with database.transaction() as connection:
        assert raw_mail.purge(connection, later, 3) == 3
        assert purge(database, later, 3) == 2
    assert raw_ids(database) == []


def test_on_sqlite_nothing_is_left_in_the_file(database: Database) -> None:
    if database.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL's files are for its vacuum")
    path = Path(database.engine.url.database or "")

    def is_in_file() -> bool:
        with database.engine.connect() as connection:
            connection.rollback()
            raw = connection.connection.cursor()
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            raw.close()
        return BODY in path.read_bytes()

    keep(database, NOW)
    assert is_in_file()
    purge(database, NOW + timedelta(days=1))
    assert not is_in_file()


def test_looking_for_old_mail_uses_the_index(database: Database) -> None:
    query = "SELECT mail_id FROM raw_mails WHERE received_at < '2026-01-01' ORDER BY received_at"
    sqlite = database.engine.dialect.name == "sqlite"
    with database.transaction() as connection:
        if not sqlite:
            connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
        plan = connection.execute(sa.text(f"EXPLAIN {'QUERY PLAN ' * sqlite}{query} LIMIT 20"))
        assert "ix_raw_mails_received_at" in str(plan.all())


class Batches:
    """Notes how many rows each batch of a purge took; `after` is called when one is done."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, after: Callable[[], None] = lambda: None
    ) -> None:
        self.sizes: list[int] = []
        purge = raw_mail.purge

        def noted(connection: sa.Connection, before: datetime, limit: int) -> int:
            self.sizes.append(purge(connection, before, limit))
            after()
            return self.sizes[-1]

        monkeypatch.setattr(raw_mail, "purge", noted)


def end_after(batches: int) -> Callable[[float | None], housekeeping.Deadline]:
    """Return what makes deadlines that pass after so many batches."""

    class Ending(housekeeping.Deadline):
        def has_passed(self) -> bool:
            left.pop()
            return not left

    left = [None] * (batches + 1)
    return Ending


def test_a_sweep_takes_all_that_is_due_in_many_batches(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = shop.live.now()
    keep(shop.live.database, now - timedelta(days=30, seconds=60), 505)
    young = keep(shop.live.database, now - timedelta(days=29, hours=23))
    batches = Batches(monkeypatch)
    assert [steps.purge_raw_mail(), steps.purge_raw_mail()] == [505, 0]
    assert max(batches.sizes) == steps.RAW_MAILS_AT_ONCE
    assert raw_ids(shop.live.database) == young


def test_a_sweep_whose_time_is_used_leaves_the_rest_to_the_next(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(shop.live.database, shop.live.now() - timedelta(days=31), 400)
    batches = Batches(monkeypatch)
    monkeypatch.setattr(steps, "Deadline", end_after(2))
    gone = steps.purge_raw_mail()
    assert (len(batches.sizes), sum(batches.sizes)) == (2, gone)
    assert len(raw_ids(shop.live.database)) == 400 - gone
    monkeypatch.setattr(steps, "Deadline", housekeeping.Deadline)
    assert steps.purge_raw_mail() == 400 - gone


def test_a_sweep_of_a_worker_that_is_to_end_stops_between_two_batches(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(shop.live.database, shop.live.now() - timedelta(days=31), 100)
    batches = Batches(monkeypatch, at_work.leave)
    monkeypatch.setattr(launch, "_apply_schedules", lambda _shadow: None)
    with running(shop):
        # Its last step: what was deleted by then is recorded, and the next sweep goes on.
        DBOS.start_workflow(sweep, datetime.now(UTC), None).get_result()
    assert batches.sizes == [steps.RAW_MAILS_AT_ONCE]
    assert len(raw_ids(shop.live.database)) == 100 - steps.RAW_MAILS_AT_ONCE


@pytest.mark.parametrize(
    ("seconds", "ago", "passed"), [(10.0, 1, False), (10.0, 11, True), (None, 10**6, False)]
)
def test_a_deadline_passes_when_its_time_is_used(
    seconds: float | None, ago: int, passed: bool
) -> None:
    assert housekeeping.Deadline(seconds, time.monotonic() - ago).has_passed() == passed


def test_what_the_deadlines_allow_ends_before_the_next_run_begins() -> None:
    assert steps.RAW_SECONDS <= 60 / 4
    assert 3 * housekeeping.STEP_SECONDS <= 3600 * 3 / 4


def test_the_command_takes_all_and_says_how_many(shop: Harness) -> None:
    keep(shop.live.database, shop.live.now() - timedelta(days=31), 450)
    first, second = flask_purge(shop), flask_purge(shop)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "     450  raw mails older than 30 days\n" in first.output
    assert "       0  raw mails older than 30 days\n" in second.output


def test_the_command_tells_trouble_in_a_sentence(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("ALTER TABLE raw_mails RENAME TO gone"))
    result = flask_purge(shop)
    assert result.exit_code == 1
    assert "alembic upgrade head" in result.output


def test_the_days_are_a_setting(tmp_path: Path, database_url: str) -> None:
    with open_shop(tmp_path, database_url, {"RAW_MAIL_DAYS": "2"}) as shop:
        keep(shop.live.database, shop.live.now() - timedelta(days=3))
        assert steps.purge_raw_mail() == 1


def test_the_same_mail_again_after_its_purge_is_still_the_same_mail(shop: Harness) -> None:
    written = shop.write("Hello")
    later = shop.live.now() + timedelta(days=31)
    services.bind(replace(shop.live, now=lambda: later))
    assert steps.purge_raw_mail() == 1
    assert shop.post_inbound(build_body(written)).status_code == 200
    assert len(shop.rows("SELECT mail_id FROM inbound_mails")) == 1
    assert raw_ids(shop.live.database) == []
