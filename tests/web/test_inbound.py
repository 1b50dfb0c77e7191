"""The inbound webhook: stored before 200, the same mail once, nothing wanted ever answered 3xx or 4xx."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import sqlalchemy as sa
from werkzeug.test import EnvironBuilder

from mailagent import services
from mailagent.adapters.sendgrid.signature import SIGNATURE_HEADER, TIMESTAMP_HEADER
from mailagent.demo.fakes.webhooks import BOUNDARY, CONTENT_TYPE, build_body
from mailagent.domain.mail.conversation import Limits
from mailagent.store.console import sessions
from mailagent.web.webhooks import approval_reply, threading
from tests.adapters.parse_requests import letter as plain_letter
from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, GRACE, MALLORY, SUPPORT, TESS
from tests.harness import Harness, letter, pass_time
from tests.workflows.trouble import is_sqlite

pytestmark = pytest.mark.both_databases


def counts(shop: Harness) -> tuple[int, int, int, int]:
    """Return how many mails, raw mails, conversations and queued runs there are."""
    schema = "" if is_sqlite(shop) else "dbos."
    tables = ("inbound_mails", "raw_mails", "conversations", f"{schema}workflow_status")
    one, two, three, four = (
        int(shop.rows(f"SELECT count(*) FROM {table}")[0][0]) for table in tables
    )
    return one, two, three, four


def test_a_mail_is_stored_whole_and_enqueued(shop: Harness) -> None:
    body = build_body(letter("My kettle arrived broken."))
    response = shop.post_inbound(body)
    assert (response.status_code, response.text) == (200, "stored\n")
    assert counts(shop) == (1, 1, 1, 1)
    (stored,) = shop.rows("SELECT body FROM raw_mails")
    assert bytes(stored.body) == body
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert (mail.from_address, mail.status, mail.identity) == (ADA, "unanswered", "dkim")
    assert mail.new_text.strip() == "My kettle arrived broken."
    (thread,) = shop.rows("SELECT * FROM conversations")
    assert (thread.customer_email, thread.status) == (ADA, "open")
    assert thread.opened_at == thread.last_mail_at == mail.received_at
    assert len({thread.reply_token, thread.confirm_token, thread.team_token}) == 3


def test_the_same_mail_again_is_thanked_for_and_not_stored(shop: Harness) -> None:
    written = letter("Hello")
    again = replace(written, mail_number="another-received-line")
    shop.post_inbound(build_body(written))
    response = shop.post_inbound(build_body(again))
    assert (response.status_code, response.text) == (200, "known already\n")
    assert counts(shop) == (1, 1, 1, 1)


def test_one_mail_delivered_many_times_at_once_is_one_row(shop: Harness) -> None:
    body = build_body(letter("Hello"))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: shop.post_inbound(body).status_code, range(8)))
    assert answers == [200] * 8
    assert counts(shop) == (1, 1, 1, 1)


REPLAYED = """From: Ada <ada@example.com>
To: support@shop.example
Subject: My order
Date: {date}
Message-ID: <m1@example.com>
DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=x; h=from:to:subject:date:message-id; bh=x; b=y
Content-Type: {content_type}

