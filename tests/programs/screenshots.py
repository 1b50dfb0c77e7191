"""The pictures of the demo and of approvals: `python -m tests.programs.screenshots` takes them anew
from a running demo. Those of the console are taken by `tests.programs.screens`.

Needs Chromium on the PATH. Nothing here is a test; pytest does not collect it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, StorageState, sync_playwright

from mailagent.demo import shop as demo_shop
from mailagent.demo.fakes.providers import Providers
from mailagent.demo.process import Supervisor
from mailagent.demo.show import find_port
from mailagent.demo.story import find_link
from tests.cast import MONA
from tests.harness import wait_until
from tests.small_png import with_palette

PICTURES = Path(__file__).resolve().parent.parent.parent / "docs" / "pictures"
LARGEST_BYTES = 200_000

DESKTOP = (1400, 860)
PHONE = (390, 844)

CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-lcd-text",  # coloured edges of letters take twice the space
]


def main() -> None:
    """Take every picture. Raises SystemExit when one is too large or Chromium is missing."""
    with studio() as (browser, path):
        picture_demo(browser, path / "demo")


@contextmanager
def studio() -> Iterator[tuple[Browser, Path]]:
    """Give a browser, and a folder for demos. Raises SystemExit without Chromium."""
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    os.environ.pop("OPENAI_API_KEY", None)  # the pictures show the scripted model
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium is not on the PATH: install it (Debian: apt-get install chromium)")
    with (
        tempfile.TemporaryDirectory(prefix="mailagent-pictures-") as path,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM)
        yield browser, Path(path)
        browser.close()


def picture_demo(browser: Browser, path: Path) -> None:
    """Picture the demo's page, and the approval that its expensive letter leads to."""
    with demo_running(path) as (providers, _):
        write(providers, demo_shop.SMALL_REFUND, mails_to="ada@example.com", count=2)
        write(providers, demo_shop.EXPENSIVE_REFUND, mails_to=MONA, count=1)
        link = find_link(providers.mailboxes.sent(MONA)[0]) or ""
        for scheme in ("light", "dark"):
            take(browser, link, f"approval-phone-{scheme}", PHONE, scheme)
            take(browser, link, f"approval-desktop-{scheme}", DESKTOP, scheme, whole=True)
            with opened(browser, f"{providers.app_url}/demo/", DESKTOP, scheme) as page:
                page.get_by_role("button", name="Mona").click()
                page.get_by_text("Refund $1,499.00?").first.wait_for()
                page.frame_locator("iframe").get_by_text("Why you are asked").first.wait_for()
                page.mouse.move(0, 0)
                save(page, f"demo-{scheme}")


@contextmanager
def demo_running(path: Path) -> Iterator[tuple[Providers, Supervisor]]:
    """Run the demo's app and providers in a folder of their own."""
    port = find_port(0)
    providers = Providers(path, port, os.environ)
    supervisor = Supervisor(path, port, providers.environment(), print)
    providers.start()
    try:
        supervisor.prepare()
        supervisor.start()
        yield providers, supervisor
    finally:
        supervisor.stop()
        providers.stop()


def write(providers: Providers, letter: demo_shop.ReadyMail, mails_to: str, count: int) -> None:
    """Send a ready-made letter and wait for what it leads to."""
    fields = {"from": letter.sender, "subject": letter.subject, "text": letter.text}
    request = urllib.request.Request(
        f"{providers.sendgrid.url}/demo/letters",
        json.dumps(fields).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=5).close()
    boxes = providers.mailboxes
    wait_until(lambda: len(boxes.sent(mails_to)) >= count, 30, f"{count} mails to {mails_to}")


def take(
    browser: Browser, url: str, name: str, size: tuple[int, int], scheme: str, whole: bool = False
) -> None:
    """Picture one page as it opens; `whole`: also what has to be scrolled to."""
    with opened(browser, url, size, scheme, scale=2 if size == PHONE else 1) as page:
        save(page, name, whole)


@contextmanager
def opened(
    browser: Browser,
    url: str,
    size: tuple[int, int],
    scheme: str,
    people: StorageState | None = None,
    scale: int = 1,
) -> Iterator[Page]:
    """Open a page in a window of `size`, light or dark; `people`: who is logged in."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        device_scale_factor=scale,
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        storage_state=people,
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_load_state("load")
    try:
        yield page
    finally:
        context.close()


def save(
    page: Page,
    name: str,
    whole: bool = False,
    tallest: int | None = None,
    largest_bytes: int = LARGEST_BYTES,
    palette: bool = False,
) -> None:
    """Write what the window shows, or the whole page but no more than `tallest`; `palette`: in 256 colours.

    Raises SystemExit when the picture is too large to be kept.
    """
    size = page.viewport_size
    assert size is not None
    height = page.evaluate("document.documentElement.scrollHeight") if whole else size["height"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(height, tallest or height)}
    data = page.screenshot(animations="disabled", full_page=whole, clip=clip)  # type: ignore[arg-type]  # its own TypedDict
    if palette:
        data = with_palette(data)
    path = PICTURES / f"{name}.png"
    path.write_bytes(data)
    print(f"{path.name}: {len(data) // 1000} kB")
    if len(data) > largest_bytes:
        sys.exit(f"{path.name} has {len(data)} bytes; at most {largest_bytes} are kept")


if __name__ == "__main__":
    main()
