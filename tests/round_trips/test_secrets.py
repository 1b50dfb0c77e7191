"""What must never be read by whoever reads a log, a page of the console, or what `flask check` says: keys, what
opens a door, and in logs what anybody wrote."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.demo.fakes.mailboxes import SentMail
from mailagent.web.guard import Guard
from tests.cast import ADA, GRACE, MAX, MONA, OLGA, TESS, big_order, order
from tests.harness import Harness, open_shop, post_form, running, wait_until
from tests.round_trips.approvals import approval_path, starts
from tests.web.doors import doors, furnish, open_fullest, visit
from tests.web.page_source import crawl

# What is looked at here is the same on both databases.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

KEYS = {
    "SECRET_KEY": "kept-secret-key-of-the-app",
    "OPENAI_API_KEY": "sk-kept-secret-openai",
    "SENDGRID_API_KEY": "SG.kept-secret-sendgrid",
    "ORDERS_API_TOKEN": "kept-secret-orders-token-for-tests-only",
    "STRIPE_WEBHOOK_SECRET": "whsec_kept_secret_stripe",
}
WRITTEN = "purple-teapot-words"
NOTED = "orange-teapot-note"
# All of the database that opens something for whoever has it.
TOKENS = """
    SELECT reply_token FROM conversations UNION SELECT confirm_token FROM conversations
    UNION SELECT team_token FROM conversations UNION SELECT reply_token FROM approval_requests
"""


@pytest.fixture
def guarded(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A busy shop whose keys can be told from other words."""
    with open_shop(tmp_path, database_url, KEYS) as harness, running(harness):
        yield harness


def live_through_everything(harness: Harness) -> str:
    """Let mail be answered, money be asked for and refused, and somebody log in; return their session."""
    harness.stock(order(), big_order())
    harness.write(f"The standing desk of order W2001 is damaged, please refund it. {WRITTEN}")
    (asked,) = harness.wait_for_mails(MONA)
    # Whole, with the link in it, as mail programs quote; and without a mark, as others do.
    quote_back(harness, asked, "I have to look at it first.", MONA, "> ")
    quote_back(harness, asked, "Can somebody else look at this?", MAX, "")
    harness.write(
        f"I am done with machines, let me talk to a human being! {WRITTEN}",
        from_address=GRACE,
        from_name="Grace",
    )
    (handed, *_) = harness.wait_for_mails(TESS)
    quote_back(harness, handed, "We will call you.", TESS, "> ")
    post_form(harness.client, approval_path(harness), decision="reject", note=NOTED)
    harness.wait_for_refund("rejected")
    told = harness.wait_for_mails(ADA, 2)
    quote_back(harness, told[-1], "I see. Thank you.", ADA, "")
    client = harness.client
    post_form(client, "/ops/login", email=OLGA)
    (mail,) = harness.wait_for_mails(OLGA)
    post_form(client, login_link(mail.text))
    with client.session_transaction() as cookies:
        session = str(cookies["login"])
    # What goes wrong is told at greater length.
    harness.post_inbound(b"no form at all: " + WRITTEN.encode())
    visit(client, f"/approvals/{WRITTEN}")
    wait_until(harness.at_rest, 30, "an end of it")
    return session


def quote_back(harness: Harness, mail: SentMail, words: str, sender: str, mark: str) -> None:
    """Answer a mail of ours with all of it below."""
    quoted = "\n".join(f"{mark}{line}" for line in mail.text.splitlines())
    harness.write(
        f"{words}\n\n{quoted}\n{mark}Reply to: {mail.reply_to}",
        from_address=sender,
        from_name=sender.partition("@")[0],
        subject=f"Re: {mail.subject}",
        to=mail.reply_to or mail.from_address,
        in_reply_to=mail.message_id,
    )


def login_link(text: str) -> str:
    found = re.search(r"/ops/login/\S+", text)
    assert found is not None
    return found[0]


def doors_opened_by_mail(harness: Harness) -> list[str]:
    """Return everything that was mailed to one person and would do for another."""
    links = [
        found
        for mail in harness.mailboxes.sent()
        for found in re.findall(r"/(?:approvals|ops/login)/(\S+)", mail.text)
    ]
    tokens = [str(row[0]) for row in harness.rows(TOKENS)]
    assert len(links) >= 2
    assert len(tokens) >= 6
    return links + tokens


def test_no_secret_and_no_words_of_anybodys_in_logs_pages_or_checks(
    guarded: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, logger="mailagent")
    session = live_through_everything(guarded)
    opened = doors_opened_by_mail(guarded)
    secret = [*KEYS.values(), *opened, session]
    # The development server writes down addresses; ours do not run under it.
    ours = [record for record in caplog.records if not record.name.startswith("werkzeug")]
    logged = "\n".join(caplog.handler.format(record) for record in ours)
    assert "mailagent" in logged
    assert [each for each in (*secret, WRITTEN, NOTED) if each in logged] == []
    pages = crawl(guarded.log_in(OLGA), starts(guarded))
    texts = "\n".join(page.html for page in pages.values())
    # They are shown: what was written, by whomever it was.
    for words in (WRITTEN, NOTED, "I have to look at it first.", "We will call you.", "I see."):
        assert words in texts, words
    assert [each for each in secret if each in texts] == []
    told = guarded.app.test_cli_runner().invoke(args=["check"]).output
    assert told
    assert [each for each in secret if each in told] == []


def test_no_secret_of_a_link_in_the_log_of_a_page_that_fails(
    tmp_path: Path,
    database_url: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise sa.exc.OperationalError("SELECT 1", None, Exception("no connection"))

    with open_fullest(tmp_path, database_url) as harness:
        case = furnish(harness)
        harness.app.config["WTF_CSRF_ENABLED"] = (
            False  # a form that is refused fails in no database
        )
        for kind in ("snapshot", "transaction"):
            monkeypatch.setattr(harness.live.database, kind, fail)
        behind_links = [door for door in doors(harness) if door.guard is Guard.LINK]
        for door in behind_links:
            visit(harness.client, door.path(case.values), door.method)
    logged = "\n".join(caplog.handler.format(record) for record in caplog.records)
    rules = {door.rule.rule for door in behind_links}
    assert {rule for rule in rules if f"Exception on {rule} [" not in logged} == set()
    secrets = [case.values["token"], case.values["secret"]]
    assert [each for each in secrets if each in logged] == []
