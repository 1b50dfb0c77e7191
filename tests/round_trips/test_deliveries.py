"""What becomes of our mail after it left: bounces, complaints, and who is asked or told instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mailagent import services
from mailagent.demo.fakes.webhooks import build_body
from mailagent.store.mail import suppressions
from tests.cast import ADA, DESK_WISH, GRACE, MAX, MONA, TESS, big_order
from tests.harness import Harness, letter, post_form, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet

OLGA = "olga@shop.example"

QUESTION = "Which orders of mine do you have? I forgot the number."


def test_an_undelivered_approval_request_goes_to_the_next_manager(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    (to_mona,) = busy_shop.wait_for_mails(MONA)
    for _ in range(2):  # events repeat
        assert busy_shop.report(to_mona, "bounce").status_code == 200
    (to_max,) = busy_shop.wait_for_mails(MAX)
    decide(busy_shop, link_in(to_max.text), "approve")
    assert busy_shop.wait_for_refund("paid").decided_by == MAX
    wait_for_quiet(busy_shop)
    assert len(busy_shop.mails_to(MAX)) == 1


def test_when_no_manager_can_be_reached_the_team_is_told(busy_shop: Harness) -> None:
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    busy_shop.report(busy_shop.wait_for_mails(MONA)[0], "dropped")
    busy_shop.report(busy_shop.wait_for_mails(MAX)[0], "bounce")
    (told,) = busy_shop.wait_for_mails(TESS)
    assert f"A mail to {MAX} did not arrive" in told.subject


@pytest.mark.parametrize("event", ["bounce", "spamreport", "dropped"])
def test_an_answer_that_did_not_arrive_is_the_teams(busy_shop: Harness, event: str) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.report(answer, event)
    (told,) = busy_shop.wait_for_mails(TESS)
    assert "did not arrive" in told.subject
    (row,) = busy_shop.rows("SELECT status FROM outbound_mails WHERE purpose = 'reply'")
    assert row.status == "undelivered"


def test_spam_in_the_name_of_addresses_that_do_not_exist_is_no_news_for_the_team(
    busy_shop: Harness,
) -> None:
    stranger = "nobody@spam.example"
    busy_shop.write("Cheap watches", from_address=stranger, subject="Watches", aligned=False)
    (asked,) = busy_shop.wait_for_mails(stranger)
    busy_shop.report(asked, "bounce")
    wait_until(lambda: len(suppressed(busy_shop)) == 1, 20, "the bounce to be dealt with")
    busy_shop.write("Cheap shoes", from_address=stranger, subject="Shoes", aligned=False)
    wait_until(busy_shop.at_rest, 20, "the mails to be dealt with")
    assert busy_shop.mails_to(TESS) == []


def test_a_strangers_link_in_a_notice_is_no_link(busy_shop: Harness) -> None:
    busy_shop.write("Hi", subject="Your session ended: https://evil.example/login")
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.report(answer, "bounce", reason="550 see https://evil.example/reason")
    (told,) = busy_shop.wait_for_mails(TESS)
    assert "https[:]//evil[.]example/login" in told.text
    assert "https://evil.example" not in told.text + str(told.html)


def test_after_a_hard_bounce_nothing_more_is_sent_there(busy_shop: Harness) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.report(answer, "bounce")
    busy_shop.wait_for_mails(TESS)
    busy_shop.write("Hello again, which orders do I have?")
    told = busy_shop.wait_for_mails(TESS, 2)
    assert "was not sent" in told[1].subject
    assert len(busy_shop.mails_to(ADA)) == 1


def test_a_blocked_answer_is_the_teams_and_later_mail_goes_there_again(busy_shop: Harness) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.report(answer, "bounce", type="blocked", reason="421 4.7.1 try later")
    (told,) = busy_shop.wait_for_mails(TESS)
    assert "did not arrive" in told.subject
    assert "Why: blocked: 421 4.7.1 try later" in told.text
    busy_shop.write("Hello again, which orders do I have?")
    busy_shop.wait_for_mails(ADA, 2)
    assert suppressed(busy_shop) == []


def test_a_deferral_is_no_reason_to_worry(busy_shop: Harness) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.report(answer, "deferred")
    busy_shop.report(answer, "delivered")
    wait_until(lambda: len(busy_shop.rows("SELECT * FROM delivery_events")) == 2, 10, "both events")
    wait_for_quiet(busy_shop)
    assert busy_shop.mails_to(TESS) == []


# --- addresses that nothing is sent to ------------------------------------------------------------


def suppress(shop: Harness, *addresses: str) -> None:
    with shop.live.database.transaction() as connection:
        for address in addresses:
            suppressions.suppress(
                connection, address, "bounce: 5.2.2 mailbox full", shop.live.now()
            )


def suppressed(shop: Harness) -> list[str]:
    return [row.address for row in shop.rows("SELECT address FROM suppressed_addresses")]


def ask_a_manager(shop: Harness, order_id: str = "W2001") -> None:
    shop.stock(big_order(order_id))
    shop.write(f"The standing desk of order {order_id} is damaged, please refund it.")


def test_a_customer_who_becomes_a_manager_is_asked(busy_shop: Harness) -> None:
    suppress(busy_shop, MONA)
    ask_a_manager(busy_shop)
    (to_mona,) = busy_shop.wait_for_mails(MONA)
    decide(busy_shop, link_in(to_mona.text), "approve")
    assert busy_shop.wait_for_refund("paid").decided_by == MONA
    wait_for_quiet(busy_shop)
    assert busy_shop.mails_to(MAX) == []


def test_people_of_the_shop_who_were_customers_get_mail(shop: Harness) -> None:
    suppress(shop, TESS, OLGA, ADA)
    with running(with_ops(shop)):
        shop.write("This is outrageous! I want to talk to a human being, now!")
        shop.wait_for_mails(TESS)
        post_form(shop.client, "/ops/login", email=OLGA)
        shop.wait_for_mails(OLGA)
        wait_until(shop.at_rest, 20, "the mails to be dealt with")
        assert shop.mails_to(ADA) == []


@pytest.mark.parametrize("event", ["bounce", "spamreport"])
def test_a_manager_whose_mail_came_back_is_asked_again_the_day_after(
    busy_shop: Harness, event: str
) -> None:
    ask_a_manager(busy_shop)
    busy_shop.report(busy_shop.wait_for_mails(MONA)[0], event)
    busy_shop.wait_for_mails(MAX)
    assert suppressed(busy_shop) == []
    then = busy_shop.live.now() + busy_shop.live.waits.manager_absence
    services.bind(replace(busy_shop.live, now=lambda: then))
    ask_a_manager(busy_shop, "W2002")
    requests = [mail for mail in busy_shop.wait_for_mails(MONA, 2) if "W2002" in mail.subject]
    assert len(requests) == 1


def test_a_case_that_the_team_does_not_get_is_told_to_the_managers(busy_shop: Harness) -> None:
    busy_shop.write("This is outrageous! I want to talk to a human being, now!")
    busy_shop.report(busy_shop.wait_for_mails(TESS)[0], "bounce")
    (told,) = busy_shop.wait_for_mails(MONA)
    assert f"A mail to {TESS} did not arrive" in told.subject
    assert len(busy_shop.wait_for_mails(MAX)) == 1


def with_ops(shop: Harness) -> Harness:
    people = replace(shop.live.shop, ops_emails=(OLGA,))
    shop.live = replace(shop.live, shop=people)
    services.bind(shop.live)
    return shop


def test_a_notice_that_is_lost_goes_from_circle_to_circle(shop: Harness) -> None:
    with running(with_ops(shop)):
        shop.write(QUESTION)
        shop.report(shop.wait_for_mails(ADA)[0], "bounce")
        shop.report(shop.wait_for_mails(TESS)[0], "bounce")
        (to_mona,), (to_max,) = shop.wait_for_mails(MONA), shop.wait_for_mails(MAX)
        shop.report(to_mona, "dropped")
        shop.report(to_max, "spamreport")
        (to_olga,) = shop.wait_for_mails(OLGA)
        assert to_olga.subject == to_mona.subject == to_max.subject
        assert ADA in to_olga.subject
        assert suppressed(shop) == [ADA]
        shop.report(to_olga, "bounce")
        wait_until(lambda: nobody_was_left(shop), 20, "the end of it to be on record")
        assert len(shop.mails_to(TESS)) == 1


def test_a_notice_that_one_of_two_has_got_goes_no_further(shop: Harness) -> None:
    with running(with_ops(shop)):
        shop.write("This is outrageous! I want to talk to a human being, now!")
        shop.report(shop.wait_for_mails(TESS)[0], "bounce")
        (to_mona,) = shop.wait_for_mails(MONA)
        shop.wait_for_mails(MAX)
        shop.report(to_mona, "bounce")
        wait_until(
            lambda: (
                len(shop.rows("SELECT 1 FROM outbound_mails WHERE status = 'undelivered'")) == 2
            ),
            20,
            "both bounces to be acted on",
        )
        assert shop.rows("SELECT 1 FROM outbound_mails WHERE to_address = :a", a=OLGA) == []
        assert not nobody_was_left(shop)


def nobody_was_left(shop: Harness) -> bool:
    return bool(shop.rows("SELECT 1 FROM audit WHERE action = 'nobody could be told'"))


def bounce_mail(message_id: str, status: str, recipient: str = ADA) -> bytes:
    """A bounce as a mail server writes it, returning one of our mails."""
    report = (
        "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n"
        "--b\nContent-Type: text/plain\n\nYour mail could not be delivered.\n"
        "--b\nContent-Type: message/delivery-status\n\n"
        "Reporting-MTA: dns; mx.example.com\n\n"
        f"Final-Recipient: rfc822; {recipient}\nAction: failed\nStatus: {status}\n\n"
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
    busy_shop: Harness, status: str, undelivered: bool
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


def test_a_bounce_that_names_somebody_else_changes_nothing(busy_shop: Harness) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.post_inbound(bounce_mail(str(answer.message_id), "5.1.1", GRACE))
    assert busy_shop.rows("SELECT 1 FROM delivery_events") == []
    (noted,) = busy_shop.rows("SELECT * FROM audit WHERE action = 'bounce disregarded'")
    (row,) = busy_shop.rows("SELECT * FROM outbound_mails WHERE purpose = 'reply'")
    assert noted.subject == row.outbound_id
    busy_shop.write("Hello again, which orders do I have?")
    busy_shop.wait_for_mails(ADA, 2)
    assert suppressed(busy_shop) == []
    assert busy_shop.mails_to(TESS) == []


def test_a_bounce_by_mail_silences_nobody_until_an_event_says_so(busy_shop: Harness) -> None:
    busy_shop.write(QUESTION)
    (answer,) = busy_shop.wait_for_mails(ADA)
    busy_shop.post_inbound(bounce_mail(str(answer.message_id), "5.1.1"))
    busy_shop.wait_for_mails(TESS)
    assert suppressed(busy_shop) == []
    busy_shop.write("Hello again, which orders do I have?")
    busy_shop.wait_for_mails(ADA, 2)
    busy_shop.report(answer, "bounce")
    wait_until(lambda: suppressed(busy_shop) == [ADA], 20, "the signed event to be acted on")
