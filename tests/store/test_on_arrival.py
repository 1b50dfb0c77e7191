"""What is on record of a mail that comes in, and that its row and its request are one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import Identity, MailKind
from mailagent.store.console import sessions
from mailagent.store.database import Database
from mailagent.store.mail import filing, inbound
from mailagent.store.mail.arrivals import Known, look_up
from mailagent.store.mail.filing import Filing, RawMail
from tests.cast import ADA, GRACE, NOW
from tests.store.parsed import parsed_mail

FORGED = parsed_mail(dedup_key="key-2", message_id="m2@example.com", identity=Identity.NONE)


def test_nothing_is_known_at_first(database: Database) -> None:
    with database.snapshot() as connection:
        assert look_up(connection, parsed_mail(), NOW, 1) == Known(
            stored=False,
            same_message_id=0,
            message_id=False,
            signed_date=False,
            proven=True,
            is_used_up=False,
            live_logins=False,
        )


def test_a_stored_mail_is_known_by_its_key_and_its_message_id(database: Database) -> None:
    changed = parsed_mail(dedup_key="key-3")
    with database.transaction() as connection:
        filing.record(connection, parsed_mail(), None, "a test", NOW)
        same = look_up(connection, parsed_mail(), NOW, 9)
        other = look_up(connection, changed, NOW, 9)
    assert (same.stored, other.stored) == (True, False)
    assert (other.same_message_id, other.message_id) == (1, True)


def test_a_mail_whose_message_id_is_not_signed_is_known_by_author_and_date(
    database: Database,
) -> None:
    changed = {"dedup_key": "key-3", "message_id": "m3@example.com", "known_by_date": True}
    others: list[dict[str, Any]] = [
        {"from_address": GRACE},
        {"sent_at": NOW + timedelta(seconds=1)},
        {"sent_at": None},
        {"known_by_date": False},
    ]
    with database.transaction() as connection:
        filing.record(connection, parsed_mail(), None, "a test", NOW + timedelta(days=7))
        assert look_up(connection, parsed_mail(**changed), NOW, 9).signed_date
        for other in others:
            mail = parsed_mail(**changed | other)
            assert not look_up(connection, mail, NOW, 9).signed_date


def test_one_that_could_not_be_read_may_come_again(database: Database) -> None:
    broken = parsed_mail(dedup_key="key-3", kind=MailKind.MALFORMED)
    with database.transaction() as connection:
        filing.record(connection, broken, None, "a test", NOW)
        known = look_up(connection, parsed_mail(known_by_date=True), NOW, 9)
    assert (known.same_message_id, known.message_id, known.signed_date) == (1, False, False)


def test_proven_mail_of_the_last_hour_uses_up_what_is_proven_only(database: Database) -> None:
    with database.transaction() as connection:
        filing.record(connection, parsed_mail(), None, "a test", NOW)
        assert look_up(connection, parsed_mail(), NOW, 1).is_used_up
        assert not look_up(connection, parsed_mail(), NOW, 2).is_used_up
        assert not look_up(connection, parsed_mail(), NOW + timedelta(hours=2), 1).is_used_up
        forged = look_up(connection, FORGED, NOW, 1)
    assert (forged.proven, forged.is_used_up) == (False, False)


def test_a_link_that_logs_in_is_told_of_until_it_is_used(database: Database) -> None:
    with database.transaction() as connection:
        sessions.record_link(connection, "secret", ADA, "/", NOW, NOW + timedelta(minutes=15))
        assert look_up(connection, FORGED, NOW, 1).live_logins
        assert not look_up(connection, FORGED, NOW + timedelta(hours=1), 1).live_logins
        sessions.use_link(connection, "secret", NOW)
        assert not look_up(connection, FORGED, NOW, 1).live_logins


def test_a_mail_is_stored_with_its_request_or_not_at_all(database: Database) -> None:
    with database.transaction() as connection:
        first = Filing(raw=RawMail("text/plain", b"first \xff\x00"))
        second = Filing(raw=RawMail("text/plain", b"second"))
        mail_id = filing.record(connection, parsed_mail(), None, "a test", NOW, first)
        assert filing.record(connection, parsed_mail(), None, "a test", NOW, second) is None
        assert mail_id == first.mail_id
        raw = inbound.find_raw(connection, first.mail_id)
        assert raw == first.raw
        assert connection.scalar(sa.text("SELECT count(*) FROM raw_mails")) == 1
        assert inbound.find(connection, second.mail_id) is None
