"""What bounces say, in the standard form and in free words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.mime.bounce import ReportPart, read_bounce
from mailagent.domain.mail.delivery import Bounce, FailedRecipient
from tests.cast import ADA
from tests.growth import assert_linear

STATUS = b"""Reporting-MTA: dns; mx.example.com
Arrival-Date: Fri, 20 Nov 2026 11:00:00 +0100

Final-Recipient: rfc822; <Ada@Example.com>
Action: Failed
Status: 5.1.1 (no such mailbox)
Diagnostic-Code: smtp; 550 no such mailbox

Final-Recipient: rfc822;grace@example.org
Action: delayed
Status: 4.4.1
"""
RETURNED = b"From: support@shop.example\nMessage-ID: <o-1@shop.example>\n\nHello Ada"


def test_a_delivery_status_notification_is_read() -> None:
    parts = [ReportPart("message/delivery-status", STATUS), ReportPart("message/rfc822", RETURNED)]
    assert read_bounce({}, parts, "Sorry") == Bounce(
        (
            FailedRecipient(ADA, "failed", "5.1.1"),
            FailedRecipient("grace@example.org", "delayed", "4.4.1"),
        ),
        "o-1@shop.example",
    )


@pytest.mark.parametrize(
    ("text", "recipient"),
    [
        (
            "Sorry.\n<ada@example.com>:\n192.0.2.1 said: 550 5.1.1 unknown\n",
            FailedRecipient(ADA, "failed", "5.1.1"),
        ),
        (
            "ada@example.com\n  host mx said: 452 quota exceeded",
            FailedRecipient(ADA, "failed", "4.0.0"),
        ),
        (
            "User ada@example.com is unknown here: no such user",
            FailedRecipient(ADA, "failed", "5.1.1"),
        ),
        (
            "Your mail to ada@example.com was not delivered.",
            FailedRecipient(ADA, "failed", "5.0.0"),
        ),
        (
            "THIS IS A WARNING MESSAGE ONLY.\nYour mail to ada@example.com has been delayed.",
            FailedRecipient(ADA, "failed", "4.0.0"),
        ),
        (
            "ada@example.com\nThe mailbox is full; the mail was returned.",
            FailedRecipient(ADA, "failed", "5.2.2"),
        ),
        ("The following addresses had permanent errors:", FailedRecipient("", "failed", "5.0.0")),
    ],
)
def test_a_bounce_in_free_words_is_read(text: str, recipient: FailedRecipient) -> None:
    returned = "\n--- Below this line is a copy of the message.\n\nFrom: support@shop.example\n"
    returned += "Message-ID: <o-1@shop.example>\nTo: ada@example.com, max@shop.example\n"
    assert read_bounce({}, [], text + returned) == Bounce((recipient,), "o-1@shop.example")


def test_a_notice_that_may_be_a_persons_is_no_failure_without_words_of_one() -> None:
    away = "I am away until Monday. Write to grace@example.org meanwhile."
    found = read_bounce({}, [], away, is_notice=False)
    assert [one.permanent for one in found.recipients] == [False]


@pytest.mark.parametrize(("action", "status"), [("failed", "5.0.0"), ("delayed", "4.0.0")])
def test_the_action_tells_what_a_report_without_status_means(action: str, status: str) -> None:
    report = f"Final-Recipient: rfc822; {ADA}\nAction: {action}\n".encode()
    found = read_bounce({}, [ReportPart("message/delivery-status", report)], "")
    assert found.recipients == (FailedRecipient(ADA, action, status),)


def test_failed_recipients_may_stand_in_a_header() -> None:
    found = read_bounce({"x-failed-recipients": (f"{ADA}, grace@example.org",)}, [], "550 no")
    assert [one.address for one in found.recipients] == [ADA, "grace@example.org"]


def test_headers_of_the_returned_mail_alone_are_enough() -> None:
    found = read_bounce({}, [ReportPart("text/rfc822-headers", RETURNED.split(b"\n\n")[0])], "")
    assert found == Bounce((), "o-1@shop.example")


@pytest.mark.parametrize(
    ("action", "status", "permanent"),
    [
        ("failed", "5.1.1", True),
        ("", "5.0.0", True),
        ("failed", "4.2.2", False),
        ("failed", "", False),
        ("delayed", "5.1.1", False),
        ("delivered", "2.1.5", False),
    ],
)
def test_only_a_final_failure_is_permanent(action: str, status: str, permanent: bool) -> None:
    assert FailedRecipient(ADA, action, status).permanent is permanent


def test_both_names_of_a_recipient_are_read() -> None:
    status = (
        b"Original-Recipient: rfc822; Ada@Example.com\n"
        b"Final-Recipient: rfc822; a17@mx.example.com\nAction: failed\nStatus: 5.1.1\n"
    )
    (one,) = read_bounce({}, [ReportPart("message/delivery-status", status)], "").recipients
    assert one == FailedRecipient("a17@mx.example.com", "failed", "5.1.1", ADA)


FINAL = FailedRecipient(ADA, "failed", "5.1.1")
MOVED = FailedRecipient("a17@mx.example.com", "failed", "5.1.1", ADA)
OTHER = FailedRecipient("grace@example.org", "failed", "5.1.1")
NAMELESS = FailedRecipient("", "failed", "5.1.1")


@pytest.mark.parametrize(
    ("recipients", "of_ada"),
    [
        ((FINAL, OTHER), (FINAL,)),
        ((MOVED,), (MOVED,)),
        ((OTHER,), None),
        ((OTHER, NAMELESS), None),
        ((NAMELESS,), (NAMELESS,)),
        ((), ()),
    ],
)
def test_a_bounce_speaks_of_those_it_names(
    recipients: tuple[FailedRecipient, ...], of_ada: tuple[FailedRecipient, ...] | None
) -> None:
    assert Bounce(recipients).of(ADA) == of_ada


@given(st.binary(), st.binary(), st.text())
def test_no_bytes_raise(status: bytes, returned: bytes, text: str) -> None:
    parts = [ReportPart("message/delivery-status", status), ReportPart("message/rfc822", returned)]
    read_bounce({"x-failed-recipients": (text,)}, parts, text)


@pytest.mark.parametrize(
    "piece", ["a@", "a@b.example ", "\n", "1.1", "user ", "message-id: <", "4 5", "exceed"]
)
def test_hostile_reports_take_linear_time(piece: str) -> None:
    def read(text: str) -> None:
        read_bounce({}, [ReportPart("message/delivery-status", text.encode())], text)

    assert_linear(read, piece, 4_000)
