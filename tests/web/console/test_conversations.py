"""A conversation as one timeline: all that happened is in it, strangers' words stay words, and no page
lets its reader act as somebody else."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from markupsafe import Markup

from mailagent import services
from mailagent.domain.operations.model_cost import parse_prices
from mailagent.store import audit, schema
from mailagent.store.ids import new_id
from mailagent.web.console.labels import action_label, detail_label, detail_labels
from mailagent.web.console.page import redact
from tests.cast import ADA, DESK_WISH, GRACE, MONA, OLGA, TESS, big_order, order
from tests.harness import Harness, pass_time
from tests.round_trips.approvals import decide, link_in
from tests.round_trips.replays import wait_for_quiet
from tests.web.console.pages import SCRIPT, plain, read_pages
from tests.web.mail_with_files import JPEG, mail_with


def thread_of(shop: Harness) -> str:
    (row,) = shop.rows("SELECT conversation_id FROM conversations")
    return str(row.conversation_id)


def test_all_that_happened_is_in_one_timeline(busy_shop: Harness) -> None:
    services.bind(replace(busy_shop.live, token_prices=parse_prices("1000,100,2000")))
    busy_shop.stock(big_order())
    busy_shop.write(DESK_WISH)
    (request,) = busy_shop.wait_for_mails(MONA)
    decide(busy_shop, link_in(request.text), "approve", note="Sorry about the desk.")
    busy_shop.wait_for_refund("paid")
    busy_shop.wait_for_mails(ADA, 2)
    wait_for_quiet(busy_shop)
    page = busy_shop.log_in(TESS).get(f"/ops/conversations/{thread_of(busy_shop)}").text
    words = plain(page)
    for shown in (
        "Mail from Ada Example", "sender proven", "Agent used look_at_order",
        "Agent used propose_refund : needs manager", "Refund of $1,499.00 asked for on order W2001",
        "Decision: approved by mona@shop.example", "Sorry about the desk.", "Refund paid by ledger",
        "Receipt of a refund", "Answer to a customer", "tokens read",
    ):  # fmt: skip
        assert shown in words, shown
    calls = busy_shop.rows("SELECT input_tokens, output_tokens, outcome FROM model_calls")
    assert {call.outcome for call in calls} == {"done"}
    assert len(calls) >= 3
    cost = sum(1000 * call.input_tokens + 2000 * call.output_tokens for call in calls) / 10**6
    assert f": ${cost:,.2f}" in words
    # The manager's link is nobody else's, wherever it stands.
    assert "/approvals/" not in page
    assert link_in(request.text).rpartition("/")[2] not in page
    assert "holds a link that is only for its reader" in words
    assert 'href="/ops/runs/' not in page
    assert (
        'href="/ops/runs/'
        in busy_shop.log_in(OLGA).get(f"/ops/conversations/{thread_of(busy_shop)}").text
    )


def test_a_recorded_call_of_the_model_is_not_counted_again(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    busy_shop.write("Where is my order W1001?")
    busy_shop.wait_for_mails(ADA)
    wait_for_quiet(busy_shop)
    before = len(busy_shop.rows("SELECT 1 FROM model_calls"))
    (run,) = (
        run
        for run in busy_shop.live.workflow_client.runs.list_runs()
        if run.workflow == "conversation"
    )
    known = busy_shop.live.workflow_client.runs.find_run(run.run_id, with_steps=True)
    assert known is not None
    busy_shop.live.workflow_client.replays.replay_run(run.run_id, known.steps[-1].number)
    wait_for_quiet(busy_shop)
    assert before >= 1
    assert len(busy_shop.rows("SELECT 1 FROM model_calls")) == before


def test_what_a_customer_writes_stays_words(shop: Harness) -> None:
    shop.stock(order())
    hostile = f'{SCRIPT} <a href="https://evil.example">click</a> https://evil.example'
    shop.write(
        f"{hostile}\n> {hostile}",
        from_name=f"Ada {SCRIPT}",
        subject=f"Kettle {SCRIPT} \u202egpj.exe",
        aligned=False,
    )
    page = shop.log_in(TESS).get(f"/ops/conversations/{thread_of(shop)}").text
    assert "sender not proven" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert "\u202e" not in page
    assert 'href="https' not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("go to /approvals/a.b.c now", "go to [link] now"),
        ("<https://shop.example/approvals/a.b.c>", "<[link]>"),
        ("K7MX 4PQR-9TWZ is yours", "[code] is yours"),
        ("case+abcdefghij234567@shop.example", "[reply address]"),
        ("ada+kettles@example.com", "ada+kettles@example.com"),
        ("our approvals are slow", "our approvals are slow"),
    ],
)
def test_words_lose_what_acts_for_others_and_nothing_else(text: str, shown: str) -> None:
    assert redact(text, ["K7MX-4PQR-9TWZ"]) == shown


def test_a_long_conversation_is_read_in_pages_without_a_gap(shop: Harness) -> None:
    shop.write("Where is my order?")
    thread, now = thread_of(shop), shop.live.now()
    with shop.live.database.transaction() as connection:
        for number in range(230):
            # Three of each moment: a page may end between them.
            at = now + timedelta(seconds=number // 3)
            what = f"act number {number:03}"
            audit.record(connection, at, OLGA, what, thread)  # type: ignore[arg-type]
    pages = read_pages(shop.log_in(TESS), f"/ops/conversations/{thread}")
    seen = re.findall(r"Act number (\d{3})", "".join(pages))
    assert seen == [f"{number:03}" for number in reversed(range(230))]
    assert len(pages) == 3


def test_a_mark_that_is_none_leads_to_the_newest(shop: Harness) -> None:
    shop.write("Where is my order?")
    client, path = shop.log_in(TESS), f"/ops/conversations/{thread_of(shop)}"
    for mark in ("x", "2026-11-20~k", "2026-11-20T10:00:00+00:00", "~", "\0~a", "9" * 500 + "~",
                 "0001-01-01T00:00:00+23:59~mail:x", "9999-12-31T23:59:59-23:59~mail:x"):  # fmt: skip
        assert "Where is my order?" in client.get(path, query_string={"before": mark}).text, mark


def test_a_file_is_saved_and_never_shown(shop: Harness) -> None:
    body = mail_with(("photo.jpg", "image/jpeg", JPEG), ("Küche.html", "text/html", b"<h1>x</h1>"))
    assert shop.post_inbound(body).status_code == 200
    client = shop.log_in(TESS)
    page = client.get(f"/ops/conversations/{thread_of(shop)}").text
    links = re.findall(r'href="(/ops/conversations/[^"]+/attachments/[^"]+)"', page)
    photo, html = (client.get(link) for link in links)
    assert (photo.data, html.data) == (JPEG, b"<h1>x</h1>")
    assert html.headers["Content-Type"] == "application/octet-stream"
    assert html.headers["Content-Disposition"].startswith("attachment;")
    assert html.headers["X-Content-Type-Options"] == "nosniff"
    assert html.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert html.headers["Cache-Control"] == "no-store"
    assert shop.client.get(links[0]).status_code == 303


def test_a_file_of_another_conversation_is_not_there(shop: Harness) -> None:
    shop.post_inbound(mail_with(("photo.jpg", "image/jpeg", JPEG)))
    theirs = thread_of(shop)
    (mail,) = shop.rows("SELECT mail_id FROM inbound_mails")
    shop.write("Where is my order?", from_address=GRACE)
    (mine,) = shop.rows(
        "SELECT conversation_id FROM conversations WHERE customer_email = :email", email=GRACE
    )
    client = shop.log_in(TESS)

    def status(thread: str, mail_id: str, number: str) -> int:
        path = f"/ops/conversations/{thread}/attachments/{mail_id}/{number}"
        return client.get(path).status_code

    assert status(theirs, mail.mail_id, "0") == 200
    for foreign in (
        (mine.conversation_id, mail.mail_id, "0"),
        (theirs, mail.mail_id, "1"),
        (theirs, mail.mail_id, "-1"),
        (theirs, "mail_x", "0"),
        (theirs, "mail%00", "0"),
    ):
        assert status(*foreign) == 404, foreign


@pytest.mark.parametrize(
    ("passed", "language", "told"),
    [
        ({"minutes": 5.5}, "en", "5 min ago"),
        ({"hours": 5.5}, "en", "5 h ago"),
        ({"hours": 5.5}, "de", "vor 5 h"),
        ({"days": 5.5}, "de", "vor 5 Tagen"),
        ({"days": 5.5}, "pl", "5 dni temu"),
    ],
)
def test_a_page_says_how_long_ago_the_last_mail_came(
    shop: Harness, passed: dict[str, float], language: str, told: str
) -> None:
    shop.write("Where is my parcel?")
    path = f"/ops/conversations/{thread_of(shop)}"
    tess = shop.log_in(TESS)
    with shop.live.database.transaction() as connection:
        stays = "UPDATE sessions SET expires_at = '2100-01-01 00:00:00'"  # logged in
        connection.exec_driver_sql(stays)
    pass_time(shop, **passed)
    for page in (path, "/ops/conversations?state=open", "/ops/search?q=parcel"):
        shown = tess.get(page, headers={"Accept-Language": language}).text
        assert told in Markup(shown).striptags(), page


def test_what_is_not_there_is_not_found(shop: Harness) -> None:
    client = shop.log_in(TESS)
    for name in ("conversation_x", "%00", "x' OR '1'='1", "refund_1", "nobody@example.com"):
        for place in ("conversations", "refunds", "customers"):
            assert client.get(f"/ops/{place}/{name}").status_code == 404, (place, name)


def test_a_history_that_is_gone_is_said_to_be(shop: Harness) -> None:
    shop.write("Where is my order?")
    with shop.live.database.transaction() as connection:
        connection.execute(schema.inbound_mails.update().values(run_id="conversation-gone"))
    page = shop.log_in(TESS).get(f"/ops/conversations/{thread_of(shop)}")
    assert "its history has been deleted" in page.text


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_subject_shows_a_discount_or_a_link(shop: Harness) -> None:
    link = shop.live.links.sign_approval("approval_1", MONA).rpartition("/")[2]
    shop.write("My kettle?", subject=f"Use K7MX-4PQR-9TWZ {link}")
    stored = shop.rows("SELECT subject FROM inbound_mails UNION SELECT subject FROM conversations")
    assert {row.subject for row in stored} == {"Use K7MX-4PQR-9TWZ …"}
    shop.stock(order())
    thread = thread_of(shop)
    mail_id = shop.rows("SELECT mail_id FROM inbound_mails")[0].mail_id
    with shop.live.database.transaction() as connection:
        given = {
            "order_id": "W1001",
            "conversation_id": thread,
            "mail_id": mail_id,
            "percent": 5,
        }
        dates = {"issued_at": shop.live.now(), "expires_at": shop.live.now()}
        connection.execute(
            schema.goodwill_codes.insert().values(code="K7MX-4PQR-9TWZ", **given, **dates)
        )
    client = shop.log_in(TESS)
    pages = ("/ops", "/ops/search?kind=mails&q=kettle", f"/ops/customers/{ADA}")
    for path in (*pages, "/ops/search?kind=conversations", f"/ops/conversations/{thread}"):
        page = client.get(path).text
        assert "Use [code]" in page, path
        assert "4PQR-9TWZ" not in page, path


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("refund awaiting_approval", "refund left to a manager"),
        ("refund paid", "refund paid"),
        ("of a former release", "of a former release"),
    ],
)
def test_an_act_is_told_in_words(action: str, words: str) -> None:
    assert action_label(action) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("awaiting_approval", "waits for a manager"),
        ("window_closed", "window closed"),
        ("pay_W2001", "pay_W2001"),
        ("mona@shop.example", "mona@shop.example"),
        (15, "15"),
        ("1499.00 USD", "$1,499.00"),
        ("1499 ABC", "1499 ABC"),
        (
            "2026-11-27T03:49:12+00:00",
            '<time datetime="2026-11-27T03:49:12+00:00">27 November 2026, 03:49 UTC</time>',
        ),
    ],
)
def test_short_names_become_words_and_all_else_stays(value: object, words: str) -> None:
    assert detail_label(value) == words


def test_a_story_is_told_without_ids_and_empty_words() -> None:
    details = {
        "mail_id": new_id("mail"),
        "amount": "49.99 USD",
        "note": "stands with the decision",
        "note_for": "the shop only",
        "why": "",
        "filters": ["actor"],
    }
    assert detail_labels(details) == [("amount", "$49.99"), ("note for", "the shop only")]
