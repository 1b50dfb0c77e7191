"""Ticking off what was paid, on a phone and with a file, as somebody of the shop does it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from mailagent import services
from mailagent.store.refunds.ledger import LedgerGateway
from tests.browser.eyes import Eyes
from tests.browser.people import log_in
from tests.cast import ADA, GRACE, KETTLE_WISH, OLGA, order
from tests.harness import Harness, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def paying(served: Harness) -> Iterator[Harness]:
    """A shop whose people pay what the ledger records."""
    live = served.live
    services.bind(replace(live, gateway=LedgerGateway(live.database, live.now)))
    served.stock(order(), order("W3001", customer={"email": GRACE, "name": "Grace"}))
    served.write(KETTLE_WISH)
    served.write(KETTLE_WISH.replace("W1001", "W3001"), from_address=GRACE)
    open_ones = "SELECT 1 FROM refund_payments WHERE problem LIKE '%not settled yet'"
    wait_until(lambda: len(served.rows(open_ones)) == 2, 30, "two refunds to pay")
    yield served
    services.bind(live)


def test_one_is_ticked_off_and_one_comes_back_in_a_file(
    paying: Harness, browser: Browser, tmp_path: Path
) -> None:
    url = f"{paying.live.shop.public_url}/ops/settlements"
    context = log_in(paying, browser, OLGA, viewport={"width": 320, "height": 640})
    page = context.new_page()
    eyes = Eyes(page)
    page.goto(url)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    eyes.look_on("to be paid")
    page.get_by_label("Reference of the payment for order W1001").fill("SEPA 17")
    page.get_by_role("button", name=re.compile("Paid.*W1001")).click()
    expect(page.get_by_text("in 1 payment.")).to_be_visible()
    receipt = paying.wait_for_mails(ADA, 2)[-1]
    assert "Reference: SEPA 17" in receipt.text
    with page.expect_download() as saved:
        page.get_by_role("link", name="Export as CSV").click()
    path = tmp_path / "bank.csv"
    head, line = Path(saved.value.path()).read_text().splitlines()
    path.write_text(f"{head}\n{line.removesuffix(',,,')},failed,,\n")
    page.get_by_label("File with outcomes").set_input_files(path)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("alert")).to_contain_text("line 2: a failed payment needs a reason")
    eyes.look_on("a file with a problem")
    path.write_text(f"{head}\n{line.removesuffix(',,,')},failed,,account closed\n")
    page.get_by_label("File with outcomes").set_input_files(path)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("status")).to_contain_text("Imported: 1 new outcomes, 0 known before.")
    page.get_by_role("link", name="Could not be paid").click()
    expect(page.get_by_text("account closed")).to_be_visible()
    eyes.look_on("failed")
    page.get_by_role("link", name="Paid", exact=True).click()
    page.get_by_text("It came back").click()
    eyes.look_on("paid")
    assert eyes.problems == {}
    context.close()


def test_the_return_key_settles_nothing(paying: Harness, browser: Browser) -> None:
    context = log_in(paying, browser, OLGA)
    page = context.new_page()
    page.goto(f"{paying.live.shop.public_url}/ops/settlements")
    line = page.get_by_role("row", name=re.compile("W1001"))
    line.get_by_text("Could not be paid").click()
    reason = line.get_by_label("Why? The team reads it.")
    reason.fill("the bank refused the account")
    reason.press("Enter")
    line.get_by_label("Reference of the payment").press("Enter")
    expect(reason).to_have_value("the bank refused the account")  # the page is still the same
    line.get_by_role("button", name="Give it to the team").click()
    expect(page.get_by_text("in 1 payment.")).to_be_visible()
    states = paying.rows("SELECT state, reason FROM ledger_settlements WHERE state <> 'open'")
    assert [tuple(row) for row in states] == [("failed", "the bank refused the account")]
    context.close()


def test_a_page_on_which_it_was_still_open_does_not_say_that_money_came_back(
    paying: Harness, browser: Browser
) -> None:
    context = log_in(paying, browser, OLGA)
    page, stale = context.new_page(), context.new_page()
    for each in (page, stale):
        each.goto(f"{paying.live.shop.public_url}/ops/settlements")
    page.get_by_role("button", name=re.compile("Paid.*W1001")).click()
    expect(page.get_by_text("in 1 payment.")).to_be_visible()
    line = stale.get_by_role("row", name=re.compile("W1001"))
    line.get_by_text("Could not be paid").click()
    line.get_by_label("Why? The team reads it.").fill("closed account")
    line.get_by_role("button", name="Give it to the team").click()
    expect(stale.get_by_role("alert")).to_contain_text("it is recorded as paid")
    page.get_by_role("link", name="Paid", exact=True).click()
    page.get_by_text("It came back").click()
    page.get_by_label("Why? The team reads it.").fill("closed account")
    page.get_by_role("button", name="Give it to the team").click()
    assert "We have to correct that" in paying.wait_for_mails(ADA, 3)[-1].text
    context.close()
