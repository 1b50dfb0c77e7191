"""A conversation as the team works on it: what the customer wrote beside the answer, machines folded away."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Browser, FilePayload, FloatRect, Locator, Page, expect

from mailagent import services
from mailagent.domain.refunds.policy import KeepOffers, Policy
from mailagent.domain.refunds.refund import RefundReason
from mailagent.store import schema
from tests.browser.eyes import DESKTOP, Eyes
from tests.browser.people import PHONE, log_in, log_in_again
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, TESS, big_order, order
from tests.harness import Harness

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

HUMAN = "I want to talk to a human please."


@pytest.fixture
def handed_over(served: Harness) -> Harness:
    """A shop whose agent has proposed a refund, and then left the conversation to people."""
    served.stock(big_order())
    served.write(DESK_WISH)
    (answer,) = served.wait_for_mails(ADA)
    served.write(HUMAN, in_reply_to=answer.message_id, subject="Re: My order")
    served.wait_for_mails(ADA, 2)
    served.wait_for_mails(TESS)
    return served


def opened(shop: Harness, page: Page) -> Page:
    """Open the one conversation."""
    (row,) = shop.rows("SELECT conversation_id FROM conversations")
    page.goto(f"{shop.live.shop.public_url}/ops/conversations/{row.conversation_id}")
    return page


def box(place: Locator) -> FloatRect:
    found = place.bounding_box()
    assert found is not None
    return found


def test_the_last_mail_stands_beside_the_answer_and_above_it_on_a_phone(
    handed_over: Harness, browser: Browser
) -> None:
    context = log_in(handed_over, browser, TESS, viewport=DESKTOP)
    page = opened(handed_over, context.new_page())
    last, field = page.get_by_text(HUMAN).first, page.get_by_label(f"Answer {ADA}")
    note = page.get_by_text("Write an internal note")
    mail, answer = box(last), box(field)
    assert mail["x"] + mail["width"] <= answer["x"]
    assert mail["y"] < answer["y"] + answer["height"]
    assert answer["y"] + answer["height"] < DESKTOP["height"]
    assert box(note)["y"] < answer["y"]
    page.set_viewport_size(PHONE)
    mail, answer = box(last), box(field)
    assert mail["y"] < answer["y"] < mail["y"] + PHONE["height"] / 2
    assert mail["y"] < box(note)["y"] < answer["y"]
    context.close()


def test_what_machines_did_is_folded_and_can_be_read(
    handed_over: Harness, browser: Browser
) -> None:
    context = log_in(handed_over, browser, TESS, viewport=DESKTOP)
    page = opened(handed_over, context.new_page())
    expect(page.get_by_text("0 of 1 left")).to_be_visible()
    expect(page.get_by_role("link", name="Refund of $1,499.00").first).to_be_visible()
    tool = page.get_by_text("Agent used propose_refund")
    expect(tool).to_be_hidden()
    page.locator("summary").filter(has_text="tool call").click()
    expect(tool).to_be_visible()
    hand_over = page.get_by_role("heading", name=f"Our mail to {TESS}")
    expect(hand_over).to_be_hidden()
    page.locator("summary").filter(has_text="mail to our people").first.click()
    expect(hand_over).to_be_visible()
    context.close()


def test_a_conversation_is_tagged_noted_snoozed_and_closed_on_a_phone(
    handed_over: Harness, browser: Browser
) -> None:
    context = log_in(handed_over, browser, TESS, viewport=PHONE, java_script_enabled=False)
    phone = opened(handed_over, context.new_page())
    phone.get_by_label("New tag").fill("Furniture")
    phone.get_by_role("button", name="Add tag").click()
    expect(phone.get_by_role("button", name="Remove the tag furniture")).to_be_visible()
    phone.get_by_text("Write an internal note").click()
    phone.get_by_label("Note", exact=True).fill("She has called twice.")
    phone.get_by_role("button", name="Save the note").click()
    expect(phone.get_by_text("She has called twice.")).to_be_visible()
    phone.get_by_label("Snooze for").select_option("1 day")
    phone.get_by_role("button", name="Snooze").click()
    expect(phone.get_by_text("or until the customer writes")).to_be_visible()
    phone.get_by_role("link", name="Conversations").click()
    expect(phone.get_by_text("No conversation is here.")).to_be_visible()
    phone.get_by_role("link", name="Snoozed").click()
    phone.get_by_text("Filters", exact=True).click()
    phone.get_by_label("Tag").select_option("furniture")
    phone.get_by_role("button", name="Show").click()
    phone.get_by_role("link", name="My order").click()
    phone.get_by_role("button", name="Close", exact=True).click()
    expect(phone.get_by_role("button", name="Reopen")).to_be_visible()
    phone.get_by_role("link", name="Conversations").click()
    phone.get_by_role("link", name="Closed").click()
    expect(phone.get_by_role("link", name="My order")).to_be_visible()
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    context.close()


def test_every_state_of_a_refund_by_the_team(handed_over: Harness, browser: Browser) -> None:
    handed_over.stock(order())
    context = log_in(handed_over, browser, TESS, viewport=PHONE)
    page = opened(handed_over, context.new_page())
    eyes = Eyes(page)
    page.get_by_role("link", name="Refund items of W1001").click()
    eyes.look_on("asked")
    page.get_by_role("button", name="Work out the amount").click()
    expect(page.get_by_role("heading", name="Nothing was refunded")).to_be_visible()
    eyes.look_on("a problem")
    page.get_by_label("Kettle").fill("1")
    page.get_by_role("button", name="Work out the amount").click()
    expect(page.get_by_text("It is approved at once.")).to_be_visible()
    eyes.look_on("worked out")
    page.get_by_role("button", name="Refund $49.99").click()
    expect(page.get_by_role("link", name="Refund of $49.99").first).to_be_visible()
    assert eyes.problems == {}
    context.close()


def test_a_begun_answer_stays_until_it_is_sent_or_its_author_logs_out(
    handed_over: Harness, browser: Browser
) -> None:
    context = log_in(handed_over, browser, TESS, viewport=DESKTOP)
    page = opened(handed_over, context.new_page())
    eyes = Eyes(page)
    field, begun = page.get_by_label(f"Answer {ADA}"), "Dear Ada,\nI have looked into it."
    field.fill(begun)
    page.get_by_label("New tag").fill("furniture")
    for button in (
        "Add tag", "Assign", "Change language", "Snooze", "Bring back now", "Close", "Reopen",
    ):  # fmt: skip
        page.get_by_role("button", name=button, exact=True).click()
        page.wait_for_load_state()
        expect(field).to_have_value(begun)
        if button in ("Assign", "Snooze", "Close"):
            eyes.look_on(button)
    assert eyes.problems == {}
    with handed_over.live.database.transaction() as connection:
        connection.execute(schema.sessions.delete())  # the login has ended
    page.get_by_role("button", name="Send the answer").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in_again(handed_over, context, TESS)
    opened(handed_over, page)
    expect(field).to_have_value(begun)
    page.get_by_role("button", name="Send the answer").click()
    expect(page.get_by_text("I have looked into it.").first).to_be_visible()
    for _ in range(2):
        expect(field).to_have_value("")
        page.reload()
    field.fill("And one thing more")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    context.close()


def test_the_team_refunds_one_of_three_mugs_from_the_conversation(
    served: Harness, browser: Browser
) -> None:
    mugs = [{"item_id": "M1", "name": "Mug", "quantity": 3, "unit_price": "10.00"}]
    paid = [{"payment_id": "pay_mugs", "method": "card", "amount": "30.00"}]
    served.stock(order(items=mugs, payments=paid))
    served.write("Hello, which orders of mine do you have?")
    served.wait_for_mails(ADA)
    context = log_in(served, browser, TESS, viewport=PHONE, java_script_enabled=False)
    phone = opened(served, context.new_page())
    phone.get_by_role("link", name="Refund items of W1001").click()
    phone.get_by_label("Mug").fill("1")
    phone.get_by_role("button", name="Work out the amount").click()
    expect(phone.get_by_role("status")).to_contain_text("$10.00. It is approved at once.")
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    phone.get_by_role("button", name="Refund $10.00").dblclick()
    expect(phone.get_by_role("link", name="Refund of $10.00")).to_be_visible()
    served.wait_for_refund("paid")
    receipt = served.wait_for_mails(ADA, 2)[-1]
    assert "$10.00" in receipt.text
    assert len(served.rows("SELECT 1 FROM ledger_entries")) == 1
    context.close()


def test_a_saved_reply_is_written_chosen_and_sent(handed_over: Harness, browser: Browser) -> None:
    context = log_in(handed_over, browser, TESS, viewport=PHONE, java_script_enabled=False)
    phone = opened(handed_over, context.new_page())
    phone.get_by_role("link", name="Saved replies").click()
    phone.get_by_label("Name").fill("Call")
    phone.get_by_label("Text").fill("Dear {{nobody}}, we call you.")
    phone.get_by_role("button", name="Save").click()
    expect(phone.get_by_text("There is no {{nobody}}")).to_be_visible()
    phone.get_by_label("Text").fill("Dear {{customer_name}}, we call you.")
    phone.get_by_role("button", name="Save").click()
    expect(phone.get_by_role("link", name="Call")).to_be_visible()
    opened(handed_over, phone)
    field = phone.get_by_label(f"Answer {ADA}")
    field.fill("Good morning!")
    phone.get_by_role("button", name="Insert").click()
    expect(field).to_have_value("Good morning!\n\nDear Ada Example, we call you.")
    phone.get_by_role("button", name="Send the answer").dblclick()
    answer = handed_over.wait_for_mails(ADA, 3)[-1]
    assert "Dear Ada Example, we call you." in answer.text
    context.close()


def test_an_answer_with_a_file_reaches_the_customer_and_stays_in_the_conversation(
    handed_over: Harness, browser: Browser
) -> None:
    context = log_in(handed_over, browser, TESS, viewport=PHONE, java_script_enabled=False)
    phone = opened(handed_over, context.new_page())
    phone.get_by_label(f"Answer {ADA}").fill("Here is the manual.")
    program: FilePayload = {"name": "run.exe", "mimeType": "text/plain", "buffer": b"MZ"}
    manual: FilePayload = {"name": "manual.pdf", "mimeType": "text/plain", "buffer": b"%PDF-1.7"}
    for file in (program, manual):
        phone.get_by_label("Files").set_input_files([file])
        phone.get_by_role("button", name="Send the answer").click()
        if file is program:
            expect(phone.get_by_text("“run.exe” cannot be sent").first).to_be_visible()
            expect(phone.get_by_text("Choose your files again")).to_be_visible()
            assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    answer = handed_over.wait_for_mails(ADA, 3)[-1]
    assert [(each.name, each.content) for each in answer.files] == [("manual.pdf", b"%PDF-1.7")]
    with phone.expect_download() as download:
        phone.get_by_role("link", name="manual.pdf").click()
    assert download.value.suggested_filename == "manual.pdf"
    context.close()


def test_a_search_finds_a_name_and_says_when_it_finds_nothing(
    handed_over: Harness, browser: Browser
) -> None:
    context = log_in(handed_over, browser, TESS, viewport=PHONE, java_script_enabled=False)
    phone = context.new_page()
    phone.goto(f"{handed_over.live.shop.public_url}/ops/search")
    field = phone.get_by_label("Order, address, name, words, or any id")
    field.fill("zebra")
    field.press("Enter")
    expect(phone.get_by_role("status")).to_contain_text("Nothing was found for “zebra”")
    field.fill("Ada Example")
    field.press("Enter")
    expect(phone.get_by_role("link", name=HUMAN).first).to_be_visible()
    phone.get_by_role("link", name="Conversations").last.click()
    expect(phone.get_by_role("link", name="My order")).to_be_visible()
    context.close()


def test_the_parcels_of_an_order_stand_beside_the_answer(served: Harness, browser: Browser) -> None:
    link = "https://dhl.example/track/JD0141"
    sent = {"shipment_id": "S1", "status": "out_for_delivery", "shipped_at": "2999-01-02T09:00:00Z"}
    named = {"carrier": "DHL", "tracking_number": "JD0141", "tracking_url": link}
    served.stock(order(status="shipped", delivered_at=None, shipments=[sent | named]))
    served.write(HUMAN)
    served.wait_for_mails(TESS)
    context = log_in(served, browser, TESS, viewport=PHONE)
    page = opened(served, context.new_page())
    parcel = page.get_by_role("link", name="DHL JD0141")
    expect(parcel).to_have_attribute("href", link)
    expect(page.get_by_text(": out for delivery, handed over 2 January 2999")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    context.close()


def test_an_offer_stands_with_its_order(served: Harness, browser: Browser) -> None:
    offers = KeepOffers({RefundReason.DAMAGED: 30})
    services.bind(replace(served.live, policy=Policy(keep_offers=offers)))
    served.stock(order())
    served.write(KETTLE_WISH)
    served.wait_for_mails(ADA)
    context = log_in(served, browser, TESS, viewport=PHONE)
    page = opened(served, context.new_page())
    expect(page.get_by_text("Offered $14.99 (30 %) if they keep the items")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    context.close()