My kettle from order W1001 is broken, please refund it.
"""


def test_a_signed_mail_sent_again_by_a_stranger_proves_nothing(shop: Harness) -> None:
    date = format_datetime(shop.live.now())
    for content_type, sender in (
        ("text/plain", ADA),
        ("text/plain; charset=utf-8", MALLORY),
        ("text/plain; charset=us-ascii", ADA),
    ):
        mail = REPLAYED.format(date=date, content_type=content_type)
        shop.post_inbound(raw_request(mail, envelope_from=sender))
    rows = shop.rows("SELECT * FROM inbound_mails ORDER BY mail_id")
    assert [row.identity for row in rows] == ["dkim", "none", "spf"]
    assert [row.status for row in rows] == ["unanswered"] * 3
    assert ["known_message_id" in row.flags for row in rows] == [False, True, True]


def test_a_forwarder_proves_nobody_who_has_a_mailbox_at_the_same_provider(shop: Harness) -> None:
    """Gmail rewrites the envelope of what it forwards, so that SPF passes for each address at Gmail."""
    forged = REPLAYED.format(date=format_datetime(shop.live.now()), content_type="text/plain")
    forwarder = "oldshop+caf_=support=shop.example@example.com"
    shop.post_inbound(raw_request(forged, dkim="none", envelope_from=forwarder))
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert (mail.identity, mail.status) == ("none", "unanswered")
    assert mail.conversation_id is not None


def test_a_mail_that_came_broken_off_is_proven_when_it_comes_whole(shop: Harness) -> None:
    mail = REPLAYED.format(date=format_datetime(shop.live.now()), content_type="text/plain")
    whole = raw_request(mail)
    shop.post_inbound(whole[:-20])
    shop.post_inbound(whole)
    rows = shop.rows("SELECT * FROM inbound_mails ORDER BY mail_id")
    assert [(row.kind, row.identity) for row in rows][1] == ("customer", "dkim")
    assert rows[0].kind == "malformed"


def test_a_reused_message_id_does_not_hide_another_mail(shop: Harness) -> None:
    first = letter("Hello")
    shop.post_inbound(build_body(first))
    shop.post_inbound(build_body(letter("Something else", message_id=first.message_id)))
    assert [
        row.same_message_id for row in shop.rows("SELECT * FROM inbound_mails ORDER BY mail_id")
    ] == [0, 1]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {SIGNATURE_HEADER: "not base64!", TIMESTAMP_HEADER: "1"},
        {SIGNATURE_HEADER: "TWFsbG9yeQ==", TIMESTAMP_HEADER: "1"},
    ],
)
def test_a_bad_signature_is_503_until_a_good_one_was_seen_then_403(
    shop: Harness, headers: dict[str, str]
) -> None:
    body = build_body(letter("Hello"))
    first = shop.post_inbound(body, headers=headers)
    assert first.status_code == 503
    assert "verification key" in first.text
    assert counts(shop) == (0, 0, 0, 0)
    assert shop.post_inbound(body).status_code == 200
    forged = shop.post_inbound(build_body(letter("Pay me")), headers=headers)
    assert forged.status_code == 403
    assert counts(shop) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("hours", "most", "status"),
    [
        (0, 24, 200),
        (23.9, 24, 200),
        (24.1, 24, 503),
        (24.1, 96, 200),
        (96.1, 96, 503),
        (-0.9, 24, 200),
        (-1.1, 24, 503),
    ],
)
@pytest.mark.parametrize("webhook", ["inbound", "events"])
def test_what_was_signed_too_long_ago_is_refused_and_may_come_again(
    shop: Harness,
    caplog: pytest.LogCaptureFixture,
    webhook: str,
    hours: float,
    most: int,
    status: int,
) -> None:
    services.bind(replace(shop.live, webhook_hours=most))
    key = shop.inbound_key if webhook == "inbound" else shop.events_key
    body = build_body(letter("Hello")) if webhook == "inbound" else b"[]"
    signed_at = shop.live.now() - timedelta(hours=hours)
    answer = shop.client.post(
        f"/webhooks/sendgrid/{webhook}",
        data=body,
        content_type=CONTENT_TYPE,
        headers=key.sign(body, signed_at),
    )
    assert answer.status_code == status
    assert counts(shop)[0] == (webhook == "inbound" and status == 200)
    difference = re.search(r"a difference of (-?\d+) s.*answered 503", caplog.text)
    assert (difference is not None) == (status == 503)
    if difference:
        assert int(difference[1]) == pytest.approx(hours * 3600, abs=30)


def test_the_signature_covers_the_very_bytes(shop: Harness) -> None:
    body = build_body(letter("Hello"))
    signed = shop.inbound_key.sign(body)
    assert shop.post_inbound(body + b"\r\n", headers=signed).status_code in (403, 503)
    assert counts(shop) == (0, 0, 0, 0)


def test_a_large_photo_is_no_reason_to_lose_a_mail(shop: Harness) -> None:
    body = build_body(letter("See the photo. " + "x" * 3_000_000))
    assert shop.post_inbound(body).status_code == 200
    assert counts(shop)[0] == 1


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"nothing like a form", CONTENT_TYPE),
        (b'--xYzZY\r\nContent-Disposition: form-data; name="email"\r\n\r\nFrom: a', CONTENT_TYPE),
        (b"{}", "application/json"),
        (b"a=b", "application/x-www-form-urlencoded"),
        (b"\xff\xfe\x00", ""),
    ],
)
def test_what_cannot_be_read_is_kept_and_thanked_for(
    shop: Harness, body: bytes, content_type: str
) -> None:
    response = shop.post_inbound(body, content_type)
    assert response.status_code == 200
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert (mail.kind, mail.status, mail.conversation_id) == ("malformed", "no_answer", None)
    assert mail.no_answer_reason
    assert bytes(shop.rows("SELECT body FROM raw_mails")[0].body) == body


def test_a_truncated_mail_is_kept_as_malformed(shop: Harness) -> None:
    body = build_body(letter("Hello"))
    shop.post_inbound(body[: len(body) // 2])
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert mail.kind == "malformed"
    assert shop.post_inbound(body).status_code == 200  # and the whole one is not taken for it
    assert counts(shop)[0] == 2


def test_a_request_that_breaks_off_is_to_be_delivered_again(shop: Harness) -> None:
    body = build_body(letter("Hello"))
    builder = EnvironBuilder(
        path="/webhooks/sendgrid/inbound",
        method="POST",
        data=body[:-100],
        content_type=CONTENT_TYPE,
        headers=list(shop.inbound_key.sign(body).items()),
    )
    environ = builder.get_environ()
    environ["CONTENT_LENGTH"] = str(len(body))
    response = shop.client.open(environ)
    assert response.status_code == 503
    assert counts(shop) == (0, 0, 0, 0)


def test_without_a_database_the_mail_is_left_with_sendgrid(shop: Harness) -> None:
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE raw_mails RENAME TO raw_mails_away")
    response = shop.post_inbound(build_body(letter("Hello")))
    assert response.status_code == 503
    assert counts_of_mail(shop) == 0
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE raw_mails_away RENAME TO raw_mails")
    assert shop.post_inbound(build_body(letter("Hello"))).status_code == 200


def test_what_fails_after_the_enqueue_leaves_neither_mail_nor_run(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken = []

    def fails(connection: sa.Connection, *_: object) -> None:
        woken.append(connection.scalar(sa.select(sa.func.count()).select_from(runs)))
        raise RuntimeError("the last part of the transaction fails")

    runs = sa.table("workflow_status", schema=None if is_sqlite(shop) else "dbos")
    with monkeypatch.context() as trouble:
        trouble.setattr(approval_reply, "receive", fails)
        response = shop.post_inbound(build_body(letter("Hello")))
    assert (response.status_code, woken) == (503, [1])  # it had been woken
    assert counts(shop) == (0, 0, 0, 0)
    assert shop.post_inbound(build_body(letter("Hello"))).status_code == 200
    assert counts(shop) == (1, 1, 1, 1)


FORGED: dict[str, Any] = {"dkim": "{@example.com : fail}", "spf": "fail"}


@pytest.mark.parametrize("passes", [{}, FORGED])
def test_a_sender_of_too_many_is_throttled(shop: Harness, passes: dict[str, Any]) -> None:
    shop.live = replace(shop.live, limits=Limits(mails_of_sender_per_hour=2))
    services.bind(shop.live)
    date = format_datetime(shop.live.now())
    for other in ({} if passes else FORGED, passes):  # what comes of the other sort does not count
        for number in range(4):
            name = f"<m{number}-{len(other)}@example.com>"
            mail = plain_letter(f"Mail {number}", Date=date, Message_ID=name)
            shop.post_inbound(raw_request(mail, **other))
    rows = shop.rows("SELECT status FROM inbound_mails ORDER BY mail_id")
    proven = ["unanswered", "unanswered", "throttled", "throttled"]
    forged = ["unanswered", "throttled", "throttled", "throttled"]  # one is asked to confirm
    assert [row.status for row in rows] == (proven + forged if passes else forged + proven)


def test_a_link_that_logs_in_is_cut_out(shop: Harness) -> None:
    secret, at = sessions.new_secret(), shop.live.now()
    with shop.live.database.transaction() as connection:
        sessions.record_link(connection, secret, TESS, "/ops", at, at + timedelta(minutes=15))
    shop.write(f"What is {secret}?")
    (row,) = shop.rows("SELECT body, new_text FROM inbound_mails")
    assert secret not in row.body + row.new_text
    assert "What is" in row.new_text


def counts_of_mail(shop: Harness) -> int:
    return int(shop.rows("SELECT count(*) FROM inbound_mails")[0][0])


@pytest.mark.parametrize("path", ["/webhooks/sendgrid/inbound", "/webhooks/sendgrid/inbound/"])
def test_no_redirect_ever(shop: Harness, path: str) -> None:
    body = build_body(letter("Hello"))
    response = shop.client.post(
        path, data=body, content_type=CONTENT_TYPE, headers=shop.inbound_key.sign(body)
    )
    assert response.status_code == 200


# --- threads ------------------------------------------------------------------------------------


def conversation_of(shop: Harness, subject: str) -> str:
    (row,) = shop.rows(
        "SELECT conversation_id FROM inbound_mails WHERE subject = :subject", subject=subject
    )
    return str(row.conversation_id)


def reply_address(shop: Harness, prefix: str = "case+") -> str:
    column = "reply_token" if prefix == "case+" else "confirm_token"
    (row,) = shop.rows(f"SELECT {column} FROM conversations ORDER BY opened_at LIMIT 1")
    return f"{prefix}{row[0]}@shop.example"


def test_the_reply_token_leads_into_the_thread_whatever_its_case(shop: Harness) -> None:
    shop.write("Hello", subject="first")
    shop.write("And more", subject="second", to=reply_address(shop).upper())
    assert conversation_of(shop, "second") == conversation_of(shop, "first")


def test_a_reference_leads_into_the_thread_when_the_token_is_lost(shop: Harness) -> None:
    first = shop.write("Hello", subject="first")
    shop.write("And more", subject="second", in_reply_to=first.message_id)
    assert conversation_of(shop, "second") == conversation_of(shop, "first")


def second_mail(shop: Harness, text: str = "Where is it?") -> str:
    """Return a mail that goes on in the thread of the first letter, to be delivered to several addresses."""
    (first,) = shop.rows("SELECT message_id FROM inbound_mails")
    return (
        REPLAYED.format(date=format_datetime(shop.live.now()), content_type="text/plain")
        .replace("<m1@", "<both@")
        .replace("Subject:", f"References: <{first.message_id}>\nSubject:")
        .replace("My kettle from order W1001 is broken, please refund it.", text)
    )


def answers(shop: Harness) -> list[tuple[str, str | None]]:
    """Return the status of the mails after the first letter, and why they get no answer."""
    query = "SELECT status, no_answer_reason FROM inbound_mails ORDER BY received_at, mail_id"
    return [(row.status, row.no_answer_reason) for row in shop.rows(query)[1:]]


ANSWERED, COPY = ("unanswered", None), ("no_answer", threading.CAME_BEFORE)


@pytest.mark.parametrize("reply_first", [True, False])
def test_a_mail_to_two_of_our_addresses_is_answered_once(shop: Harness, reply_first: bool) -> None:
    shop.write("Hello")
    mail, doors = second_mail(shop), [reply_address(shop), SUPPORT]
    for to in doors if reply_first else reversed(doors):
        shop.post_inbound(raw_request(mail, envelope_to=[to]))
    assert answers(shop) == [ANSWERED, COPY]
    assert counts(shop) == (3, 3, 1, 2)


def test_a_mail_to_two_of_our_addresses_at_once_is_answered_once(shop: Harness) -> None:
    shop.write("Hello")
    mail = second_mail(shop)
    bodies = [raw_request(mail, envelope_to=[to]) for to in (reply_address(shop), SUPPORT)]
    with ThreadPoolExecutor(2) as pool:
        assert [each.status_code for each in pool.map(shop.post_inbound, bodies)] == [200, 200]
    assert sorted(answers(shop)) == sorted([ANSWERED, COPY])


def test_a_forged_copy_that_comes_first_does_not_silence_the_customer(shop: Harness) -> None:
    shop.write("Hello")
    mail = second_mail(shop)
    shop.post_inbound(raw_request(mail, dkim="none", spf="fail", envelope_to=[SUPPORT]))
    shop.post_inbound(raw_request(mail, envelope_to=[reply_address(shop)]))
    assert answers(shop)[1] == ANSWERED


@pytest.mark.parametrize("reply_first", [True, False])
def test_a_customer_who_cannot_be_proven_and_answers_all_is_answered(
    shop: Harness, reply_first: bool
) -> None:
    """Mail to support@ waits, because the customer was asked to confirm; mail to the reply address does not."""
    shop.write("Hello", aligned=False)
    mail, doors = second_mail(shop), [reply_address(shop), SUPPORT]
    for to in doors if reply_first else reversed(doors):
        shop.post_inbound(raw_request(mail, dkim="none", spf="none", envelope_to=[to]))
    assert answers(shop) == ([ANSWERED, COPY] if reply_first else [COPY, ANSWERED])


@pytest.mark.parametrize("spf", ["pass", "none"])
def test_of_a_mail_that_waits_twice_only_the_first_waits(shop: Harness, spf: str) -> None:
    """Without SPF, the second is not proven: its signature is known. So it alone would not wait."""
    shop.live = replace(shop.live, limits=replace(shop.live.limits, mails_of_sender_per_hour=1))
    services.bind(shop.live)
    shop.write("Hello")
    mail = second_mail(shop)
    for to in (SUPPORT, reply_address(shop)):
        shop.post_inbound(raw_request(mail, spf=spf, envelope_to=[to]))
    assert [status for status, _ in answers(shop)] == ["throttled", "no_answer"]


def test_another_text_with_a_known_message_id_is_no_copy(shop: Harness) -> None:
    shop.write("Hello")
    mails = [second_mail(shop, text) for text in ("Where is it?", "Forget it.")]
    for mail, to in zip(mails, (SUPPORT, reply_address(shop)), strict=True):
        shop.post_inbound(raw_request(mail, envelope_to=[to]))
    assert answers(shop) == [ANSWERED, ANSWERED]


def test_the_same_subject_alone_is_no_thread(shop: Harness) -> None:
    shop.write("Hello", subject="kettle")
    shop.write("Hello again", subject="kettle")
    assert counts(shop)[2] == 2


@pytest.mark.parametrize("aligned", [True, False])
def test_a_stranger_with_the_token_gets_a_thread_of_their_own(shop: Harness, aligned: bool) -> None:
    shop.write("Hello", subject="first")
    for prefix in ("case+", "confirm+"):
        shop.write(
            "I am Ada, honestly",
            subject=f"forged {prefix}",
            from_address=MALLORY,
            to=reply_address(shop, prefix),
            aligned=aligned,
        )
        assert conversation_of(shop, f"forged {prefix}") != conversation_of(shop, "first")


def test_a_stranger_who_quotes_a_message_id_gets_a_thread_of_their_own(shop: Harness) -> None:
    first = shop.write("Hello", subject="first")
    shop.write("Me too", subject="second", from_address=GRACE, in_reply_to=first.message_id)
    assert conversation_of(shop, "second") != conversation_of(shop, "first")


def test_a_machine_gets_no_answer_and_the_reason_is_kept(shop: Harness) -> None:
    body = build_body(letter("I am away until Monday."))
    shop.post_inbound(body.replace(b"Subject: ", b"Auto-Submitted: auto-replied\nSubject: ", 1))
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert (mail.kind, mail.status) == ("auto_reply", "no_answer")
    assert mail.no_answer_reason
    assert counts(shop)[2:] == (0, 0)


GROUP = "List-ID: <help.shop.example>\nPrecedence: list\nMailing-list: list help@shop.example\n"


@pytest.mark.parametrize(("dkim", "identity"), [("pass", "dkim"), ("fail", "none")])
def test_a_customer_who_writes_to_our_google_group_is_answered(
    shop: Harness, dkim: str, identity: str
) -> None:
    mail = REPLAYED.format(date=format_datetime(shop.live.now()), content_type="text/plain")
    sender = "help+bncBC1@shop.example"
    body = raw_request(GROUP + mail, dkim=f"{{@example.com : {dkim}}}", envelope_from=sender)
    shop.post_inbound(body)
    (row,) = shop.rows("SELECT * FROM inbound_mails")
    assert (row.kind, row.identity, row.status) == ("customer", identity, "unanswered")
    assert counts(shop)[2:] == (1, 1)


def test_the_team_hears_once_a_day_of_a_list_that_hides_who_writes(shop: Harness) -> None:
    noon = shop.live.now().replace(hour=12)
    shop.live = replace(shop.live, now=lambda: noon)
    for hours, told in ((0, 1), (1, 1), (25, 2)):
        pass_time(shop, hours=hours)
        shop.post_inbound(
            raw_request(
                f"X-Original-From: Ada <{ADA}>\nFrom: 'Ada' via Help <{SUPPORT}>\nTo: {SUPPORT}\n"
                f"Message-ID: <{hours}@shop.example>\n{GROUP}\nMy kettle is broken.\n"
            )
        )
        notices = shop.rows("SELECT * FROM outbound_mails")
        assert [row.to_address for row in notices] == [TESS] * told
    assert "passes mail on to us with its own address" in notices[0].text
    rows = shop.rows("SELECT * FROM inbound_mails")
    assert {(row.kind, row.status, row.conversation_id) for row in rows} == {
        ("list", "no_answer", None)
    }


def test_our_own_mail_coming_back_is_no_customer(shop: Harness) -> None:
    shop.write("Your refund was paid.", from_address=SUPPORT)
    (mail,) = shop.rows("SELECT * FROM inbound_mails")
    assert (mail.kind, mail.status) == ("own", "no_answer")


def test_the_boundary_is_the_one_that_sendgrid_uses() -> None:
    assert BOUNDARY == "xYzZY"


# --- the team's answers ---------------------------------------------------------------------------


def test_the_team_is_told_once_an_hour_of_an_answer_that_is_not_provably_theirs(
    shop: Harness,
) -> None:
    noon = shop.live.now().replace(hour=12, minute=0)
    shop.live = replace(shop.live, now=lambda: noon)
    pass_time(shop, hours=0)
    shop.write("A human, please!")
    (thread,) = shop.rows("SELECT * FROM conversations")
    door = f"team+{thread.team_token}@shop.example"
    for minutes, sender, told in ((0, TESS, 1), (10, MALLORY, 1), (70, MALLORY, 2)):
        pass_time(shop, minutes=minutes)
        shop.write(f"I will call you, {minutes}.", from_address=sender, aligned=False, to=door)
        notices = shop.rows("SELECT * FROM outbound_mails ORDER BY outbound_id")
        assert [row.to_address for row in notices] == [TESS] * told
    assert {row.subject for row in notices} == {"An answer to a case did not go to the customer"}
    assert [name in row.text for name, row in zip((TESS, MALLORY), notices, strict=True)] == [
        True,
        True,
    ]
    assert f"/ops/conversations/{thread.conversation_id}" in notices[0].text
    rows = shop.rows("SELECT status, run_id FROM inbound_mails WHERE kind = 'team'")
    assert rows == [("no_answer", None)] * 3
