"""The manager's page as a manager uses it: on a phone, without JavaScript, with impatient fingers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from mailagent import services
from mailagent.domain.refunds.policy import KeepOffers, ManagerReason
from mailagent.store import schema
from tests.cast import ADA, DESK_WISH, JUERGEN, MAX, MONA, big_order, order
from tests.databases import ONE_DATABASE
from tests.harness import Harness, post_form

PHONE: ViewportSize = {"width": 360, "height": 740}


@pytest.fixture
def link(served: Harness) -> str:
    served.stock(big_order())
    served.write(DESK_WISH)
    (request,) = served.wait_for_mails(MONA)
    found = re.search(r"http://127\.0\.0\.1:\d+/approvals/\S+", request.text)
    assert found is not None
    return found[0]


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=PHONE, java_script_enabled=False, is_mobile=True)
    yield context.new_page()
    context.close()


def test_approving_on_a_phone_without_javascript(served: Harness, link: str, phone: Page) -> None:
    phone.goto(link)
    expect(phone.get_by_role("heading", name="Refund $1,499.00?")).to_be_visible()
    expect(phone.get_by_text("The standing desk of order W2001 is damaged").first).to_be_visible()
    phone.get_by_text("Approve less, or add a note").click()
    phone.get_by_role("textbox", name="Note").fill("Known fault")
    phone.get_by_role("button", name="Approve the refund").click()
    expect(phone.get_by_role("heading", name="Refund of $1,499.00 approved")).to_be_visible()
    assert served.wait_for_refund("paid").note == "Known fault"
    served.wait_for_mails(ADA, 2)


def test_offering_part_of_the_price_on_a_phone(served: Harness, link: str, phone: Page) -> None:
    rules = replace(services.current().policy, keep_offers=KeepOffers({}))
    services.bind(replace(services.current(), policy=rules))
    phone.goto(link)
    phone.get_by_text("Offer part of the price instead").click()
    phone.get_by_label("Percent of the price of the chosen items").fill("0")
    phone.get_by_role("button", name="Offer it").click()
    expect(phone.get_by_text("Please offer from 1 to 99 percent").first).to_be_visible()
    phone.get_by_label("Percent of the price of the chosen items").fill("30")
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    phone.get_by_role("button", name="Offer it").click()
    expect(phone.get_by_text("Offered instead: 30 % of the price")).to_be_visible()
    assert "Then we refund $449.70" in served.wait_for_mails(ADA, 2)[-1].text
    assert not served.rows("SELECT * FROM ledger_entries")


def test_a_double_click_pays_once(served: Harness, link: str, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(link)
    page.get_by_role("button", name="Approve the refund").dblclick()
    served.wait_for_refund("paid")
    page.goto(link)
    expect(page.get_by_role("heading", name="Refund of $1,499.00 approved")).to_be_visible()
    assert len(served.rows("SELECT * FROM ledger_entries")) == 1
    page.close()


def test_return_in_a_field_decides_nothing(served: Harness, link: str, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(link)
    page.get_by_text("Approve less, or add a note").click()
    page.get_by_label("Approve a lower amount").press("Enter")
    page.wait_for_timeout(300)
    assert served.refunds()[0].status == "awaiting_approval"
    page.close()


def test_nothing_on_the_page_breaks_its_own_policy(link: str, browser: Browser) -> None:
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(link)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0
    expect(page.get_by_role("button", name="Approve the refund")).to_be_visible()
    assert [text for text in complaints if "status of 404" not in text] == []
    page.close()


@ONE_DATABASE
@pytest.mark.parametrize("has_script", [True, False])
def test_times_are_in_the_managers_zone_and_in_utc_without_a_script(
    served: Harness, link: str, browser: Browser, has_script: bool
) -> None:
    context = browser.new_context(timezone_id="Asia/Kolkata", java_script_enabled=has_script)
    page = context.new_page()
    page.goto(link)
    for state in ("open", "decided"):
        text = page.locator("main").text_content() or ""
        assert ("UTC" in text) != has_script, state
        assert bool(re.search(r"\d+ \w+ \d{4}, \d\d:\d\d GMT\+5:30", text)) == has_script, state
        if state == "open":
            page.get_by_role("button", name="Approve the refund").click()
            expect(page.get_by_role("heading", name=re.compile("approved"))).to_be_visible()
            page.wait_for_load_state()
    context.close()


@ONE_DATABASE
def test_of_two_managers_at_once_the_first_decides_and_the_other_is_told_who(
    served: Harness, link: str, browser: Browser
) -> None:
    (approval,) = served.rows("SELECT approval_id FROM approvals")
    second_link = served.live.links.sign_approval(approval.approval_id, MAX)
    mona, max_ = browser.new_context().new_page(), browser.new_context().new_page()
    for page, opened in ((mona, link), (max_, second_link)):
        page.goto(opened)
        expect(page.get_by_role("button", name="Approve the refund")).to_be_visible()
    mona.get_by_role("button", name="Reject it").click()
    expect(mona.get_by_role("heading", name="Refund of $1,499.00 rejected")).to_be_visible()
    max_.get_by_role("button", name="Approve the refund").click()
    expect(max_.get_by_role("heading", name="Refund of $1,499.00 rejected")).to_be_visible()
    expect(max_.get_by_text(f"By {MONA}")).to_be_visible()
    assert served.wait_for_refund("rejected").decided_by == MONA
    assert served.rows("SELECT * FROM ledger_entries") == []
    mona.context.close()
    max_.context.close()


@ONE_DATABASE
def test_approving_with_the_keyboard_alone(served: Harness, link: str, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(link)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # what is folded
    press_tab_until(page, "note")
    page.keyboard.type("Known fault")
    press_tab_until(page, "approve")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Refund of $1,499.00 approved")).to_be_visible()
    assert served.wait_for_refund("paid").note == "Known fault"
    page.close()


def press_tab_until(page: Page, wanted: str) -> None:
    """Go on until a field of this name, or a button of this value, is in focus."""
    focused = "[document.activeElement.name, document.activeElement.value]"
    for _ in range(40):
        page.keyboard.press("Tab")
        if wanted in page.evaluate(focused):
            return
    raise AssertionError(f"no Tab leads to {wanted}")


# --- in view on a phone ---------------------------------------------------------------------------

LONG = "Weatherproof standing desk with two drawers, walnut, and a very long name"


def make_biggest(served: Harness) -> str:
    """Have Max asked for the second approval of a refund that everything is known about; return his link."""
    items = [
        {"item_id": f"D{each}", "name": f"{LONG} {each}", "quantity": 3, "unit_price": "41111.11"}
        for each in range(12)
    ]
    paid = [{"payment_id": "pay_1", "method": "card", "amount": "1479999.96"}]
    name = "Wilhelmine Adelheid Friederike von und zu Hohenlohe-Langenburg-Schillingsfürst"
    customer = {"email": ADA, "name": name}
    served.stock(order("W2001", items=items, payments=paid, customer=customer))
    words = "The standing desks of order W2001 are damaged, please refund all. " * 40
    served.write(words)
    served.wait_for_mails(MONA)
    limits = {"total": 147999996, "limit": 100000, "count": 9, "most": 3}
    facts = {"exceeded": dict.fromkeys(map(str, ManagerReason), limits)}
    with served.live.database.transaction() as connection:
        change = schema.refunds.update().values(
            four_eyes=True, policy_reasons=list(ManagerReason), policy_facts=facts
        )
        connection.execute(change)
    (approval,) = served.rows("SELECT approval_id FROM approvals")
    sign = served.live.links.sign_approval
    path = sign(approval.approval_id, MONA).replace(served.live.shop.public_url, "")
    post_form(
        served.client, path, decision="approve", note="A known fault. " * 60, amount="1479999"
    )
    with served.live.database.transaction() as connection:
        connection.execute(
            schema.orders.update().values(status="cancelled", customer_email=JUERGEN)
        )
    return sign(approval.approval_id, MAX)


def assert_in_view(needed: Iterable[Locator], height: int) -> None:
    for each in needed:
        box = each.bounding_box()
        assert box is not None
        assert box["height"] > 0
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= height, each


@ONE_DATABASE
@pytest.mark.parametrize(("width", "height"), [(390, 844), (320, 640), (320, 568)])
def test_the_decision_is_in_view_on_a_phone(
    served: Harness, browser: Browser, width: int, height: int
) -> None:
    link = make_biggest(served)
    context = browser.new_context(
        viewport={"width": width, "height": height}, java_script_enabled=False, is_mobile=True
    )
    page = context.new_page()
    page.goto(link)
    needed = (
        page.get_by_role("heading", name="Refund $1,479,999.00?"),
        page.get_by_text("above the limit of $1,000.00.").first,
        page.get_by_text("The standing desks of order W2001 are damaged").first,
        page.get_by_role("button", name="Approve the refund"),
        page.get_by_role("button", name="Reject it"),
    )
    assert_in_view(needed, height)
    for name in ("Why you are asked", "What the customer wrote", "The refund request"):
        assert page.get_by_role("heading", name=name).is_visible()
    context.close()


@ONE_DATABASE
def test_the_decision_is_in_view_in_longer_languages(served: Harness, browser: Browser) -> None:
    link = make_biggest(served)
    for language in ("de-DE", "fr-FR", "es-ES"):
        for width, height in ((360, 640), (320, 640), (320, 568)):
            context = browser.new_context(
                viewport={"width": width, "height": height}, locale=language, is_mobile=True
            )
            page = context.new_page()
            page.goto(link)
            needed = (page.locator("h1"), *page.locator("header .clamp").all())
            buttons = (page.locator("button.approve"), page.locator("button.reject"))
            assert_in_view((*needed, *buttons), height)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            context.close()


# --- taking it back -------------------------------------------------------------------------------


def let_decisions_wait(served: Harness, seconds: int) -> None:
    waits = replace(served.live.waits, approval_undo_seconds=seconds)
    services.bind(replace(served.live, waits=waits))


@ONE_DATABASE
def test_a_decision_is_taken_back_on_the_same_page(served: Harness, link: str, phone: Page) -> None:
    let_decisions_wait(served, 300)
    phone.goto(link)
    phone.get_by_role("button", name="Approve the refund").click()
    expect(phone.get_by_role("heading", name="You can take it back until")).to_be_visible()
    assert served.refunds()[0].status == "awaiting_approval"
    phone.get_by_role("button", name="Take it back").click()
    expect(phone.get_by_role("status")).to_contain_text("You have taken back your decision.")
    phone.get_by_role("button", name="Reject it").click()
    expect(phone.get_by_role("heading", name="Refund of $1,499.00 rejected")).to_be_visible()
    assert served.rows("SELECT * FROM ledger_entries") == []


@ONE_DATABASE
def test_a_late_second_click_says_that_it_changed_nothing(
    served: Harness, link: str, browser: Browser
) -> None:
    let_decisions_wait(served, 1)
    context = browser.new_context()
    first, second, third = context.new_page(), context.new_page(), context.new_page()
    first.goto(link)
    second.goto(link)
    first.get_by_role("button", name="Approve the refund").click()
    third.goto(link)
    served.wait_for_refund("paid")
    second.get_by_role("button", name="Reject it").click()
    expect(second.get_by_role("status")).to_contain_text("Your click changed nothing")
    expect(second.get_by_role("heading", name="Refund of $1,499.00 approved")).to_be_visible()
    third.get_by_role("button", name="Take it back").click()
    expect(third.get_by_role("status")).to_contain_text("the time to take it back is over")
    assert len(served.rows("SELECT * FROM ledger_entries")) == 1
    context.close()


# --- fewer items ----------------------------------------------------------------------------------


def ask_about_several(served: Harness) -> str:
    """Have Mona asked about a desk and three lamps; return her link."""
    items = [
        {"item_id": "D", "name": "Standing desk", "quantity": 1, "unit_price": "1499.00"},
        {"item_id": "L", "name": "Lamp", "quantity": 3, "unit_price": "60.50"},
    ]
    paid = [
        {"payment_id": "pay_1", "method": "card", "amount": "100.00"},
        {"payment_id": "pay_2", "method": "card", "amount": "1580.50"},
    ]
    served.stock(order("W2001", items=items, payments=paid))
    served.write("The standing desk and the lamps of order W2001 are damaged, please refund all.")
    served.wait_for_mails(MONA)
    (approval,) = served.rows("SELECT approval_id FROM approvals")
    return served.live.links.sign_approval(approval.approval_id, MONA)


def open_items(page: Page, link: str) -> None:
    page.goto(link)
    page.get_by_text("Approve less, or add a note").click()


@ONE_DATABASE
def test_the_sum_follows_the_items_and_the_payments_share_it(
    served: Harness, browser: Browser
) -> None:
    link, page = ask_about_several(served), browser.new_page()
    open_items(page, link)
    sum_ = page.locator("output")
    expect(sum_).to_have_text("$1,680.50")
    expect(page.get_by_role("button", name="Work out the sum")).to_be_hidden()
    page.get_by_label("Standing desk").uncheck()
    expect(sum_).to_have_text("$181.50")
    page.get_by_label("Lamp").fill("2")
    expect(sum_).to_have_text("$121.00")
    page.get_by_role("button", name="Approve the refund").click()
    expect(page.get_by_role("heading", name="Refund of $121.00 approved")).to_be_visible()
    refund = served.wait_for_refund("paid")
    assert (str(refund.amount), refund.item_ids) == ("121.00 USD", ("L",))
    parts = served.rows("SELECT payment_id, amount_minor FROM refund_payments ORDER BY payment_id")
    assert [tuple(each) for each in parts] == [("pay_1", 100_00), ("pay_2", 21_00)]
    page.close()


@ONE_DATABASE
def test_without_javascript_the_server_works_out_the_sum(served: Harness, phone: Page) -> None:
    open_items(phone, ask_about_several(served))
    phone.get_by_label("Lamp").fill("1")
    phone.get_by_role("button", name="Work out the sum").click()
    expect(phone.get_by_text("The chosen items come to $1,559.50")).to_be_visible()
    assert served.refunds()[0].status == "awaiting_approval"
    phone.get_by_label("Standing desk").uncheck()
    phone.get_by_label("Approve a lower amount").fill("30")
    phone.get_by_role("button", name="Approve the refund").click()
    expect(phone.get_by_role("heading", name="Refund of $30.00 approved")).to_be_visible()
    served.wait_for_refund("paid")
    (_, receipt) = served.wait_for_mails(ADA, 2)
    assert "- 1 × Lamp: $60.50" in receipt.text
    assert "All of this comes to $60.50; $30.00 of it was approved." in receipt.text


@ONE_DATABASE
def test_what_was_left_out_is_asked_for_again_and_decided_again(
    served: Harness, link: str, phone: Page
) -> None:
    open_items(phone, link)
    phone.get_by_label("Approve a lower amount").fill("1000")
    phone.get_by_role("button", name="Approve the refund").click()
    served.wait_for_refund("paid")
    served.wait_for_mails(ADA, 2)
    served.write(DESK_WISH)
    again = served.wait_for_mails(MONA, 2)[-1]
    assert "Refund $499.00?" in again.subject
    assert "$1,000.00, order W2001" in again.text
    found = re.search(r"http://127\.0\.0\.1:\d+/approvals/\S+", again.text)
    assert found is not None
    phone.goto(found[0])
    phone.get_by_role("button", name="Approve the refund").click()
    served.wait_for_mails(ADA, 4)
    assert sum(row.amount_minor for row in served.rows("SELECT * FROM ledger_entries")) == 1_499_00
