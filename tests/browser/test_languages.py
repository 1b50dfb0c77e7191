"""Pages in the reader's language: by their browser, and by their own choice."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.eyes import Eyes
from tests.browser.people import PHONE, log_in
from tests.cast import MONA
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.web.doors import furnish

pytestmark = ONE_DATABASE


# The name of the language, the inbox, what waits for a manager, and the button that approves.
WORDS = {
    "de-AT": ("Deutsch", "Eingang", "Wartet auf einen Manager", "Erstattung genehmigen"),
    "pl-PL": ("Polski", "Skrzynka", "Czeka na menedżera", "Zatwierdź zwrot"),
}


@pytest.mark.parametrize("locale", WORDS)
def test_a_page_is_in_the_browsers_language_or_the_chosen_one(
    served: Harness, browser: Browser, locale: str
) -> None:
    name, inbox, waiting, approve = WORDS[locale]
    url = served.live.shop.public_url
    approval = f"{url}/approvals/{furnish(served).values['token']}"
    for asked, chosen in ((locale, ""), ("en-US", name)):
        context = log_in(served, browser, MONA, viewport=PHONE, locale=asked)
        page = context.new_page()
        eyes = Eyes(page)
        page.goto(f"{url}/ops")
        if chosen:
            expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
            page.get_by_label("Language").select_option(chosen)
            page.get_by_role("button", name="Change language").click()
        expect(page.get_by_role("heading", name=inbox)).to_be_visible()
        expect(page.get_by_role("link", name=waiting).first).to_be_visible()
        expect(page.locator("html")).to_have_attribute("lang", locale[:2])
        eyes.look_on("inbox")
        eyes.look(approval, "approval")
        expect(page.get_by_role("button", name=approve)).to_be_visible()
        assert eyes.problems == {}
        context.close()
