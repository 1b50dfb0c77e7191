"""The inbox while it is open: it says what is new, and when it cannot tell; no line moves by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, Page, expect

from mailagent.domain.operations.incident import IncidentKind
from mailagent.store.operations import incidents
from tests.browser.people import log_in
from tests.cast import OLGA
from tests.harness import Harness, beside
from tests.store.lost_mail import lose_mail
from tests.web.console.failed_runs import keep_figures


@pytest.fixture
def inbox(served: Harness, browser: Browser) -> Iterator[Page]:
    """An open inbox in which nothing waits."""
    keep_figures(served, seconds=0)
    context = log_in(served, browser, OLGA, timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"{served.live.shop.public_url}/ops")
    expect(page.get_by_text("Nothing is waiting")).to_be_visible()
    yield page
    context.close()


def change(served: Harness, act: Callable[[sa.Connection], object]) -> None:
    def write() -> None:
        with served.live.database.transaction() as connection:
            act(connection)

    beside(write)


def ask(page: Page) -> None:
    """Have the page ask: it does so every ten seconds, and whenever somebody comes back to it."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def ask_in_vain(page: Page) -> None:
    with page.expect_event("requestfailed"):
        ask(page)


def test_an_open_inbox_says_what_is_new_and_shows_it_when_asked(
    served: Harness, inbox: Page
) -> None:
    problems: list[str] = []
    inbox.on("pageerror", lambda error: problems.append(str(error)))
    inbox.on(
        "console",
        lambda message: problems.extend(
            [message.text] if "favicon" not in message.location["url"] else []
        ),
    )
    change(served, lambda connection: lose_mail(connection, "late", minutes=60 * 24 * 365))
    ask(inbox)
    link = inbox.get_by_role("link", name="1 new – show")
    expect(link).to_be_visible()
    expect(inbox).to_have_title("(1) Inbox")
    expect(inbox.locator("[data-count=undelivered]")).to_have_text("1")
    expect(inbox.get_by_text("Nothing is waiting")).to_be_hidden()
    expect(inbox.get_by_role("heading", name="Mail that did not arrive")).to_have_count(0)
    link.click()
    expect(inbox.get_by_role("heading", name="Mail that did not arrive")).to_be_visible()
    # Ages grow while the page stays.
    long_ago = (served.live.now() - timedelta(hours=3, minutes=5)).isoformat()
    inbox.evaluate("at => { document.querySelector('td time').dateTime = at; }", long_ago)
    ask(inbox)
    expect(inbox.locator("td time")).to_have_text("3 h")
    assert problems == []


def test_an_outage_is_news_and_its_banner_leaves_with_it(served: Harness, inbox: Page) -> None:
    now = served.live.now()
    change(
        served, lambda each: incidents.open_incident(each, now, IncidentKind.MAIL_PROVIDER, "401")
    )
    ask(inbox)
    inbox.get_by_role("link", name="1 new – show").click()
    banner = inbox.get_by_role("group", name="SendGrid refuses us")
    expect(banner).to_be_visible()
    change(served, lambda each: incidents.close_incident(each, now, IncidentKind.MAIL_PROVIDER))
    ask(inbox)
    expect(banner).to_be_hidden()
    expect(inbox.locator("[data-live]")).to_be_empty()


def test_an_inbox_whose_login_has_ended_says_that_it_is_not_up_to_date(inbox: Page) -> None:
    cookies = inbox.context.cookies()
    inbox.context.clear_cookies()
    status = inbox.locator("[data-live]")
    ask_in_vain(inbox)
    expect(status).to_be_empty()
    ask_in_vain(inbox)
    stale = re.compile(
        r"^Not up to date since \d+ \w+ \d{4}, \d\d:\d\d GMT\+5:30\. Reload, or log in again$"
    )
    expect(status).to_have_text(stale)
    inbox.context.add_cookies([{"name": each["name"], "value": each["value"],
                                "url": inbox.url} for each in cookies])  # fmt: skip
    ask(inbox)
    expect(status).to_be_empty()
