"""An operator finds a run that failed in the inbox, reads what a replay would do, and presses twice: on a
phone, without JavaScript."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from mailagent.engine import REFUND
from tests.browser.people import PHONE, log_in
from tests.cast import ADA, OLGA, order
from tests.harness import Harness
from tests.workflows.trouble import failing, wait_for_run

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_a_run_that_failed_is_replayed_once(served: Harness, browser: Browser) -> None:
    served.stock(order())
    with failing("pay_refund"):
        served.write("My kettle from order W1001 arrived broken. I want my money back.")
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
