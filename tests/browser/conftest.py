"""A real Chromium in front of a really served shop.

Without Chromium these tests are left out on a developer's machine; in CI that is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright
from werkzeug.serving import make_server

from tests.harness import Harness, open_shop, running

# Without these flags Chromium talks to its maker, runs out of shared memory, or refuses to be root.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]

DRIVER_SECONDS = 30.0


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium, without a window. Its event loop would be in the way of other tests, so it ends with these."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        message = "no Chromium on this machine: install the package chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        with _ended_in_time():
            launched.close()
            playwright.stop()


@contextmanager
def _ended_in_time() -> Iterator[None]:
    """End the driver's process if it does not end: once it was waited for until the machine's time was up,
    behind a suite in which every test had passed."""
    kill = ["pkill", "-KILL", "-P", str(os.getpid()), "node"]
    watchdog = threading.Timer(DRIVER_SECONDS, subprocess.run, (kill,))
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Harness]:
    """A busy shop that is served over HTTP at its own PUBLIC_URL. The port is bound before the shop knows it
    and stays bound: one that was let go for a moment was once taken by another test."""
    folder = tmp_path_factory.mktemp("shop")
    server = make_server("127.0.0.1", 0, lambda _environ, _start: [], threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    try:
        public_url = f"http://127.0.0.1:{server.server_port}"
        with open_shop(folder, database_url, {"PUBLIC_URL": public_url}) as shop:
            server.app = shop.app
            thread.start()
            try:
                with running(shop):
                    yield shop
            finally:
                server.shutdown()
                thread.join()
    finally:
        server.server_close()
