"""What no page of ours may have in it, and what is reached from a page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser

from flask.testing import FlaskClient

from tests.web.doors import visit

PAGES_MAX = 300

_OUTSIDE = re.compile(r"\s*(javascript|data|vbscript|https?):|//", re.IGNORECASE)
_LEADS = ("href", "src", "action", "formaction", "data", "srcdoc", "poster")
_CODE = {"iframe", "object", "embed", "base", "svg", "math", "xss"}


class PageSource(HTMLParser):
    """Reads a page: its problems (inline code, anything from outside), where it leads, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.problems: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.html = html
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        is_chart = tag == "svg" and "viewbox" in values  # as our templates draw them
        if (
            (tag in _CODE and not is_chart)
            or tag == "style"
            or (tag == "script" and "src" not in values)
        ):
            self.problems.append(f"<{tag}>")
        if tag == "meta" and "http-equiv" in values:
            self.problems.append("<meta http-equiv>")
        self.problems += [name for name in values if name == "style" or name.startswith("on")]
        self.problems += [
            values[name] for name in _LEADS if name in values and _OUTSIDE.match(values[name])
        ]
        if tag == "a" and "href" in values:
            self.links.append(values["href"])

    def handle_data(self, data: str) -> None:
        self.text += data


def crawl(client: FlaskClient, starts: Iterable[str]) -> dict[str, PageSource]:
    """Open pages and whatever they lead to on our own site; return each HTML page by its address."""
    waiting, pages = list(starts), dict[str, PageSource]()
    seen = set(waiting)
    while waiting and len(pages) < PAGES_MAX:
        path = waiting.pop(0)
        answer, text = visit(client, path)
        assert answer.status_code < 500, (path, answer.status)
        if answer.mimetype != "text/html":
            continue
        pages[path] = PageSource(text)
        found = [link.partition("#")[0] for link in pages[path].links]
        fresh = [link for link in found if link.startswith("/") and link not in seen]
        seen.update(fresh)
        waiting += dict.fromkeys(fresh)
    return pages
