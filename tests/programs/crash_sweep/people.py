"""What people do on the shop's pages and by mail: managers decide, the team answers and sends drafts.

Whoever gets no answer presses again, as people do.
"""

from __future__ import annotations

import http
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http.cookiejar import Cookie, CookieJar

from flask import Flask
from flask.sessions import SecureCookieSessionInterface

from mailagent.store.console import sessions
from mailagent.web.guard import SESSION_KEY
from tests.cast import TESS
from tests.programs.crash_sweep.shop import SECRET_KEY, SweptShop


def decide(shop: SweptShop, manager: str, decision: str) -> None:
    """Press a button on a manager's page until the app has lived long enough to record it."""
    link = re.search(r"http://127\.0\.0\.1:\d+/approvals/\S+", _first_mail(shop, manager))
    assert link is not None
    shop.wait(lambda: open_page(link[0]) is not None, "the page to open")
    assert not _has_decided(shop, manager), "opening the page has decided"
    shop.wait(lambda: _press(shop, link[0], manager, decision), f"the decision of {manager}")


def _first_mail(shop: SweptShop, manager: str) -> str:
    return shop.wait_for_mails(manager)[0].text


def _press(shop: SweptShop, link: str, manager: str, decision: str) -> bool:
    was_recorded = _has_decided(shop, manager)
    if _post_form(_browser(CookieJar()), link, {"decision": decision}) is None:
        return False
    # Whoever presses again after the crash is shown what was recorded by the first press.
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
            path, form = f"/ops/drafts/{row.draft_id}", {"action": "send"}
            _post_form(browser, f"{shop.url}{path}", form)
        waiting = shop.rows("SELECT 1 FROM drafts WHERE state = 'waiting'")
        return bool(shop.mails_to(address)) and not waiting and shop.is_quiet()

    shop.wait(have_been_sent, "the drafts to be sent")


def press(shop: SweptShop, person: str, page: str, path: str, **fields: str) -> None:
    """Press a button on a page of the console with all that its form holds, the same form again until there
    is an answer; that somebody, or the first click, was faster is an answer, too."""
    browser, form = _logged_in(shop, person), dict[str, str]()

    def is_open() -> bool:
        form.update(_FIELDS.findall(_fetch(browser, f"{shop.url}{page}") or ""))
        return "csrf_token" in form

    shop.wait(is_open, f"{page} to open")
    sent = urllib.parse.urlencode({**form, **fields}).encode()
    shop.wait(lambda: _fetch(browser, f"{shop.url}{path}", sent) is not None, f"{path} to answer")


_FIELDS = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


def _fetch(
    browser: urllib.request.OpenerDirector, url: str, form: bytes | None = None
) -> str | None:
    """Return what a page answers, a refusal too, or None when there was no answer or a failure of ours."""
    try:
        page: str = browser.open(url, form, timeout=10).read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.read().decode() if refusal.code == http.HTTPStatus.CONFLICT else None
    except (OSError, http.client.HTTPException):
        return None
    return page


def _logged_in(shop: SweptShop, email: str) -> urllib.request.OpenerDirector:
    """Return a browser in which one of the shop's people is logged in to the console."""
    secret, now = sessions.new_secret(), datetime.now(UTC)
    with shop.database.transaction() as connection:
        sessions.begin(connection, secret, email, now, now + timedelta(hours=1))
    app = Flask("browser")
    app.secret_key = SECRET_KEY
    serializer = SecureCookieSessionInterface().get_signing_serializer(app)
    assert serializer is not None
    value = str(serializer.dumps({SESSION_KEY: secret}))
    jar = CookieJar()
    jar.set_cookie(
        Cookie(0, "mailagent", value, None, False, "127.0.0.1", True, False, "/", True, False,
               None, False, None, None, {})
    )  # fmt: skip
    return _browser(jar)


def _browser(jar: CookieJar) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar)
    )


def open_page(url: str) -> str | None:
    """Open a page, as scanners of mail do; return it, or None when there was no answer."""
    try:
        page: str = _browser(CookieJar()).open(url, timeout=10).read().decode()
    except (OSError, http.client.HTTPException):
        return None
    return page


def _post_form(
    browser: urllib.request.OpenerDirector, url: str, fields: Mapping[str, str]
) -> str | None:
    """Open a page and post its form, if it still has one; return the page that came of it, or None when
    there was no answer."""
    try:
        page: str = browser.open(url, timeout=10).read().decode()
        token = re.search(r'name="csrf_token" value="([^"]+)"', page)
        if token is None:
            return page
        form = urllib.parse.urlencode({**fields, "csrf_token": token[1]})
        answer: str = browser.open(url, form.encode(), timeout=10).read().decode()
    except (OSError, http.client.HTTPException):
        return None
    return answer
