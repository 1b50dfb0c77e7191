"""Times in the reader's zone, and keys: a mouse is not needed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect

from mailagent import services
from mailagent.domain.mail.draft import DraftReplies
from tests.browser.eyes import DESKTOP, Eyes
from tests.browser.people import log_in
from tests.cast import ADA, GRACE, OLGA, TESS
from tests.harness import Harness, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def write_twice(shop: Harness) -> str:
    """Let two customers write, and get their answers; return the page of Ada's conversation."""
    shop.write("Hello, which orders of mine do you have?", subject="Mine")
    shop.write("Hello, which orders of mine do you have?", from_address=GRACE, subject="Hers")
    shop.wait_for_mails(ADA)
    shop.wait_for_mails(GRACE)
    (row,) = shop.rows("SELECT * FROM conversations WHERE customer_email = :ada", ada=ADA)
    return f"{shop.live.shop.public_url}/ops/conversations/{row.conversation_id}"


def test_times_are_in_the_readers_zone_and_in_utc_without_a_script(
    served: Harness, browser: Browser
) -> None:
    url, texts = write_twice(served), {}
    for zone, has_script in (("Asia/Kolkata", True), ("Asia/Kolkata", False)):
        context = log_in(served, browser, TESS, timezone_id=zone, java_script_enabled=has_script)
        page = context.new_page()
        page.goto(url)
        place = page.locator("header time").first
        texts[has_script] = (place.inner_text(), place.get_attribute("title"))
        context.close()
    (local, title), (utc, _) = texts[True], texts[False]
    assert utc.endswith(" UTC")
    assert title == utc
    assert re.fullmatch(r"\d+ \w+ \d{4}, \d\d:\d\d GMT\+5:30", local)
    minutes = [int(text.split(",")[1][4:6]) for text in (local, utc)]
    assert (minutes[0] - minutes[1]) % 60 == 30


def test_times_of_the_audit_log_and_within_its_details_are_in_the_readers_zone(
    served: Harness, browser: Browser
) -> None:
    url = write_twice(served)
    context = log_in(served, browser, OLGA, timezone_id="Asia/Kolkata", viewport=DESKTOP)
    page = context.new_page()
    page.goto(url)
    page.get_by_role("button", name="Snooze").click()
    page.goto(f"{served.live.shop.public_url}/ops/audit")
    acts = page.locator("table.list").inner_text()
    assert re.search(r"until: \d+ \w+ \d{4}, \d\d:\d\d GMT\+5:30", acts)
    assert "UTC" not in acts
    page.goto(f"{served.live.shop.public_url}/ops/runs?from=2020-01-02T10:00&to=2020-01-03")
    expect(page.locator("#from")).to_have_value("2020-01-02T15:30")
    expect(page.locator("#to")).to_have_value("2020-01-04T05:29")
    page.locator("#from").fill("2020-01-02T06:30")
    page.locator("#from").press("Enter")
    page.wait_for_url(re.compile(r"from=2020-01-02T01(:|%3A)00"))
    context.close()


def test_everything_can_be_done_with_keys(served: Harness, browser: Browser) -> None:
    write_twice(served)
    context = log_in(served, browser, TESS, viewport=DESKTOP)
    page = context.new_page()
    page.goto(f"{served.live.shop.public_url}/ops/conversations?view=pending")
    for keys, subject in (
        ("j", "Hers"),
        ("j", "Mine"),
        ("j", "Mine"),
        ("k", "Hers"),
        ("j", "Mine"),
    ):
        page.keyboard.press(keys)
        expect(page.get_by_role("link", name=subject)).to_be_focused()
    page.keyboard.press("Enter")
    field = page.get_by_label(f"Answer {ADA}")
    expect(field).to_be_visible()
    page.wait_for_load_state()  # with its script
    page.keyboard.press("r")
    expect(field).to_be_focused()
    page.keyboard.type("Just a joke? /r")
    expect(field).to_have_value("Just a joke? /r")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Just a joke? /r").first).to_be_visible()
    assert "Just a joke? /r" in served.wait_for_mails(ADA, 2)[-1].text
    page.keyboard.press("/")
    expect(page.get_by_role("heading", name="Search")).to_be_visible()
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("jar")
    expect(page.locator("#q")).to_have_value("jar")
    context.close()


@pytest.mark.parametrize(
    ("typed", "outcome"),
    [("", "Sent as the agent wrote it"), ("Just a joke? ", "Sent with changes")],
)
def test_keys_send_the_text_of_a_draft_as_it_stands_in_the_field(
    served: Harness, browser: Browser, typed: str, outcome: str
) -> None:
    services.bind(replace(served.live, draft_replies=DraftReplies.ALL))
    served.write("Which orders of mine do you have?")
    wait_until(lambda: bool(served.rows("SELECT 1 FROM drafts")), 30, "a draft")
    (row,) = served.rows("SELECT * FROM drafts")
    context = log_in(served, browser, TESS, viewport=DESKTOP)
    page = context.new_page()
    page.goto(f"{served.live.shop.public_url}/ops/drafts/{row.draft_id}")
    page.wait_for_load_state()
    field, attached = page.get_by_label("The agent's answer"), page.locator("input[type=file]")
    page.keyboard.press("r")
    expect(field).to_be_focused()
    page.keyboard.press("Control+Home")
    page.keyboard.type(typed)
    attached.set_input_files({"name": "run.exe", "mimeType": "text/plain", "buffer": b"MZ"})
    field.press("Control+Enter")
    expect(page.get_by_role("heading", name="Nothing was sent")).to_be_visible()
    page.wait_for_load_state()
    field.press("Control+Enter")
    expect(page.get_by_role("heading", name=outcome)).to_be_visible()
    context.close()
    (mail,) = served.wait_for_mails(ADA)
    assert ("Just a joke?" in mail.text) == bool(typed)


def test_the_sheet_of_keys_opens_and_turns_them_off(served: Harness, browser: Browser) -> None:
    url = write_twice(served)
    context = log_in(served, browser, TESS, viewport=DESKTOP)
    page = context.new_page()
    eyes = Eyes(page)
    page.goto(url)
    page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(sheet).to_be_visible()
    eyes.look_on("the sheet")
    assert eyes.problems == {}
    sheet.get_by_label("Turn single keys off").check()
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    page.keyboard.press("r")
    expect(page.get_by_label(f"Answer {ADA}")).not_to_be_focused()
    page.reload()
    expect(page.get_by_role("button", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("?")
    expect(sheet).to_be_hidden()
    context.close()


def test_a_double_click_sends_a_form_once(served: Harness, browser: Browser) -> None:
    url, sent = write_twice(served), []
    context = log_in(served, browser, TESS, viewport=DESKTOP)
    page = context.new_page()
    page.on(
        "request", lambda request: sent.append(request.url) if request.method == "POST" else None
    )
    page.goto(url)
    page.wait_for_load_state()
    page.get_by_role("button", name="Snooze").dblclick(no_wait_after=True)
    expect(page.get_by_text("Snoozed until")).to_be_visible()
    expect(page.get_by_text("Your click changed nothing.")).to_have_count(0)
    assert sent == [f"{url}/snooze"]
    context.close()
