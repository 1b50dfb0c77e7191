"""What is on record of a mail that comes in, and that its row and its request are one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import HOUR, Limits
from mailagent.domain.mail.message import MailKind
from mailagent.store.console import sessions
from mailagent.store.database import Database
from mailagent.store.mail import inbound, raw_mail
from mailagent.store.mail.arrivals import (
    KEPT,
    SHARE,
    Arrivals,
    Known,
    is_sender_limit_reached,
    look_up,
)
from mailagent.store.mail.inbound import Filing
from mailagent.store.mail.raw_mail import RawMail
from tests.cast import ADA, GRACE, NOW
from tests.harness import Harness
from tests.store.parsed import parsed_mail


def test_nothing_is_known_at_first(database: Database) -> None:
    with database.snapshot() as connection:
        assert look_up(connection, parsed_mail()) == Known(False, 0, False, False)


def test_a_stored_mail_is_known_by_its_key_and_its_message_id(database: Database) -> None:
    changed = parsed_mail(dedup_key="key-3")
    with database.transaction() as connection:
        inbound.record(connection, parsed_mail(), None, "a test", NOW)
        same = look_up(connection, parsed_mail())
        other = look_up(connection, changed)
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
        inbound.record(connection, parsed_mail(), None, "a test", NOW + timedelta(days=7))
        assert look_up(connection, parsed_mail(**changed)).signed_date
        for other in others:
            mail = parsed_mail(**changed | other)
            assert not look_up(connection, mail).signed_date


def test_one_that_could_not_be_read_may_come_again(database: Database) -> None:
    broken = parsed_mail(dedup_key="key-3", kind=MailKind.MALFORMED)
    with database.transaction() as connection:
        inbound.record(connection, broken, None, "a test", NOW)
        known = look_up(connection, parsed_mail(known_by_date=True))
    assert (known.same_message_id, known.message_id, known.signed_date) == (1, False, False)


def test_proven_mail_of_the_last_hour_uses_up_what_is_proven_only(database: Database) -> None:
    with database.transaction() as connection:
        inbound.record(connection, parsed_mail(), None, "a test", NOW)
        assert is_sender_limit_reached(connection, NOW - HOUR, 1, True, ADA)
        assert not is_sender_limit_reached(connection, NOW - HOUR, 2, True, ADA)
        assert not is_sender_limit_reached(connection, NOW + HOUR, 1, True, ADA)
        assert not is_sender_limit_reached(connection, NOW - HOUR, 1, False, ADA)


def test_the_secret_of_a_login_is_known_until_it_is_used_or_too_old(database: Database) -> None:
    with database.transaction() as connection:
        sessions.record_link(connection, "secret", ADA, "/", NOW, NOW + timedelta(minutes=15))
        logs_in = sessions.find_live(connection, NOW)
        assert logs_in is not None
        assert [logs_in(word) for word in ("secret", "another")] == [True, False]
        assert sessions.find_live(connection, NOW + timedelta(hours=1)) is None
        sessions.use_link(connection, "secret", NOW)
        assert sessions.find_live(connection, NOW) is None


def test_a_mail_is_stored_with_its_request_or_not_at_all(database: Database) -> None:
    with database.transaction() as connection:
        first = Filing(raw=RawMail("text/plain", b"first \xff\x00"))
        second = Filing(raw=RawMail("text/plain", b"second"))
        mail_id = inbound.record(connection, parsed_mail(), None, "a test", NOW, first)
        assert inbound.record(connection, parsed_mail(), None, "a test", NOW, second) is None
        assert mail_id == first.mail_id
        raw = raw_mail.find(connection, first.mail_id)
        assert raw == first.raw
        assert connection.scalar(sa.text("SELECT count(*) FROM raw_mails")) == 1
        assert inbound.find(connection, second.mail_id) is None


# --- arrivals -------------------------------------------------------------------------------------


@contextmanager
def counting(shop: Harness) -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if "inbound_mails" in statement:
            said.append(statement)

    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield said
    sa.event.remove(engine, "before_cursor_execute", note)


@pytest.fixture
def arrivals() -> Arrivals:
    return Arrivals()


def asked(shop: Harness, arrivals: Arrivals, most: int, after: timedelta = timedelta(0)) -> bool:
    with shop.live.database.snapshot() as connection:
        return arrivals.is_limit_reached(connection, shop.live.now() + after, most, proven=True)


def test_far_from_the_limit_a_share_is_let_in_before_the_next_count(
    shop: Harness, arrivals: Arrivals
) -> None:
    with counting(shop) as said:
        assert not any(asked(shop, arrivals, 10 * SHARE) for _ in range(11))
        assert len(said) == 1  # and ten more let in
        assert not asked(shop, arrivals, 10 * SHARE)
        assert len(said) == 2


@pytest.mark.parametrize("after", [KEPT, -timedelta(seconds=2)])
def test_what_was_counted_holds_for_a_minute_and_not_if_the_clock_goes_back(
    shop: Harness, arrivals: Arrivals, after: timedelta
) -> None:
    with counting(shop) as said:
        asked(shop, arrivals, 1000)
        asked(shop, arrivals, 1000, after=timedelta(seconds=1))
        assert len(said) == 1
        asked(shop, arrivals, 1000, after=after)
        assert len(said) == 2


def test_of_a_flood_that_goes_on_only_the_excess_is_throttled(shop: Harness) -> None:
    clock = shop.live.now()
    shop.live = replace(shop.live, limits=Limits(mails_per_hour=3), now=lambda: clock)
    services.bind(shop.live)
    for number in range(24):  # one in ten minutes: six an hour, of which three may
        shop.write("Hello", from_address=f"c{number}@example.com")
        clock += timedelta(minutes=10)
    rows = shop.rows("SELECT status FROM inbound_mails ORDER BY received_at")
    let_in = [row.status == "unanswered" for row in rows]
    assert [sum(let_in[hour : hour + 6]) for hour in range(0, 24, 6)] == [3, 3, 3, 3]
