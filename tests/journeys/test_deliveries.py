"""What becomes of our mail after it left: bounces, complaints, and who is asked or told instead."""

from __future__ import annotations

import pytest

from mailagent.demo.inbound_parse import build_body
from tests.cast import ADA, MAX, MONA, TESS, big_order
from tests.journeys.test_refunds import decide, link_in
from tests.stage import Stage, letter, wait_until

QUESTION = "Which orders of mine do you have? I forgot the number."


def test_an_undelivered_approval_request_goes_to_the_next_manager(busy_shop: Stage) -> None:
    busy_shop.stock(big_order())
    busy_shop.write("The standing desk of order W2001 is damaged, please refund it.")
    (to_mona,) = busy_shop.wait_for_mails(MONA)
    for _ in range(2):  # events repeat
        assert busy_shop.report(to_mona, "bounce").status_code == 200
    (to_max,) = busy_shop.wait_for_mails(MAX)
    decide(busy_shop, link_in(to_max.text), "approve")
    assert busy_shop.wait_for_refund("paid").decided_by == MAX
    assert len(busy_shop.mails_to(MAX)) == 1


def test_when_no_manager_can_be_reached_the_team_is_told(busy_shop: Stage) -> None:
    busy_shop.stock(big_order())
    busy_shop.write("The standing desk of order W2001 is damaged, please refund it.")
    busy_shop.report(busy_shop.wait_for_mails(MONA)[0], "dropped")
    busy_shop.report(busy_shop.wait_for_mails(MAX)[0], "bounce")
    (told,) = busy_shop.wait_for_mails(TESS)
    assert f"A mail to {MAX} did not arrive" in told.subject


@pytest.mark.parametrize("event", ["bounce", "spamreport", "dropped"])
def test_an_answer_that_did_not_arrive_is_the_teams(busy_shop: Stage, event: str) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.report(answer, event)
    (told,) = busy_shop.wait_for_mails(TESS)
    assert "did not arrive" in told.subject
    (row,) = busy_shop.rows("SELECT status FROM outbound_mails WHERE purpose = 'reply'")
    assert row.status == "undelivered"


def test_after_a_hard_bounce_nothing_more_is_sent_there(busy_shop: Stage) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.report(answer, "bounce")
    busy_shop.wait_for_mails(TESS)
    busy_shop.write("Hello again, which orders do I have?")
    told = busy_shop.wait_for_mails(TESS, 2)
    assert "was not sent" in told[1].subject
    assert len(busy_shop.mails_to(ADA)) == 1


def test_a_deferral_is_no_reason_to_worry(busy_shop: Stage) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.report(answer, "deferred")
    busy_shop.report(answer, "delivered")
    wait_until(lambda: len(busy_shop.rows("SELECT * FROM delivery_events")) == 2, 10, "both events")
    assert busy_shop.mails_to(TESS) == []


def bounce_mail(message_id: str, status: str) -> bytes:
    """A bounce as a mail server writes it, returning one of our mails."""
    report = (
        "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n"
        "--b\nContent-Type: text/plain\n\nYour mail could not be delivered.\n"
        "--b\nContent-Type: message/delivery-status\n\n"
        "Reporting-MTA: dns; mx.example.com\n\n"
        f"Final-Recipient: rfc822; {ADA}\nAction: failed\nStatus: {status}\n\n"
        f"--b\nContent-Type: message/rfc822\n\nMessage-ID: <{message_id}>\nSubject: x\n\nx\n--b--\n"
    )
    body = build_body(letter("PLACE", from_address="mailer-daemon@example.com", from_name="MD"))
    start = (
        body.index(b"MIME-Version:")
        if b"MIME-Version:" in body
        else body.index(b"Content-Type: text")
    )
    end = body.index(b"\r\n--xYzZY", start)
    return body[:start] + b"MIME-Version: 1.0\n" + report.encode() + body[end:]


@pytest.mark.parametrize(("status", "undelivered"), [("5.1.1", True), ("4.2.2", False)])
def test_a_bounce_by_mail_counts_like_an_event(
    busy_shop: Stage, status: str, undelivered: bool
) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    assert answer.message_id is not None
    response = busy_shop.post_inbound(bounce_mail(answer.message_id, status))
    assert response.status_code == 200
    (bounce,) = busy_shop.rows("SELECT * FROM inbound_mails WHERE kind = 'bounce'")
    assert bounce.status == "no_answer"
    (event,) = busy_shop.rows("SELECT * FROM delivery_events")
    assert event.event == ("bounce" if undelivered else "deferred")
    if undelivered:
        assert "did not arrive" in busy_shop.wait_for_mails(TESS)[0].subject
