"""Logging in: by a mailed link, once, soon; and nobody learns whose addresses may."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.console import sessions
from mailagent.web.console.login import ATTEMPTS_PER_CLIENT, LINK_LIVES, LINKS_PER_ADDRESS
from mailagent.web.console.page import safe_path
from mailagent.web.guard import SESSION_KEY
from tests.cast import MALLORY, MONA, OLGA, TESS
from tests.harness import Harness, post_form


def link_in(harness: Harness, number: int = -1) -> str:
    """Return the link of a mail: as it waits to be sent, or as it came, for then the stored one has none."""
    rows = harness.rows(
        "SELECT to_address, text FROM outbound_mails WHERE purpose = 'login' ORDER BY created_at"
    )
    texts = [rows[number].text, *(mail.text for mail in harness.mails_to(rows[number].to_address))]
    found = [link for text in texts for link in re.findall(r"/ops/login/[\w-]{20,}", text)]
    return str(found[-1])


def test_a_mailed_link_logs_in_where_one_wanted_to_go(busy_shop: Harness) -> None:
    client = busy_shop.client
    asked = client.get("/ops?waiting=approvals")
    assert asked.status_code == 303
    form = client.get(asked.location)
    wanted = re.search(r'name="next" value="([^"]+)"', form.text)
    assert wanted is not None
    assert wanted[1] == "/ops?waiting=approvals"
    post_form(client, "/ops/login", email=" Olga@Shop.example ", next=wanted[1])
    (mail,) = busy_shop.wait_for_mails(OLGA)
    path = link_in(busy_shop)
    assert path in mail.text
    entered = post_form(client, path)
    assert entered.location == "/ops?waiting=approvals"
    page = client.get("/ops")
    assert OLGA in page.text
    assert page.headers["Cache-Control"] == "no-store"


def test_a_scanner_that_opens_the_link_does_not_use_it_up(shop: Harness) -> None:
    post_form(shop.client, "/ops/login", email=TESS)
    scanner = shop.client
    for _ in range(3):
        assert scanner.get(link_in(shop)).status_code == 200
        assert scanner.head(link_in(shop)).status_code == 200
    assert post_form(shop.client, link_in(shop)).status_code == 303


def test_a_link_works_once_and_not_after_its_date(shop: Harness) -> None:
    post_form(shop.client, "/ops/login", email=TESS)
    first, second = shop.client, shop.client
    page = second.get(link_in(shop)).text
    used = link_in(shop)
    assert post_form(first, used).status_code == 303
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert token is not None
    late = second.post(used, data={"csrf_token": token[1]})
    assert late.status_code == 404
    assert second.get("/ops").status_code == 303
    post_form(shop.client, "/ops/login", email=TESS)
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE login_links SET expires_at = asked_at")
    assert shop.client.get(link_in(shop)).status_code == 404


def test_the_answer_is_the_same_for_an_address_that_may_not(shop: Harness) -> None:
    known = post_form(shop.client, "/ops/login", email=MONA)
    unknown = post_form(shop.client, "/ops/login", email=MALLORY)
    assert known.status_code == unknown.status_code
    assert known.text.replace(MONA, "x") == unknown.text.replace(MALLORY, "x")
    named = set(re.findall(r"<code>(\w+_EMAILS)</code>", known.text))
    assert named == {"OPS_EMAILS", "TEAM_EMAILS", "MANAGER_EMAILS", "REPORT_EMAILS"}
    assert dict(known.headers).keys() == dict(unknown.headers).keys()
    mails = shop.rows("SELECT to_address FROM outbound_mails")
    assert [mail.to_address for mail in mails] == [MONA]


def test_an_address_gets_so_many_links_and_no_more(shop: Harness) -> None:
    answers = {
        post_form(shop.client, "/ops/login", email=OLGA).text for _ in range(LINKS_PER_ADDRESS + 3)
    }
    assert len(answers) == 1
    assert len(shop.rows("SELECT 1 FROM outbound_mails")) == LINKS_PER_ADDRESS


def test_whoever_goes_on_asking_locks_nobody_out(shop: Harness) -> None:
    for number in range(ATTEMPTS_PER_CLIENT + 2):
        post_form(shop.client, "/ops/login", email=f"guess{number}@shop.example")
    for _ in range(LINKS_PER_ADDRESS + 1):
        post_form(shop.client, "/ops/login", email=OLGA)
    assert len(shop.rows("SELECT 1 FROM outbound_mails")) == LINKS_PER_ADDRESS
    # A quarter of an hour later the stranger is still at it, and Olga gets a link all the same.
    with shop.live.database.transaction() as connection:
        sent = connection.execute(sa.select(schema.login_links.c.asked_at)).scalars()
        earlier = min(sent) - timedelta(minutes=16)
        connection.execute(schema.login_links.update().values(asked_at=earlier))
    post_form(shop.client, "/ops/login", email=OLGA)
    assert len(shop.rows("SELECT 1 FROM outbound_mails")) == LINKS_PER_ADDRESS + 1
    assert len(shop.rows("SELECT 1 FROM login_attempts")) == ATTEMPTS_PER_CLIENT


def test_the_database_does_the_same_work_for_an_address_that_may_not(shop: Harness) -> None:
    asked: list[str] = []
    engine = shop.live.database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda *each: asked.append(each[2]))
    work = []
    shop.live.now()  # the database is asked for the time now and then, whoever comes
    for email in (OLGA, MALLORY):
        asked.clear()
        post_form(shop.client, "/ops/login", email=email)
        work.append(
            [each for each in asked if not each.endswith(("sa_savepoint_1", "timestamp_1"))]
        )
    assert work[0] == work[1]
    assert any("outbound_mails" in each for each in work[1])


@pytest.mark.parametrize(
    "address", ["", "mona", "a@b\r\nBcc: x@evil.example", "x" * 300 + "@a.example"]
)
def test_what_is_no_address_is_told_so(shop: Harness, address: str) -> None:
    assert post_form(shop.client, "/ops/login", email=address).status_code == 422
    assert shop.rows("SELECT 1 FROM outbound_mails") == []


def test_a_form_of_the_console_that_expired_leads_back_to_the_console(shop: Harness) -> None:
    answer = shop.log_in(OLGA).post("/ops/logout")
    assert answer.status_code == 400
    assert 'href="/ops"' in answer.text
    assert "Go back to the mail" not in answer.text


def test_a_login_begins_a_session_that_nobody_knew_before(shop: Harness) -> None:
    client = shop.client
    with client.session_transaction() as cookies:
        cookies[SESSION_KEY] = "planted by somebody else"
        cookies["left"] = "over"
    post_form(client, "/ops/login", email=OLGA)
    entered = post_form(client, link_in(shop))
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    with client.session_transaction() as cookies:
        assert cookies[SESSION_KEY] != "planted by somebody else"
        assert "left" not in cookies


def test_logging_out_ends_the_session_for_whoever_copied_its_cookie(shop: Harness) -> None:
    client, thief = shop.log_in(OLGA), shop.client
    with client.session_transaction() as cookies, thief.session_transaction() as stolen:
        stolen[SESSION_KEY] = cookies[SESSION_KEY]
    assert thief.get("/ops").status_code == 200
    assert post_form(client, "/ops/logout", "/ops").status_code == 303
    assert client.get("/ops").status_code == 303
    assert thief.get("/ops").status_code == 303


def test_a_session_ends_by_its_date(shop: Harness) -> None:
    secret, now = "secret", shop.live.now()
    with shop.live.database.transaction() as connection:
        sessions.begin(connection, secret, OLGA, now - timedelta(hours=12), now)
    client = shop.client
    with client.session_transaction() as cookies:
        cookies[SESSION_KEY] = secret
    assert client.get("/ops").status_code == 303


def test_somebody_whose_address_left_the_settings_is_out_at_once(shop: Harness) -> None:
    assert shop.log_in("left@shop.example").get("/ops").status_code == 303


@pytest.mark.parametrize(
    ("wanted", "leads_to"),
    [
        ("/ops/runs?status=ERROR&page=2", "/ops/runs?status=ERROR&page=2"),
        ("//evil.example", "/ops"),
        ("/ops//evil.example", "/ops"),
        ("/ops/../approvals", "/ops"),
        ("https://evil.example/ops", "/ops"),
        ("/opsevil", "/ops"),
        ("/ops\\@evil.example", "/ops"),
        ("/ops\r\nSet-Cookie: a=b", "/ops"),
        (None, "/ops"),
    ],
)
def test_a_login_leads_into_the_console_and_nowhere_else(wanted: str | None, leads_to: str) -> None:
    assert safe_path(wanted) == leads_to


def test_a_printed_link_logs_in_once_and_soon_as_a_mailed_one_does(shop: Harness) -> None:
    done = shop.app.test_cli_runner().invoke(args=["ops", "login-link", " Olga@Shop.example "])
    assert done.exit_code == 0, done.output
    path = re.search(
        rf"{re.escape(shop.live.shop.public_url)}(/ops/login/[\w-]{{20,}})", done.output
    )
    assert path is not None
    (row,) = shop.rows("SELECT asked_at, expires_at FROM login_links")
    assert row.expires_at == row.asked_at + LINK_LIVES
    assert shop.rows("SELECT 1 FROM outbound_mails") == []
    client = shop.client
    assert post_form(client, path[1]).location == "/ops"
    assert OLGA in client.get("/ops").text
    assert shop.client.get(path[1]).status_code == 404
    printed, entered = shop.rows("SELECT actor, action, subject FROM audit ORDER BY audit_id")
    assert printed.actor.startswith("command line")
    assert (printed.action, printed.subject) == ("login link printed", OLGA)
    assert (entered.action, entered.actor) == ("logged in", OLGA)


def test_no_link_is_printed_for_a_stranger(shop: Harness) -> None:
    done = shop.app.test_cli_runner().invoke(args=["ops", "login-link", MALLORY])
    assert done.exit_code == 1
    assert "no address of the settings" in done.output
    assert shop.rows("SELECT 1 FROM login_links UNION ALL SELECT 1 FROM audit") == []
