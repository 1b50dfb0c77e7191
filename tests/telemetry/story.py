"""One approved refund, in processes of their own: web and worker where the database allows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import requests

from mailagent.demo.fakes.webhooks import CONTENT_TYPE, build_body
from tests.cast import ADA, DESK_WISH, MONA, big_order
from tests.harness import Harness, letter, wait_until
from tests.processes import Web, Worker, base_environment
from tests.workflows.trouble import is_sqlite

SECONDS = 60.0


def processes_of(shop: Harness, folder: Path, **settings: str) -> tuple[Web, Worker | None]:
    """Return the app's processes beside a shop, not started: on SQLite all is one."""
    environment = {**base_environment(), **shop.environ, **settings}
    if is_sqlite(shop):
        return Web("all", environment, folder, role="all"), None
    return Web("web", environment, folder), Worker("worker", environment, folder)


def tell(shop: Harness, web: Web, worker: Worker | None) -> None:
    """Run the processes, let Ada ask for a dear refund and Mona approve it, and end them properly."""
    shop.stock(big_order())
    started = [each for each in (worker, web) if each]
    try:
        for each in started:
            each.start_and_wait()
        _write(shop, web)
        (request,) = shop.wait_for_mails(MONA, seconds=SECONDS)
        _approve(web, request.text)
        shop.wait_for_refund("paid", SECONDS)
        shop.wait_for_mails(ADA, 2, SECONDS)
        wait_until(shop.at_rest, SECONDS, "all mail to be gone")
        wait_until(lambda: _no_run_at_work(shop), SECONDS, "all runs to end")
        for each in started:
            each.ask_to_end()
            each.wait(SECONDS)
    finally:
        for each in started:
            each.kill()


def _no_run_at_work(shop: Harness) -> bool:
    with shop.live.database.snapshot() as connection:
        return not shop.live.workflow_client.tables.count_active(connection).total()


def _write(shop: Harness, web: Web) -> None:
    body = build_body(letter(DESK_WISH))
    headers = {"Content-Type": CONTENT_TYPE, **shop.inbound_key.sign(body)}
    where = f"http://127.0.0.1:{web.port}/webhooks/sendgrid/inbound"
    assert requests.post(where, body, headers=headers, timeout=SECONDS).status_code == 200


def _approve(web: Web, text: str) -> None:
    path = re.search(r"/approvals/\S+", text)
    assert path is not None
    where = f"http://127.0.0.1:{web.port}{path[0]}"
    browser = requests.Session()
    token = re.search(
        r'name="csrf_token" value="([^"]+)"', browser.get(where, timeout=SECONDS).text
    )
    assert token is not None
    form = {"decision": "approve", "csrf_token": token[1]}
    assert browser.post(where, form, timeout=SECONDS).status_code == 200


def lines_of(folder: Path) -> list[dict[str, str]]:
    """Return the lines of all logs that are objects."""
    said = "\n".join(log.read_text("utf-8") for log in folder.glob("*.log"))
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]
