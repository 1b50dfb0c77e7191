"""The manager of the demo's story at a browser: follows the mailed link and sends the form."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from html import unescape
from http.cookiejar import CookieJar
from urllib.parse import urlencode

from mailagent.demo.mailboxes import SentMail

_LINK = re.compile(r"https?://\S+/approvals/[^\s>)\]\"']+")
_CSRF_FIELD = re.compile(r"<input[^>]*name=\"csrf_token\"[^>]*>")
_VALUE = re.compile(r"value=\"([^\"]+)\"")


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    html: str

    def says(self, text: str) -> bool:
        return text.lower() in unescape(self.html).lower()

    @property
    def csrf_token(self) -> str | None:
        field = _CSRF_FIELD.search(self.html)
        value = _VALUE.search(field[0]) if field else None
        return unescape(value[1]) if value else None


def find_link(mail: SentMail) -> str | None:
    """Return the approval link in a manager's mail."""
    found = _LINK.search(mail.text)
    return found[0] if found else None


class Browser:
    """Keeps cookies, as the CSRF protection expects."""

    def __init__(self) -> None:
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(CookieJar()),
        )

    def open(self, url: str) -> Page:
        """Follow a link. Raises OSError when the app does not answer."""
        return self._fetch(urllib.request.Request(url))  # noqa: S310 - a link of our own app

    def send(self, url: str, **fields: str) -> Page | None:
        """Send a form; None when the answer was lost because the app died meanwhile."""
        request = urllib.request.Request(url, urlencode(fields).encode(), {"Referer": url})  # noqa: S310 - a link of our own app
        try:
            return self._fetch(request)
        except (OSError, http.client.HTTPException):
            return None

    def _fetch(self, request: urllib.request.Request) -> Page:
        try:
            with self._opener.open(request, timeout=10) as answer:
                return Page(answer.status, answer.read().decode("utf-8", "replace"))
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Page(refusal.code, refusal.read().decode("utf-8", "replace"))
