"""The report in a browser, and the page on which a customer says whether an answer helped."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from mailagent import services
from mailagent.domain.operations.model_cost import day_begins_at
from mailagent.store import schema
from tests.browser.eyes import Eyes
from tests.browser.people import log_in
from tests.cast import ADA, OLGA
from tests.harness import Harness

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

COUNTED_NOW = 2  # days, without a mail in these tests
NARROW: ViewportSize = {"width": 320, "height": 640}
SHAPES = {
    ("mails", "agent"): 120,
    ("mails", "people"): 30,
    ("mails", "waiting"): 6,
    ("mails", "none"): 12,
    ("refunds", "paid USD"): 20,
    ("amounts", "paid USD"): 90_000,
    ("refunds", "rejected EUR"): 2,
    ("amounts", "rejected EUR"): 40_000,
    ("answer_seconds", "45"): 90,
    ("answer_seconds", "600"): 20,
    ("answer_seconds", "9000"): 9,
    ("approvals", "approve"): 8,
    ("approvals", "expired"): 1,
    ("decision_seconds", "7200"): 8,
    ("cost", ""): 2_300_000,
    ("votes", "yes"): 11,
    ("votes", "no"): 3,
}


def fill(shop: Harness, days: int = 30) -> None:
    """Write figures of a month, as the housekeeping counts them."""
    today, chance = day_begins_at(shop.live.now()), random.Random(7)
    rows = [
        {
            "day": today - timedelta(days=number),
            "figure": figure,
            "label": label,
            "value": chance.randint(usual // 2, usual),
        }
        for number in range(days)
        for (figure, label), usual in SHAPES.items()
    ]
    with shop.live.database.transaction() as connection:
        connection.execute(schema.daily_figures.insert(), rows)


def test_the_report_has_charts_tables_and_a_file(served: Harness, browser: Browser) -> None:
    fill(served)
    context = log_in(served, browser, OLGA, viewport=NARROW)
    page = context.new_page()
    eyes = Eyes(page)
    page.goto(f"{served.live.shop.public_url}/ops/report")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    chart = page.get_by_role("img", name="Mails of customers, day by day")
    expect(chart).to_be_visible()
    assert chart.locator("rect").count() == (30 - COUNTED_NOW) * 4
    expect(page.get_by_role("table", name="Time to the first answer, in all")).to_contain_text(
        "45 s"
    )
    expect(page.get_by_role("table", name="Did our answer help?, in all")).to_contain_text(
        "It helped"
    )
    eyes.look_on("a month")
    page.locator("section summary").first.click()
    assert (
        page.get_by_role("table", name="day by day, as a table").first.locator("tbody tr").count()
        == 30
    )
    eyes.look_on("with a table open")
    page.get_by_role("link", name="Last 7 days").click()
    expect(page.get_by_role("link", name="Last 7 days")).to_have_attribute("aria-current", "page")
    assert chart.locator("rect").count() == (7 - COUNTED_NOW) * 4
    with page.expect_download() as saved:
        page.get_by_role("link", name="All figures as CSV").click()
    assert saved.value.suggested_filename.startswith("report-")
    page.goto(f"{served.live.shop.public_url}/ops/report?from=2020-01-01&to=2020-12-30")
    expect(page.get_by_role("heading", name="Mails of customers, week by week")).to_be_visible()
    page.locator("section summary").first.click()
    weeks = page.get_by_role("table", name="week by week, as a table").locator("tbody tr")
    assert weeks.count() == 53
    page.goto(f"{served.live.shop.public_url}/ops/report?from=2020-01-01&to=2020-01-07")
    eyes.look_on("nothing")
    assert eyes.problems == {}
    context.close()


def test_a_customer_says_that_it_helped(served: Harness, browser: Browser) -> None:
    shop = replace(served.live.shop, asks_if_helped=True)
    services.bind(replace(served.live, shop=shop))
    served.write("Guten Tag, wo ist meine Bestellung? Ich warte schon so lange darauf.")
    (mail,) = served.wait_for_mails(ADA)
    yes = next(line for line in mail.text.splitlines() if "/helped/" in line)
    context = browser.new_context(viewport=NARROW, java_script_enabled=True)
    page = context.new_page()
    eyes = Eyes(page)
    page.goto(yes)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    eyes.look_on("asked")
    assert served.rows("SELECT 1 FROM votes") == []
    page.get_by_role("button", name="Ja, sie hat geholfen").click()
    expect(page.get_by_role("heading")).to_be_visible()
    eyes.look_on("thanked")
    assert len(served.rows("SELECT 1 FROM votes WHERE helped")) == 1
    page.goto(f"{served.live.shop.public_url}/helped/nothing")
    eyes.look_on("not valid")
    assert eyes.problems == {}
    context.close()
