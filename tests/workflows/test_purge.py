"""Raw mail goes after its time, oldest first and bit by bit; what was read of it stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import Result

from mailagent import services
from mailagent.demo.inbound_parse import build_body
from mailagent.settings import SettingsProblem, load_settings
from mailagent.store import mailbox
from mailagent.store.database import Database
from mailagent.workflows.steps import sweep as steps
from tests.cast import NOW
from tests.stage import Stage, open_shop
from tests.store.parsed import parsed_mail

BODY = b"card 4111 1111 1111 1111, in full"


def keep(database: Database, received_at: datetime, count: int = 1) -> list[str]:
    """Record mails with their raw bytes; return their ids."""
    kept: list[str] = []
    with database.transaction() as connection:
        for _ in range(count):
            key = f"key-{received_at.timestamp()}-{len(kept)}"
            mail_id = mailbox.record(
                connection, parsed_mail(dedup_key=key), None, "a test", received_at
            )
            assert mail_id is not None
            mailbox.record_raw(connection, mail_id, "text/plain", BODY, received_at)
            kept.append(mail_id)
    return kept


def raw_ids(database: Database) -> list[str]:
    with database.snapshot() as connection:
        return sorted(connection.scalars(sa.text("SELECT mail_id FROM raw_mails")))


def purge(database: Database, before: datetime, limit: int = 100) -> int:
    with database.transaction() as connection:
        return mailbox.purge_raw(connection, before, limit)


def flask_purge(shop: Stage) -> Result:
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
        assert mailbox.find_raw(connection, mail_id) is None
        mail = mailbox.find(connection, mail_id)
        assert mail is not None
        assert mail.new_text == parsed_mail().new_text
        assert mailbox.look_up(connection, f"key-{NOW.timestamp()}-0", None).stored


def test_two_purges_at_once_do_not_wait_for_each_other(database: Database) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    keep(database, NOW, 5)
    later = NOW + timedelta(days=1)
    with database.transaction() as connection:
        assert mailbox.purge_raw(connection, later, 3) == 3
        assert purge(database, later, 3) == 2
    assert raw_ids(database) == []


def test_on_sqlite_nothing_is_left_in_the_file(database: Database) -> None:
    if database.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL's files are for its vacuum")
    keep(database, NOW)
    purge(database, NOW + timedelta(days=1))
    with database.engine.connect() as connection:
        connection.rollback()
        raw = connection.connection.cursor()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raw.close()
    path = Path(database.engine.url.database or "")
    assert BODY not in path.read_bytes()


def test_looking_for_old_mail_uses_the_index(database: Database) -> None:
    query = "SELECT mail_id FROM raw_mails WHERE received_at < '2026-01-01' ORDER BY received_at"
    sqlite = database.engine.dialect.name == "sqlite"
    with database.transaction() as connection:
        if not sqlite:
            connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
        plan = connection.execute(sa.text(f"EXPLAIN {'QUERY PLAN ' * sqlite}{query} LIMIT 20"))
        assert "ix_raw_mails_received_at" in str(plan.all())


def test_a_sweep_takes_some_of_what_is_due_and_leaves_the_rest_to_the_next(shop: Stage) -> None:
    now = shop.live.now()
    keep(shop.live.database, now - timedelta(days=30, seconds=60), 205)
    young = keep(shop.live.database, now - timedelta(days=29, hours=23))
    assert [steps.purge_raw_mail() for _ in range(3)] == [steps.RAW_MAILS_PER_SWEEP, 5, 0]
    assert raw_ids(shop.live.database) == young


def test_the_command_takes_all_and_says_how_many(shop: Stage) -> None:
    keep(shop.live.database, shop.live.now() - timedelta(days=31), 450)
    first, second = flask_purge(shop), flask_purge(shop)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "     450  raw mails older than 30 days\n" in first.output
    assert "       0  raw mails older than 30 days\n" in second.output


def test_the_command_tells_trouble_in_a_sentence(shop: Stage) -> None:
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text("DROP TABLE raw_mails"))
    result = flask_purge(shop)
    assert result.exit_code == 1
    assert "alembic upgrade head" in result.output


def test_the_days_are_a_setting(tmp_path: Path, database_url: str) -> None:
    with open_shop(tmp_path, database_url, {"RAW_MAIL_DAYS": "2"}) as shop:
        keep(shop.live.database, shop.live.now() - timedelta(days=3))
        assert steps.purge_raw_mail() == 1


@pytest.mark.parametrize("days", ["0", "-1", "a month", "3651", "9" * 30])
def test_days_that_cannot_be_are_named(tmp_path: Path, days: str) -> None:
    with pytest.raises(SettingsProblem, match="RAW_MAIL_DAYS: ") as raised:
        load_settings({"RAW_MAIL_DAYS": days}, tmp_path / "key")
    assert len(raised.value.problems) == 1


@pytest.mark.parametrize("days", ["1", "3650"])
def test_days_at_the_ends_are_taken(tmp_path: Path, days: str) -> None:
    assert load_settings({"RAW_MAIL_DAYS": days}, tmp_path / "key").waits.raw_mail_days == int(days)


def test_the_same_mail_again_after_its_purge_is_still_the_same_mail(shop: Stage) -> None:
    written = shop.write("Hello")
    later = shop.live.now() + timedelta(days=31)
    services.bind(replace(shop.live, now=lambda: later))
    assert steps.purge_raw_mail() == 1
    assert shop.post_inbound(build_body(written)).status_code == 200
    assert len(shop.rows("SELECT mail_id FROM inbound_mails")) == 1
    assert raw_ids(shop.live.database) == []
