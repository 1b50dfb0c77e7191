"""A person of the team ticks tasks off, on a small phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.eyes import Eyes
from tests.browser.people import log_in
from tests.cast import ADA, TESS, order
from tests.harness import Harness, wait_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


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
    page.get_by_role("button", name=re.compile("Not possible.*W1002")).click()
    expect(page.get_by_text("Nothing is to be done.")).to_be_visible()
    assert "> It is sold out." in served.wait_for_mails(ADA, 4)[-1].text
    page.get_by_role("link", name="Ended").click()
    expect(page.get_by_text("It is sold out.")).to_be_visible()
    eyes.look_on("ended")
    assert eyes.problems == {}
    context.close()
