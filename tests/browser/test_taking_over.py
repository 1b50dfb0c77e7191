"""Somebody of the team takes a conversation over, answers as themselves, and gives it back: on a phone, without
JavaScript."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.people import PHONE, log_in
from tests.cast import ADA, TESS, order
from tests.harness import Harness

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


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
