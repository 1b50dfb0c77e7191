"""The Crash button, on a real app under the demo's supervisor."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2

from mailagent.demo import shop
from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import Supervisor
from mailagent.demo.show import find_port
from tests.cast import ADA
from tests.harness import wait_until


class Page:
    """The demo's page in a browser."""

    def __init__(self, url: str) -> None:
        self._browser = httpx2.Client(base_url=url, timeout=10, trust_env=False)
        page = self._browser.get("/demo/").text
        found = re.search(r'name="csrf-token" content="([^"]+)"', page)
        assert found
        self._browser.headers["X-CSRFToken"] = found[1]

    @property
    def process(self) -> int:
        """The app's process, 0 while there is none."""
        try:
            return int(self._browser.get("/demo/state").json()["process"]["pid"])
        except (httpx2.HTTPError, ValueError):
            return 0

    def write(self, letter: shop.ReadyMail) -> None:
        fields = {"from": letter.sender, "subject": letter.subject, "text": letter.text}
        self._browser.post("/demo/letters", json=fields).raise_for_status()

    def press_crash(self) -> None:
        self._browser.post("/demo/crash").raise_for_status()


def test_a_crash_loses_no_letter_and_the_app_comes_back(tmp_path: Path) -> None:
    said: list[str] = []
    port = find_port(0)
    providers = Providers(tmp_path, port, {"PATH": "/usr/bin:/bin"})
    supervisor = Supervisor(tmp_path, port, providers.environment(), said.append)
    providers.start()
    try:
        supervisor.prepare()
        supervisor.start()
        page = Page(providers.app_url)
        first = page.process
        page.write(shop.SMALL_REFUND)
        page.press_crash()
        wait_until(lambda: page.process not in (0, first), 30, "another process")
        wait_until(lambda: len(providers.mailboxes.sent(ADA)) == 2, 30, "two mails to Ada")
    finally:
        supervisor.stop()
        providers.stop()
    assert "The app process died (SIGKILL). Starting it again …" in said
    assert page.process == 0, "the app outlived its supervisor"
