"""After a restored backup nothing is paid twice and nobody is answered twice. `python -m
tests.programs.restore` plays the same on PostgreSQL, to a point in time.
"""

from __future__ import annotations

from pathlib import Path

from tests.cast import ADA, TESS
from tests.cli.commands import flask
from tests.harness import Harness, running, wait_until
from tests.programs.restore.databases import sqlite_file
from tests.programs.restore.story import play


def test_a_restored_database_that_forgot_money_and_answers_repeats_neither(tmp_path: Path) -> None:
    with sqlite_file(tmp_path) as database:
        assert "2 refunds at the gateway" in play(tmp_path, database)


def test_mail_that_may_have_gone_out_is_peoples_after_a_restore(shop: Harness) -> None:
    with running(shop):
        shop.write("Which orders of mine do you have?")
        shop.wait_for_mails(ADA, 1, 120)
        wait_until(shop.at_rest, 120, "rest")
        refused = flask(shop, "mails", "doubt", "--yes")
    assert (refused.exit_code, "the worker test is alive" in refused.output) == (1, True)
    with shop.live.database.transaction() as connection:
        # As the rows were in the moment before it was sent.
        connection.exec_driver_sql("UPDATE outbound_mails SET status = 'queued', sent_at = NULL")
    assert "1  mails of ours" in flask(shop, "mails", "doubt", "--dry-run").output
    asked = flask(shop, "mails", "doubt", given=b"n\n")
    assert (asked.exit_code, "1  mails of ours" in asked.output) == (1, True)
    assert "1  mails of ours" in flask(shop, "mails", "doubt", "--yes").output
    # What it wrote to the team waits to go out, too, and is not in doubt.
    assert "0  mails of ours" in flask(shop, "mails", "doubt", "--yes").output
    with running(shop):
        (told, *_) = shop.wait_for_mails(TESS, 1, 120)
        wait_until(shop.at_rest, 120, "rest")
    assert "backup was restored" in told.text
    assert len(shop.mails_to(ADA)) == 1
    (mail,) = shop.rows("SELECT status FROM outbound_mails WHERE purpose = 'reply'")
    assert mail.status == "unknown"
