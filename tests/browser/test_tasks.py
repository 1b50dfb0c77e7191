"""A person of the team ticks tasks off, on a small phone."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from mailagent import services
from mailagent.domain.refunds.policy import Policy, ReturnFirst
from mailagent.domain.refunds.refund import RefundReason
from tests.browser.eyes import Eyes
from tests.browser.people import log_in
from tests.cast import ADA, TESS, order
from tests.harness import Harness, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

PENDING: dict[str, Any] = {"status": "pending", "delivered_at": None}
RETURNS = ReturnFirst(frozenset({RefundReason.DAMAGED}), "Send it to 1 Shop Street.", days=14)


def test_one_task_is_done_and_one_is_not_possible(served: Harness, browser: Browser) -> None:
    served.stock(order(), order("W1002"))
    served.write("Can I exchange the kettle of W1001 for another colour?")
    served.write("Please send a replacement for the kettle of W1002, it is damaged.")
    wait_until(lambda: len(served.rows("SELECT 1 FROM remedies")) == 2, 30, "two tasks")
    served.wait_for_mails(ADA, 2)
    context = log_in(served, browser, TESS, viewport={"width": 320, "height": 640})
    page = context.new_page()
    eyes = Eyes(page)
    page.goto(f"{served.live.shop.public_url}/ops/tasks")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    eyes.look_on("to do")
    page.get_by_role("button", name=re.compile("Done.*W1001")).click()
    expect(page.get_by_role("heading", name="Exchange, order W1001")).to_have_count(0)
    assert "The exchange for order W1001 is arranged." in served.wait_for_mails(ADA, 3)[-1].text
    page.get_by_role("button", name=re.compile("Not possible.*W1002")).click()
    expect(page.get_by_role("alert")).to_contain_text("say why it is not possible")
    eyes.look_on("a problem")
    page.get_by_label("Words to the customer").fill("It is sold out.")
    page.get_by_label("Words to the customer").press("Enter")  # presses no button
    page.get_by_role("button", name=re.compile("Not possible.*W1002")).click()
    expect(page.get_by_text("Nothing is to be done.")).to_be_visible()
    assert "> It is sold out." in served.wait_for_mails(ADA, 4)[-1].text
    page.get_by_role("link", name="Ended").click()
    expect(page.get_by_text("It is sold out.")).to_be_visible()
    eyes.look_on("ended")
    assert eyes.problems == {}
    context.close()


def has_remedies(shop: Harness, number: int) -> bool:
    return len(shop.rows("SELECT 1 FROM remedies")) == number


def bind_returns(shop: Harness) -> None:
    shop.live = replace(shop.live, policy=Policy(return_first=RETURNS))
    services.bind(shop.live)


@pytest.mark.parametrize(
    ("kind", "changes", "letter", "done"),
    [
        ("Cancellation", PENDING, "Please cancel my order %s.", "Order W1001 is cancelled."),
        ("Return", {}, "The kettle of %s arrived broken. I want my money back.", "refunded"),
    ],
    ids=["cancel", "return"],
)
def test_money_follows_what_is_done_and_nothing_what_is_not_possible(
    served: Harness, browser: Browser, kind: str, changes: dict[str, Any], letter: str, done: str
) -> None:
    bind_returns(served)
    served.stock(order(**changes), order("W1002", **changes))
    for number, order_id in enumerate(("W1001", "W1002"), start=1):
        served.write(letter % order_id, subject=order_id)
        wait_until(partial(has_remedies, served, number), 30, "the task")
    context = log_in(served, browser, TESS, viewport={"width": 320, "height": 640})
    page = context.new_page()
    eyes = Eyes(page)
    page.goto(f"{served.live.shop.public_url}/ops/tasks")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    expect(page.get_by_text("Do not pay it back yourself")).to_have_count(2)
    eyes.look_on(f"{kind}: to do")
    page.get_by_role("button", name=re.compile("Done.*W1001")).click()
    expect(page.get_by_role("heading", name=f"{kind}, order W1001")).to_have_count(0)
    served.wait_for_refund("paid")
    wait_until(lambda: any(done in mail.text for mail in served.mails_to(ADA)), 30, "the outcome")
    page.get_by_role("button", name=re.compile("Not possible.*W1002")).click()
    expect(page.get_by_role("alert")).to_contain_text("say why it is not possible")
    page.get_by_label("Words to the customer").fill("The parcel has left.")
    page.get_by_role("button", name=re.compile("Not possible.*W1002")).click()
    expect(page.get_by_text("Nothing is to be done.")).to_be_visible()
    served.wait_for_refund("withdrawn")
    told = "> The parcel has left."
    wait_until(lambda: any(told in mail.text for mail in served.mails_to(ADA)), 30, "the reason")
    page.get_by_role("link", name="Ended").click()
    expect(page.get_by_role("heading", name=re.compile(f"^{kind}, order"))).to_have_count(2)
    eyes.look_on(f"{kind}: ended")
    assert [row.order_id for row in served.rows("SELECT order_id FROM ledger_entries")] == ["W1001"]
    assert eyes.problems == {}
    context.close()
