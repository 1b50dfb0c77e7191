"""What an operator does who has only the alert mail: one link, the plan, one click, and a page that follows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from mailagent.engine import REFUND
from mailagent.workflows.steps import operators
from tests.browser.eyes import Eyes
from tests.browser.people import link_in, log_in
from tests.cast import ADA, GRACE, KETTLE_WISH, OLGA, order
from tests.harness import Harness, wait_until
from tests.workflows.trouble import failing, wait_for_run, watched

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

NARROW: ViewportSize = {"width": 320, "height": 640}


@pytest.fixture
def phone(served: Harness, browser: Browser) -> Iterator[Page]:
    context = log_in(served, browser, OLGA, viewport=NARROW)
    yield context.new_page()
    context.close()


def wish(shop: Harness) -> None:
    """Let two customers ask for a refund that is paid at once."""
    shop.stock(order())
    shop.stock(order("W3001", customer={"email": GRACE, "name": "Grace"}))
    shop.write(KETTLE_WISH)
    shop.write(KETTLE_WISH.replace("W1001", "W3001"), from_address=GRACE)


def until(go_on: threading.Event) -> Callable[[], None]:
    """Return what waits until a step may go on."""

    def wait() -> None:
        go_on.wait(60)

    return wait


def is_narrow(page: Page) -> bool:
    page.set_viewport_size(NARROW)
    return int(page.evaluate("document.documentElement.scrollWidth")) <= NARROW["width"]


def test_from_the_alert_mail_to_what_failed_for_one_reason(served: Harness, phone: Page) -> None:
    eyes, go_on = Eyes(phone), threading.Event()
    with failing("pay_refund"):
        wish(served)
        runs = served.live.workflow_client.runs
        wait_until(lambda: len(runs.list_runs("ERROR")) == 2, 60, "both to fail")
        operators.report_failed_runs()  # the sweep does it each minute, and may have been first
    alert = served.wait_for_mails(OLGA)[-1]
    phone.goto(link_in(alert.text[alert.text.rindex("http") :], "/ops/r"))
    if "/replays" not in phone.url:  # the sweep came between the two failures
        phone.goto(f"{served.live.shop.public_url}/ops/replays")
    eyes.look_on("reasons")
    assert is_narrow(phone)
    phone.get_by_role("link", name="Mistake in").click()
    expect(phone.get_by_text("not paid: it will be paid, once")).to_have_count(2)
    eyes.look_on("plan")
    assert is_narrow(phone)
    plan = phone.url
    with watched("pay_refund before", until(go_on)):
        phone.get_by_role("button", name="Run these 2 again").click()
        expect(phone.get_by_role("heading", name="0 done, 2 under way, 0 failed")).to_be_visible()
        eyes.look_on("progress")
        assert is_narrow(phone)
        go_on.set()
        done = phone.get_by_role("heading", name="2 done, 0 under way, 0 failed")
        expect(done).to_be_visible(timeout=60_000)  # by itself
    expect(phone.get_by_text("keeps itself up to date")).to_have_count(0)
    phone.goto(plan)
    expect(phone.get_by_text("No run failed for this reason")).to_be_visible()
    assert len(served.rows("SELECT 1 FROM ledger_entries")) == 2
    assert eyes.problems == {}


@pytest.mark.parametrize(
    ("has_script", "zone", "offset"), [(True, "your time zone", 330), (False, "UTC", 0)]
)
def test_times_of_the_list_are_typed_into_the_filter_as_they_are_read(
    served: Harness, browser: Browser, has_script: bool, zone: str, offset: int
) -> None:
    with failing("pay_refund"):
        wish(served)
        runs = served.live.workflow_client.runs
        wait_until(lambda: len(runs.list_runs("ERROR")) == 2, 60, "both to fail")
    context = log_in(
        served,
        browser,
        OLGA,
        viewport=NARROW,
        timezone_id="Asia/Kolkata",
        java_script_enabled=has_script,
    )
    page = context.new_page()
    page.goto(f"{served.live.shop.public_url}/ops/replays")
    page.get_by_role("link", name="Mistake in").click()
    page.get_by_text("Filters", exact=True).click()
    at = datetime.fromisoformat(page.locator("td time").last.get_attribute("datetime") or "")
    read = [(at + timedelta(minutes=offset + more)).strftime("%Y-%m-%dT%H:%M") for more in (-2, 2)]
    fields = [page.get_by_label(f"Failed {word} ({zone})") for word in ("from", "until")]
    for field, text in zip(fields, read, strict=True):
        field.fill(text)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("2 failed. Those listed are about")).to_be_visible()
    for field, text in zip(fields, read, strict=True):
        expect(field).to_have_value(text)
    fields[0].fill(read[1])
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("No run failed for this reason then")).to_be_visible()
    context.close()


def test_the_page_of_a_run_follows_it_and_waits_for_its_reader(
    served: Harness, phone: Page
) -> None:
    served.stock(order())
    go_on = threading.Event()
    with watched("pay_refund before", until(go_on)):
        served.write(KETTLE_WISH)
        run_id = wait_for_run(served, REFUND, "PENDING")
        wait_until(lambda: bool(steps_of(served, run_id)), 30, "its first step")
        phone.goto(f"{served.live.shop.public_url}/ops/runs/{run_id}")
        expect(phone.get_by_text("keeps itself up to date")).to_be_visible()
        heading = phone.get_by_role("heading", name="Completes a refund: order W1001")
        expect(heading).to_be_visible()
        expect(phone.get_by_text(f"{ADA}, $49.99")).to_be_visible()
        assert is_narrow(phone)
        phone.get_by_text("What it returned").first.click()  # a reader has unfolded something
        go_on.set()
        served.wait_for_refund("paid")
        wait_for_run(served, REFUND, "SUCCESS")
    phone.wait_for_timeout(4_000)
    expect(phone.get_by_text("keeps itself up to date")).to_be_visible()
    phone.get_by_text("What it returned").first.click()
    phone.evaluate("document.activeElement.blur()")
    expect(phone.get_by_text("keeps itself up to date")).to_have_count(0, timeout=20_000)
    expect(phone.get_by_text("done", exact=True)).to_be_visible()


def steps_of(shop: Harness, run_id: str) -> tuple[object, ...]:
    run = shop.live.workflow_client.runs.find_run(run_id, with_steps=True)
    return run.steps if run else ()
