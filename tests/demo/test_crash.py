"""The Crash button, on a real app under the demo's supervisor."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.request
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path

from mailagent.demo import shop
from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import Supervisor
from mailagent.demo.show import find_port
from tests.cast import ADA


class Page:
    """The demo's page in a browser."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        found = re.search(r'name="csrf-token" content="([^"]+)"', self._get("/demo/"))
        assert found
        self._token = found[1]

    def _get(self, path: str, body: bytes | None = None, **headers: str) -> str:
        request = urllib.request.Request(f"{self._url}{path}", body, headers)
        with self._opener.open(request, timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    @property
    def process(self) -> int:
        """The app's process, 0 while there is none."""
        try:
            return int(json.loads(self._get("/demo/state"))["process"]["pid"])
        except (OSError, http.client.HTTPException):
            return 0

    def write(self, letter: shop.ReadyMail) -> None:
        fields = {"from": letter.sender, "subject": letter.subject, "text": letter.text}
        headers = {"X-CSRFToken": self._token, "Content-Type": "application/json"}
        self._get("/demo/letters", json.dumps(fields).encode(), **headers)

    def press_crash(self) -> None:
        self._get("/demo/crash", b"", **{"X-CSRFToken": self._token})


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


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
        wait_until(lambda: page.process not in (0, first))
        wait_until(lambda: len(providers.mailboxes.sent(ADA)) == 2)
    finally:
        supervisor.stop()
        providers.stop()
    assert "The app process died (SIGKILL). Starting it again …" in said
    assert page.process == 0, "the app outlived its supervisor"
