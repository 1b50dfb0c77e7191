"""Logging in as people do it: on a phone, without JavaScript, behind a scanner that opens every link."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect

from mailagent import services
from mailagent.domain.mail.draft import DraftReplies
from mailagent.engine import REFUND
from tests.browser.people import PHONE, link_in, log_in
from tests.cast import ADA, KETTLE_WISH, OLGA, TESS, order
from tests.harness import Harness, wait_until
from tests.workflows.trouble import failing, wait_for_run

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


# --- drafts ---------------------------------------------------------------------------------------


def test_editing_a_draft_and_sending_it(served: Harness, browser: Browser) -> None:
    services.bind(replace(served.live, draft_replies=DraftReplies.ALL))
    served.write("Which orders of mine do you have?")
    wait_until(lambda: bool(served.rows("SELECT 1 FROM drafts")), 30, "a draft")
    context = log_in(served, browser, TESS, viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{served.live.shop.public_url}/ops/drafts")
    page.get_by_role("link", name="My order").click()
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


# --- taking over ----------------------------------------------------------------------------------


def test_taking_over_answering_and_giving_back(served: Harness, browser: Browser) -> None:
    served.stock(order())
    served.write("Where is my order W1001?", subject="Where is it?")
    served.wait_for_mails(ADA)
    (row,) = served.rows("SELECT conversation_id FROM conversations")
    context = log_in(served, browser, TESS, viewport=PHONE, java_script_enabled=False)
    phone = context.new_page()
    phone.goto(f"{served.live.shop.public_url}/ops/conversations/{row.conversation_id}")
    bar, who = (phone.locator(each).bounding_box() for each in (".bar", ".who"))
    assert bar is not None
    assert who is not None
    assert who["width"] > 0.9 * bar["width"]  # a line of its own, whatever the menu leaves
    phone.get_by_label(f"Answer {ADA}").fill("Hello Ada,")
    phone.get_by_role("button", name="Take over").click()
    expect(
        phone.get_by_role("heading", name="This conversation is assigned to you")
    ).to_be_visible()
    expect(phone.get_by_label(f"Answer {ADA}")).to_have_value("Hello Ada,")
    phone.get_by_label(f"Answer {ADA}").fill("Hello Ada, I have looked at it myself.")
    phone.get_by_role("button", name="Send the answer").click()
    answer = served.wait_for_mails(ADA, 2)[-1]
    assert "I have looked at it myself." in answer.text
    expect(phone.get_by_text("I have looked at it myself.")).to_be_visible()
    phone.get_by_role("button", name="Give back to the agent").click()
    expect(phone.get_by_text("It is assigned to the agent.", exact=False)).to_be_visible()
    served.write("Thank you!", subject="Re: Where is it?", in_reply_to=answer.message_id)
    served.wait_for_mails(ADA, 3)
    context.close()


# --- replay ---------------------------------------------------------------------------------------


def test_a_run_that_failed_is_replayed_once(served: Harness, browser: Browser) -> None:
    served.stock(order())
    with failing("pay_refund"):
        served.write(KETTLE_WISH)
        run_id = wait_for_run(served, REFUND, "ERROR")
        served.wait_for_mails(ADA)
    context = log_in(served, browser, OLGA, viewport=PHONE, java_script_enabled=False)
    phone = context.new_page()
    phone.goto(f"{served.live.shop.public_url}/ops?waiting=failed")
    phone.locator(f'main a[href="/ops/runs/{run_id}"]').first.click()
    expect(phone.get_by_role("heading", name="Why it failed")).to_be_visible()
    phone.get_by_role("link", name="Replay…").click()
    expect(phone.get_by_text("not paid: it will be paid, once")).to_be_visible()
    second = context.new_page()  # the same page, opened twice, stands for the second click
    second.goto(phone.url)
    phone.get_by_role("button", name="Run it again").click()
    expect(phone.get_by_role("status")).to_contain_text("queued again")
    served.wait_for_refund("paid")
    served.wait_for_mails(ADA, 2)
    wait_for_run(served, REFUND, "SUCCESS")
    second.get_by_role("button", name="Run it again").click()
    expect(second.get_by_role("heading", name="Nothing was changed")).to_be_visible()
    phone.reload()
    expect(phone.get_by_text("it is not paid again")).to_be_visible()
    assert len(served.rows("SELECT 1 FROM ledger_entries")) == 1
    assert len(served.mails_to(ADA)) == 2
    context.close()


def test_the_menu_on_a_phone_is_one_line_with_the_open_page_in_view(
    served: Harness, browser: Browser
) -> None:
    context = log_in(served, browser, OLGA, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{served.live.shop.public_url}/ops/audit")
    page.wait_for_load_state()
    show = page.get_by_role("button", name="Show")
    expect(show).to_be_hidden()
    menu = page.get_by_role("navigation", name="Console")
    assert menu.evaluate("menu => menu.clientHeight") < 60
    expect(menu.get_by_role("link", name="Audit")).to_be_in_viewport()
    page.get_by_text("Filters", exact=True).click()
    expect(show).to_be_visible()
    page.reload()
    page.set_viewport_size({"width": 1200, "height": 844})
    expect(show).to_be_visible()  # where there is room, nothing is folded
    context.close()
