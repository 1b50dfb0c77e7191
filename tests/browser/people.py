"""The shop's people in front of their browsers."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ViewportSize

from tests.harness import Harness

# The smallest that pages are made for.
PHONE: ViewportSize = {"width": 320, "height": 740}


def log_in(harness: Harness, browser: Browser, email: str, **options: Any) -> BrowserContext:
    """Return a browser in which somebody is logged in; `options` are those of the window."""
    context = browser.new_context(**options)
    log_in_again(harness, context, email)
    return context


def log_in_again(harness: Harness, context: BrowserContext, email: str) -> None:
    client = harness.log_in(email)
    name = harness.app.config["SESSION_COOKIE_NAME"]
    cookie = client.get_cookie(name)
    assert cookie is not None
    url = harness.live.shop.public_url
    context.add_cookies([{"name": name, "value": cookie.value, "url": url}])


def link_in(text: str, path: str) -> str:
    """Return the link to `path` in the text of a mail."""
    found = re.search(rf"http://127\.0\.0\.1:\d+{path}\S+", text)
    assert found is not None, text
    return found[0]
