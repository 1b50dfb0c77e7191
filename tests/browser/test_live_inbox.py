"""The inbox while it is open: it says what is new, and nothing moves by itself."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.cast import OLGA
from tests.stage import Stage, beside
from tests.store.test_inbox import lose_mail


def test_an_open_inbox_says_what_is_new_and_shows_it_when_asked(
    served: Stage, browser: Browser
) -> None:
    client = served.log_in(OLGA)
    cookie = client.get_cookie(served.app.config["SESSION_COOKIE_NAME"])
    assert cookie is not None
    url = served.live.shop.public_url
    context = browser.new_context()
    context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": url}])
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda message: problems.extend(
            [message.text] if "favicon" not in message.location["url"] else []
        ),
    )
    page.goto(f"{url}/ops")
    expect(page.get_by_text("Nothing waits for anybody")).to_be_visible()

    def lose() -> None:
        with served.live.database.transaction() as connection:
            lose_mail(connection, "late", minutes=60 * 24 * 365)

    beside(lose)
    # It asks every ten seconds, and whenever somebody comes back to the page.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    link = page.get_by_role("link", name="1 new – show")
    expect(link).to_be_visible()
    expect(page).to_have_title("(1) Inbox")
    expect(page.locator("[data-count=undelivered]")).to_have_text("1")
    expect(page.get_by_role("heading", name="Mail that did not arrive")).to_have_count(0)
    link.click()
    expect(page.get_by_role("heading", name="Mail that did not arrive")).to_be_visible()
    assert problems == []
    context.close()
