"""What people do on the shop's pages and by mail: managers decide, the team answers and sends drafts.

A person who gets no answer presses the button again.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import httpx2
from flask import Flask
from flask.sessions import SecureCookieSessionInterface

from mailagent.demo.story import find_csrf_token
from mailagent.store.console import sessions
from mailagent.web.guard import SESSION_KEY
from tests.cast import TESS
from tests.programs.crash_sweep.shop import SECRET_KEY, SweptShop

_FIELDS = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


def decide(shop: SweptShop, manager: str, decision: str, **fields: str) -> None:
    """Press a button on a manager's page until the app has lived long enough to record it."""
    link = re.search(r"http://127\.0\.0\.1:\d+/approvals/\S+", shop.wait_for_mails(manager)[0].text)
    assert link is not None
    shop.wait(lambda: open_page(link[0]) is not None, "the page to open")
    assert not _has_decided(shop, manager), "opening the page has decided"
    shop.wait(
        lambda: _press(shop, link[0], manager, decision, **fields), f"the decision of {manager}"
    )


def _press(shop: SweptShop, link: str, manager: str, decision: str, **fields: str) -> bool:
    was_recorded = _has_decided(shop, manager)
    with _browser() as browser:
        if _post_form(browser, link, decision=decision, **fields) is None:
            return False
    # A manager who presses again after the crash is shown what the first press recorded.
    return was_recorded or _has_decided(shop, manager)


def _has_decided(shop: SweptShop, manager: str) -> bool:
    return bool(
        shop.rows(
            "SELECT 1 FROM decisions WHERE decided_by = :who"
            " UNION ALL SELECT 1 FROM countersignatures WHERE decided_by = :who",
            who=manager,
        )
    )


def decide_by_mail(shop: SweptShop, manager: str, word: str) -> None:
    """Answer the mail that asks a manager."""
    request = shop.wait_for_mails(manager)[0]
    shop.write(
        word, from_address=manager, from_name="Mona", to=request.reply_to,
        subject=f"Re: {request.subject}",
    )  # fmt: skip


def send_drafts(shop: SweptShop, address: str) -> None:
    """Send every draft that waits until a customer has an answer and no draft waits any more."""
    browser = _logged_in(shop, TESS)

    def have_been_sent() -> bool:
        for row in shop.rows("SELECT draft_id FROM drafts WHERE state = 'waiting'"):
            _post_form(browser, f"{shop.url}/ops/drafts/{row.draft_id}", action="send")
        waiting = shop.rows("SELECT 1 FROM drafts WHERE state = 'waiting'")
        return bool(shop.mails_to(address)) and not waiting and shop.is_quiet()

    shop.wait(have_been_sent, "the drafts to be sent")


def press(shop: SweptShop, person: str, page: str, path: str, **fields: str) -> None:
    """Press a button on a page of the console with all that its form holds, the same form again until there
    is an answer. A refusal because the first click was recorded is an answer, too."""
    browser, form = _logged_in(shop, person), dict[str, str]()

    def is_open() -> bool:
        form.update(_FIELDS.findall(_answer(browser, "GET", f"{shop.url}{page}") or ""))
        return "csrf_token" in form

    shop.wait(is_open, f"{page} to open")
    sent = {**form, **fields}
    shop.wait(
        lambda: _answer(browser, "POST", f"{shop.url}{path}", sent) is not None, f"{path} to answer"
    )


def open_page(url: str) -> str | None:
    """Open a page, as scanners of mail do; return it, or None when there was no answer."""
    with _browser() as browser:
        return _answer(browser, "GET", url)


def _post_form(browser: httpx2.Client, url: str, **fields: str) -> str | None:
    """Open a page and post its form, if it still has one; return the last page, or None without an answer."""
    page = _answer(browser, "GET", url)
    token = find_csrf_token(page or "")
    if token is None:
        return page
    return _answer(browser, "POST", url, {**fields, "csrf_token": token})


def _answer(
    browser: httpx2.Client, method: str, url: str, form: dict[str, str] | None = None
) -> str | None:
    """Return a page, or that of a refused conflict; None when there was no answer, or another failure."""
    try:
        answer = browser.request(method, url, data=form)
    except httpx2.HTTPError:
        return None
    return answer.text if answer.is_success or answer.status_code == 409 else None


def _browser() -> httpx2.Client:
    return httpx2.Client(timeout=10, follow_redirects=True, trust_env=False)


def _logged_in(shop: SweptShop, email: str) -> httpx2.Client:
    """Return a browser in which one of the shop's people is logged in to the console."""
    secret, now = sessions.new_secret(), datetime.now(UTC)
    with shop.database.transaction() as connection:
        sessions.begin(connection, secret, email, now, now + timedelta(hours=1))
    app = Flask("browser")
    app.secret_key = SECRET_KEY
    serializer = SecureCookieSessionInterface().get_signing_serializer(app)
    assert serializer is not None
    browser = _browser()
    browser.cookies.set("mailagent", str(serializer.dumps({SESSION_KEY: secret})), "127.0.0.1")
    return browser
