"""A manager refuses a refund that was approved, on a phone, once an operator has stopped its run."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest
from playwright.sync_api import Browser, expect

from mailagent import services
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from mailagent.engine import REFUND, run_id_of
from tests.browser.eyes import Eyes
from tests.browser.people import log_in
from tests.cast import ADA, KETTLE_WISH, MONA, TESS, order
from tests.harness import Harness, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

GOODS_FIRST = ReturnFirst(frozenset(RefundReason), "Send it to 1 Shop Street.", days=14)


def test_a_manager_refuses_after_all(served: Harness, browser: Browser) -> None:
    services.bind(replace(served.live, policy=Policy(return_first=GOODS_FIRST)))
    served.stock(order())
    served.write(KETTLE_WISH)
    asked = "SELECT 1 FROM remedies WHERE status = 'awaiting_goods'"
    wait_until(lambda: bool(served.rows(asked)), 30, "the customer is asked for the goods")
    (refund,) = served.refunds()
    run_id = refund.run_id or run_id_of(REFUND, refund.refund_id)
    served.live.workflow_client.replays.cancel_run(run_id)
    context = log_in(served, browser, MONA, viewport={"width": 320, "height": 640})
    page = context.new_page()
    eyes = Eyes(page)
    page.goto(f"{served.live.shop.public_url}/ops/refunds/{refund.refund_id}")
    page.locator("summary", has_text="Refuse after all").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    eyes.look_on("refuse after all")
    page.get_by_label("Why?").fill("It was a fraud.")
    page.get_by_role("button", name="Refuse after all").click()
    expect(page.get_by_text(re.compile("It was a fraud."))).to_be_visible()
    # The answer to their mail may still be on its way.
    for person, words in ((ADA, "decided against it"), (TESS, "refused after all")):
        wait_until(partial(_was_told, served, person, words), 30, f"{person} to be told")
    assert [each.status for each in served.refunds()] == ["rejected"]


def _was_told(shop: Harness, person: str, words: str) -> bool:
    return any(words in mail.text for mail in shop.mails_to(person))
