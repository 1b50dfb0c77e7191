"""What is wrong with a page: scripts that fail, sideways scrolling on a small phone, buttons without a style,
and what axe finds."""

from __future__ import annotations

import re
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Dialog, Page, ViewportSize

from tests.browser.people import PHONE

DESKTOP: ViewportSize = {"width": 1280, "height": 800}

# Light and dark, on a small phone and on a desk. Colours depend on the scheme, all else on the size.
LOOKS: tuple[tuple[Literal["light", "dark"], ViewportSize, bool], ...] = (
    ("light", PHONE, True),
    ("dark", PHONE, False),
    ("dark", DESKTOP, True),
    ("light", DESKTOP, False),
)
ONLY_CONTRAST = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
# The grey that Chromium gives a button of which no rule speaks.
UNSTYLED = """() => [...document.querySelectorAll("button")]
  .filter(each => getComputedStyle(each).backgroundColor == "rgb(239, 239, 239)")
  .map(each => each.textContent)"""
# What the browser itself says of a page that is one of those that say "no".
REFUSED = re.compile(r" status of (400|403|404|410|422|429)\b")


class Eyes:
    """Looks at pages in one browser, and keeps what is wrong with each."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._said: list[str] = []
        self._heard: list[tuple[str, str]] = []
        self._opened = {page.url}
        self.problems: dict[str, list[str]] = {}
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda error: self._said.append(str(error)))
        page.on("console", self._hear)
        page.on("framenavigated", lambda frame: self._opened.add(frame.url.partition("#")[0]))

    def _dismiss(self, dialog: Dialog) -> None:
        self._said.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._heard.append((message.text, message.location["url"]))

    def _is_expected(self, text: str, of: str) -> bool:
        """Return whether it is about the page that was opened, or about its icon, which may be missing."""
        return of.endswith("/favicon.ico") or (of in self._opened and bool(REFUSED.search(text)))

    def look(self, url: str, name: str) -> None:
        """Open a page and look at it, light and dark, on a small phone and on a desk."""
        self._page.goto(url)
        self.look_on(name)

    def look_on(self, name: str) -> None:
        """Look at the page that is open."""
        found: list[str] = []
        self._page.wait_for_load_state()
        for scheme, size, thorough in LOOKS:
            self._page.set_viewport_size(size)
            self._page.emulate_media(color_scheme=scheme)
            wider = self._page.evaluate("document.documentElement.scrollWidth - innerWidth")
            found += [f"{wider} px too wide for {size['width']}"] if wider > 0 else []
            found += [f"no style: {each}" for each in self._page.evaluate(UNSTYLED)]
            found += self._ask_axe(scheme, thorough)
        found += self._said
        found += [f"{text} {of}" for text, of in self._heard if not self._is_expected(text, of)]
        self._said.clear()
        self._heard.clear()
        if found:
            self.problems[name] = list(dict.fromkeys(found))

    def _ask_axe(self, scheme: str, thorough: bool) -> list[str]:
        results = Axe().run(self._page) if thorough else Axe().run(self._page, None, ONLY_CONTRAST)
        return [
            f"{violation['id']} ({scheme}): {node['target']} {node['html'][:200]}"
            for violation in results.response["violations"]
            for node in violation["nodes"]
        ]
