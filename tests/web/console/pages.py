"""The text of a console page."""

from __future__ import annotations

import re
from html import unescape

from flask.testing import FlaskClient

SCRIPT = "<script>alert('x')</script>"


def plain(page: str) -> str:
    """Return the words of a page, on one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def read_pages(client: FlaskClient, path: str) -> list[str]:
    """Return the pages of a list, from `path` on, by the links to the next one."""
    pages = []
    while path:
        pages.append(client.get(path).text)
        following = re.search(r'rel="next" href="([^"]+)"', pages[-1])
        path = unescape(following[1]) if following else ""
    return pages
