"""Draft mode as somebody of the team uses it: on a phone, without JavaScript."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect

from mailagent import services
from mailagent.domain.mail.draft import DraftReplies
from tests.browser.people import PHONE, log_in
from tests.cast import ADA, TESS
from tests.harness import Harness, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_editing_a_draft_and_sending_it(served: Harness, browser: Browser) -> None:
    services.bind(replace(served.live, draft_replies=DraftReplies.ALL))
    served.write("Which orders of mine do you have?")
    wait_until(lambda: bool(served.rows("SELECT 1 FROM drafts")), 30, "a draft")
    context = log_in(served, browser, TESS, viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{served.live.shop.public_url}/ops/drafts")
    page.get_by_role("link", name=ADA).click()
    expect(page.get_by_text("Which orders of mine do you have?")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.get_by_label("Why the customer gets no answer").press("Enter")
    answer = page.get_by_label("The agent's answer")
    answer.fill("")
    page.get_by_role("button", name="Send my version").click()
    expect(page.get_by_role("heading", name="Nothing was sent")).to_be_visible()
    answer.fill("Dear Ada,\nI look it up & write again.")
    page.get_by_role("button", name="Send my version").dblclick()
    expect(page.get_by_role("heading", name="Sent with changes")).to_be_visible()
    expect(page.get_by_text(f"By {TESS}")).to_be_visible()
    context.close()
    (mail,) = served.wait_for_mails(ADA)
    assert "I look it up & write again." in mail.text
