"""Logging in as people do it: on a phone, without JavaScript, behind a scanner that opens every link."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.people import PHONE, link_in
from tests.cast import OLGA
from tests.harness import Harness

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_logging_in_on_a_phone_without_javascript(served: Harness, browser: Browser) -> None:
    context = browser.new_context(viewport=PHONE, java_script_enabled=False, is_mobile=True)
    phone = context.new_page()
    phone.goto(f"{served.live.shop.public_url}/ops")
    phone.get_by_label("Your address in the shop").fill(OLGA)
    phone.get_by_role("button", name="Mail me a link").click()
    expect(phone.get_by_role("heading", name="Check your mail")).to_be_visible()
    (mail,) = served.wait_for_mails(OLGA)
    link = link_in(mail.text, "/ops/login/")
    scan(browser, link)
    phone.goto(link)
    phone.get_by_role("button", name=f"Log in as {OLGA}").click()
    expect(phone.get_by_role("heading", name="Inbox")).to_be_visible()
    phone.get_by_role("button", name="Log out").click()
    phone.goto(f"{served.live.shop.public_url}/ops")
    expect(phone.get_by_role("heading", name="Log in")).to_be_visible()
    phone.goto(link)
    expect(phone.get_by_role("heading", name="This link does not work")).to_be_visible()
    context.close()


def scan(browser: Browser, link: str) -> None:
    """Open a link as mail scanners do: ask for it, look at its head, run what is on its page."""
    scanner = browser.new_context()
    for _ in range(2):
        assert scanner.request.get(link).ok
        assert scanner.request.head(link).ok
        scanner.new_page().goto(link)
    scanner.close()
