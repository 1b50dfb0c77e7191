"""What waits in a restored database is given to people: each of it once, however often the command is run."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

import pytest
import sqlalchemy as sa

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import MailStatus
from mailagent.store import schema
from mailagent.store.mail import drafts, throttled
from mailagent.workflows.steps.maintenance import restored
from mailagent.workflows.steps.maintenance.flood import CASES_PER_HOUR
from tests.cast import ADA, GRACE, JUERGEN, MALLORY, TESS
from tests.cli.commands import flask
from tests.harness import Harness

SENDERS = (ADA, GRACE, JUERGEN, MALLORY)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_throttled_mail_and_drafts_are_peoples_after_a_restore(shop: Harness) -> None:
    """Each may have become an answer in the time that is lost. The command is broken off, and run again."""
    for sender in SENDERS:
        shop.write("Which orders of mine do you have?", from_address=sender)
    with shop.live.database.transaction() as connection:
        _park(connection, "more than 60 mails an hour", MALLORY)
        _park(connection, throttled.LOOP_DETECTED, JUERGEN)
        _draft_answer(connection, GRACE, shop.live.now())
    assert _doubted(shop, "--dry-run") == ["0", "4", "1"]

    found = restored.find_doubtful()
    restored.give_to_people(replace(found, conversation_ids=found.conversation_ids[:2]))
    assert _doubted(shop)[1] == "2"
    assert _doubted(shop) == ["0", "0", "0"]

    theirs = shop.rows("SELECT status, no_answer_reason FROM inbound_mails")
    assert set(theirs) == {("no_answer", HandOverReason.RESTORED.value)}
    assert shop.rows("SELECT state FROM drafts") == [("superseded",)]
    ours = shop.rows("SELECT purpose, to_address, status FROM outbound_mails")
    assert ours == [("hand_over", TESS, "queued")] * len(SENDERS)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_flood_that_was_throttled_before_a_restore_is_told_of_in_one_notice(
    shop: Harness,
) -> None:
    for number in range(CASES_PER_HOUR + 1):
        shop.write("Where is it?", from_address=GRACE, subject=f"Parcel {number}")
    with shop.live.database.transaction() as connection:
        _park(connection, "more than 60 mails an hour", GRACE)
    assert _doubted(shop) == ["0", str(CASES_PER_HOUR + 1), "0"]
    assert _doubted(shop) == ["0", "0", "0"]
    assert shop.rows("SELECT DISTINCT status FROM inbound_mails") == [("no_answer",)]
    (told,) = shop.rows("SELECT purpose, status, text FROM outbound_mails")
    assert (told.purpose, told.status) == ("notice", "queued")
    assert f"{CASES_PER_HOUR + 1} from {GRACE}" in told.text


def _park(connection: sa.Connection, why: str, sender: str) -> None:
    connection.execute(
        schema.inbound_mails.update()
        .where(schema.inbound_mails.c.from_address == sender)
        .values(status=MailStatus.THROTTLED.value, no_answer_reason=why)
    )


def _draft_answer(connection: sa.Connection, sender: str, now: datetime) -> None:
    mails = schema.inbound_mails
    query = sa.select(mails.c.mail_id, mails.c.conversation_id)
    mail = connection.execute(query.where(mails.c.from_address == sender)).one()
    drafts.record(connection, mail.conversation_id, [mail.mail_id], [], "You have one.", now)


def _doubted(shop: Harness, *options: str) -> list[str]:
    """Run the command; return how many mails of ours, mails of customers and drafts it names."""
    return re.findall(r"^ *(\d+)  ", flask(shop, "mails", "doubt", *options).output, re.MULTILINE)
