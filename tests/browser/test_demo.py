"""The demo's page as a newcomer uses it: the tour from the first letter to the replay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import Supervisor
from mailagent.demo.show import find_port
from tests.browser.eyes import DESKTOP, Eyes
from tests.cast import a_photo

SECONDS = 30_000


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Providers]:
    port = find_port(0)
    providers = Providers(tmp_path, port, {"PATH": "/usr/bin:/bin"})
    supervisor = Supervisor(tmp_path, port, providers.environment(), lambda _said: None)
    providers.start()
    try:
        supervisor.prepare()
        supervisor.start()
        yield providers
    finally:
        supervisor.stop()
        providers.stop()


@pytest.fixture
def page(demo: Providers, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=DESKTOP)
    opened = context.new_page()
    opened.goto(f"{demo.app_url}/demo/")
    yield opened
    context.close()


def step(page: Page, name: str) -> str:
    return f".tour [data-step={name}].done"


def send(page: Page, number: int) -> None:
    page.get_by_role("button", name=f"Fill in the letter of step {number}").click()
    page.get_by_role("button", name="Send mail").click()
    expect(page.locator("#sent")).to_have_text("Sent.")
    # The answer comes there, so that is what one sees.
    below = (
        "title => title.getBoundingClientRect().top - document.querySelector('.top').offsetHeight"
    )
    assert page.locator("#boxes-title").evaluate(below) > 0
    expect(page.locator("#boxes-title")).to_be_in_viewport()


def test_the_tour_is_ticked_off_by_what_really_happened(demo: Providers, page: Page) -> None:
    expect(page.get_by_role("heading", name="A support agent that refunds")).to_be_visible()
    assert page.locator(".tour .done").count() == 0
    send(page, 1)
    expect(page.locator(step(page, "ask"))).to_be_visible(timeout=SECONDS)
    send(page, 2)
    expect(page.locator(step(page, "refund"))).to_be_visible(timeout=SECONDS)
    send(page, 3)
    page.get_by_role("button", name="Mona's mailbox").click()
    # A reply of the manager, written on this page, decides.
    page.locator("#mails").get_by_role("button", name="Answer").first.click(timeout=SECONDS)
    page.get_by_label("Text", exact=True).fill("approve")
    page.get_by_role("button", name="Send mail").click()
    expect(page.locator(step(page, "manager"))).to_be_visible(timeout=SECONDS)
    page.get_by_role("button", name="Crash").click()
    expect(page.locator(step(page, "crash"))).to_be_visible(timeout=SECONDS)
    console = page.context.new_page()
    console.goto(f"{demo.app_url}/ops/login")
    console.get_by_label("Your address in the shop").fill("olga@shop.example")
    console.get_by_role("button", name="Mail me a link").click()
    page.get_by_role("button", name="Olga's mailbox").click()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open the link in this mail").first.click(timeout=SECONDS)
    opened.value.get_by_role("button", name="Log in as olga@shop.example").click()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="To the runs").click()
    runs = opened.value
    runs.locator("main table a[href*='/ops/runs/refund-']").first.click()
    runs.get_by_role("link", name="Replay").click()
    runs.get_by_role("button", name="Run it again").click()
    expect(page.locator(step(page, "replay"))).to_be_visible(timeout=SECONDS)
    eyes = Eyes(page)
    eyes.look_on("the demo after the tour")
    assert eyes.problems == {}


def test_a_letter_with_a_photo_and_what_the_steps_recorded(page: Page) -> None:
    page.get_by_role("button", name="One of two mugs").click()
    photo = {"name": "mug.jpg", "mimeType": "image/jpeg", "buffer": a_photo()}
    page.get_by_label("Attached files").set_input_files(photo)  # type: ignore[arg-type]
    page.get_by_role("button", name="Send mail").click()
    page.locator("#mails summary", has_text="A broken mug").last.click()
    expect(page.locator("#mails").get_by_text("Attached: mug.jpg")).to_be_visible()
    paid = page.locator("#refunds tr", has_text="W1002")
    expect(paid).to_contain_text("$12.50", timeout=SECONDS)
    told = page.locator(".run .step", has_text="claim refund").first
    expect(told).to_contain_text("makes this run the refund's own", timeout=SECONDS)
    expect(told.locator("pre")).to_be_hidden()
    told.get_by_text("as recorded").click()
    expect(told.locator("pre")).to_be_visible()
    page.get_by_text("Orders to write about").click()
    expect(page.get_by_role("rowheader", name="W1012")).to_be_visible()
    eyes = Eyes(page)
    eyes.look_on("the demo with a run")
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    everything = page.locator(".run, .step details")
    everything.evaluate_all("all => all.forEach(each => { each.open = true; })")
    wide = "all => all.filter(each => each.scrollWidth > each.clientWidth).length"
    assert page.locator(".run pre").evaluate_all(wide) > 0
    eyes.look_on("the demo with all that runs recorded")
    assert eyes.problems == {}
    expect(told.get_by_role("group", name=re.compile(r"What step \d+ recorded"))).to_be_visible()


def test_a_transfer_waits_in_the_settlements_until_a_person_has_paid_it(
    demo: Providers, page: Page, browser: Browser
) -> None:
    page.get_by_role("button", name="Paid by bank transfer").click()
    page.get_by_role("button", name="Send mail").click()
    expect(page.locator("#ledger tr", has_text="W1013")).to_be_visible(timeout=SECONDS)
    expect(page.locator("#refunds tr", has_text="W1013")).to_contain_text("approved")
    console = browser.new_page()
    console.goto(f"{demo.app_url}/ops")
    console.get_by_label("Your address in the shop").fill("olga@shop.example")
    console.get_by_role("button", name="Mail me a link").click()
    page.get_by_role("button", name="Olga operator").click()
    link = page.locator("#mails").get_by_role("link", name="Open the link in this mail")
    console.goto(f"{demo.app_url}{link.get_attribute('href')}")
    console.get_by_role("button", name="Log in as").click()
    console.get_by_role("link", name="1 Refund to pay").click()
    console.get_by_role("button", name=re.compile("Paid.*W1013")).click()
    expect(console.get_by_text("Nothing waits to be paid.")).to_be_visible()
    expect(page.locator("#refunds tr", has_text="W1013")).to_contain_text("paid", timeout=SECONDS)
    console.close()
