"""The Event Webhook's JSON, as SendGrid sends it and as it had better not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mailagent.adapters.sendgrid.events import parse_events
from mailagent.domain.mail.delivery import DeliveryEvent, DeliveryKind

BOUNCE: dict[str, Any] = {
    "email": "ada@example.com",
    "timestamp": 1_795_255_200,
    "outbound_id": "o_17",
    "event": "bounce",
    "type": "bounce",
    "status": "5.1.1",
    "reason": "550 5.1.1 no such\r\n mailbox",
    "smtp-id": "<x@geopod-ismtpd-0>",
    "sg_event_id": "first",
    "sg_message_id": "abc.recvd-0.0",
    "tls": 1,
}


def body(*rows: object) -> bytes:
    """As on the wire: CRLF after every event."""
    return ("[" + ",\r\n".join(json.dumps(row) for row in rows) + "]\r\n").encode()


def one(**changes: object) -> DeliveryEvent:
    (event,) = parse_events(body(BOUNCE | changes))
    return event


def test_an_event_says_which_mail_what_why_and_when() -> None:
    event = one()
    assert event.outbound_id == "o_17"
    assert event.event is DeliveryKind.BOUNCE
    assert event.reason == "550 5.1.1 no such mailbox"
    assert event.occurred_at == datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x9f", "\ud800"])
def test_a_reason_is_kept_without_control_characters(character: str) -> None:
    assert one(reason=f"550 {character}no").reason == "550 no"


@pytest.mark.parametrize(
    ("name", "not_reached"),
    [
        ("processed", False),
        ("deferred", False),
        ("delivered", False),
        ("bounce", True),
        ("dropped", True),
        ("spamreport", True),
    ],
)
def test_every_event_that_we_use_is_read(name: str, not_reached: bool) -> None:
    event = one(event=name)
    assert event.event == name
    assert event.event.not_reached is not_reached


def test_a_block_is_no_bounce_although_it_comes_as_one() -> None:
    event = one(type="blocked", status="4.7.1", reason="421 4.7.1 try later")
    assert event.event is DeliveryKind.BLOCKED
    assert event.event.not_reached


@pytest.mark.parametrize("type_", ["bounce", "expired", None, ["blocked"]])
def test_a_bounce_of_another_type_stays_one(type_: object) -> None:
    assert one(type=type_).event is DeliveryKind.BOUNCE


@pytest.mark.parametrize(
    "changes",
    [
        {"event": "open"},
        {"event": "click"},
        {"event": "group_unsubscribe"},
        {"event": "something new"},
        {"event": None},
        {"event": ["bounce"]},
        {"outbound_id": None},
        {"outbound_id": ""},
        {"outbound_id": 17},
        {"outbound_id": "o_\x0017"},
        {"outbound_id": "o_17\ud800"},
        {"timestamp": None},
        {"timestamp": True},
        {"timestamp": "soon"},
        {"timestamp": 1e300},
        {"timestamp": [1]},
    ],
)
def test_what_we_cannot_use_is_left_out_and_spoils_nothing(changes: dict[str, object]) -> None:
    events = parse_events(body(BOUNCE | changes, "text", None, BOUNCE))
    assert [event.outbound_id for event in events] == ["o_17"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"event": "dropped", "reason": "Bounced Address"}, "Bounced Address"),
        ({"event": "deferred", "reason": None, "response": "450 later"}, "450 later"),
        ({"reason": "", "status": "5.0.0"}, "5.0.0"),
        ({"reason": None, "status": None}, None),
    ],
)
def test_the_reason_is_in_the_words_of_the_other_side(
    row: dict[str, object], reason: str | None
) -> None:
    assert one(**row).reason == reason


def test_the_same_event_again_has_the_same_key_although_its_event_id_is_another() -> None:
    assert one(sg_event_id="second", tls=0).key == one().key


@pytest.mark.parametrize(
    "changes",
    [
        {"sg_message_id": "other"},
        {"event": "dropped"},
        {"email": "grace@example.org"},
        {"timestamp": 1_795_255_201},
        {"reason": "mailbox full"},
        {"response": "other"},
        {"outbound_id": "o_18"},
    ],
)
def test_another_event_has_another_key(changes: dict[str, object]) -> None:
    assert one(**changes).key != one().key


def test_late_bounces_of_two_mails_have_two_keys_although_both_lack_a_message_id() -> None:
    assert one(sg_message_id=None).key != one(sg_message_id=None, outbound_id="o_18").key


def test_a_timestamp_written_as_text_is_taken() -> None:
    assert one(timestamp="1795255200").occurred_at == one().occurred_at


@pytest.mark.parametrize(
    "broken",
    [b"", b"not json", b"[", b'{"event": "bounce"}', b"null", b"\xff\xfe\xff", b"[" * 100_000],
    ids=["empty", "words", "cut off", "an object", "null", "not text", "nested too deep"],
)
def test_a_body_that_is_no_array_is_refused_in_words(broken: bytes) -> None:
    with pytest.raises(ValueError, match="the event webhook's body is"):
        parse_events(broken)


def test_an_empty_batch_is_fine() -> None:
    assert parse_events(b"[]\r\n") == ()
