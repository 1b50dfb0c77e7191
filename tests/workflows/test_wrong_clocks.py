"""Web and worker processes whose clocks are hours and days apart, in other time zones: dates are the
database's."""

from __future__ import annotations

import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent import services
from mailagent.demo.fakes.webhooks import CONTENT_TYPE, build_body
from mailagent.demo.process import ROOT
from mailagent.workflows.steps.maintenance.unfinished import enqueue_refunds
from tests.cast import ADA, DESK_WISH, MONA, big_order
from tests.harness import Harness, letter, wait_until
from tests.processes import Web, Worker, base_environment
from tests.workflows.trouble import is_sqlite

HOUR, DAY = 3600, 86_400


@contextmanager
def clock_of(
    shop: Harness, folder: Path, child: type[Web | Worker], off_seconds: int, zone: str
) -> Iterator[tuple[Web | Worker, Callable[[int], None]]]:
    """Run a process on a machine whose clock is wrong; give it, and a function that sets the clock."""
    name = child.__name__.lower()
    clock = folder / f"{name}.clock"

    def set_clock(off_seconds: int) -> None:
        # In one piece: the process reads it at any moment.
        fresh = clock.with_suffix(".new")
        fresh.write_text(str(off_seconds))
        fresh.rename(clock)

    set_clock(off_seconds)
    own = {"PYTHONPATH": str(ROOT / "tests" / "wrong_clock"), "WRONG_CLOCK": str(clock), "TZ": zone}
    process = child(name, {**base_environment(), **shop.environ, **own}, folder)
    try:
        process.start_and_wait()
        yield process, set_clock
    finally:
        process.stop()


def post(url: str, shop: Harness, text: str) -> None:
    body = build_body(letter(text))
    headers = {"Content-Type": CONTENT_TYPE, **shop.inbound_key.sign(body)}
    request = urllib.request.Request(f"{url}/webhooks/sendgrid/inbound", body, headers)
    wait_until(lambda: urllib.request.urlopen(request, timeout=20).status == 200, 20, "thanks")


class Browser:
    """A manager's browser, on the page that a mail leads to."""

    def __init__(self, url: str, mail: str) -> None:
        link = re.search(r"/approvals/\S+", mail)
        assert link is not None
        self._url = url + link[0]
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )

    def look(self) -> str:
        return str(self._opener.open(self._url, timeout=20).read().decode())

    def approve(self) -> None:
        token = re.search(r'name="csrf_token" value="([^"]+)"', self.look())
        assert token is not None
        form = urllib.parse.urlencode({"decision": "approve", "csrf_token": token[1]})
        self._opener.open(self._url, form.encode(), timeout=20).read()


TIMES = """
SELECT received_at FROM inbound_mails UNION ALL SELECT created_at FROM outbound_mails
UNION ALL SELECT sent_at FROM outbound_mails UNION ALL SELECT requested_at FROM refunds
UNION ALL SELECT decided_at FROM refunds UNION ALL SELECT paid_at FROM refunds
UNION ALL SELECT asked_at FROM approval_requests UNION ALL SELECT at FROM audit
"""


def let_pass(shop: Harness, refund_id: str) -> None:
    """Let the date of a refund that waits pass, and sweep as another worker would."""
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text("UPDATE approvals SET expires_at = :now WHERE refund_id = :it"),
            {"now": shop.live.now(), "it": refund_id},
        )
    hurried = replace(shop.live.waits, sweep_after_seconds=0)
    services.bind(replace(shop.live, waits=hurried))


def test_dates_hold_on_machines_whose_clocks_are_days_apart_and_jump(
    shop: Harness, tmp_path: Path
) -> None:
    if is_sqlite(shop):
        pytest.skip("all processes on one SQLite file have the clock of one machine")
    began_at = shop.live.now()
    shop.stock(big_order(), replace(big_order(), order_id="W2002"))
    with (
        clock_of(shop, tmp_path, Web, 3 * HOUR, "Pacific/Kiritimati") as (web, set_clock_of_web),
        clock_of(shop, tmp_path, Worker, -DAY, "America/St_Johns") as (worker, set_clock_of_worker),
    ):
        assert isinstance(web, Web)
        url = f"http://127.0.0.1:{web.port}"
        post(url, shop, DESK_WISH)
        (first,) = shop.wait_for_mails(MONA)
        post(url, shop, "The standing desk of order W2002 is damaged, please refund it.")
        later = shop.wait_for_mails(MONA, 2)[-1]
        refund_ids = {refund.order_id: refund.refund_id for refund in shop.refunds()}
        for off in (-2 * DAY, DAY, -DAY):
            set_clock_of_worker(off)
        set_clock_of_web(-40 * DAY)
        Browser(url, first.text).approve()  # its date is to come, by the one clock
        assert shop.wait_for_refund("paid").order_id == "W2001"
        let_pass(shop, refund_ids["W2002"])
        assert 'name="decision"' not in Browser(url, later.text).look()
        enqueue_refunds()  # by the worker's own clock its run has another day
        assert shop.wait_for_refund("expired").order_id == "W2002"
        wait_until(shop.at_rest, 30, "all to be told")
        assert "3600 s" not in web.said()
        assert "ahead of the database's" in web.said()
        assert "behind the database's" in worker.said()
    times = [row[0] for row in shop.rows(TIMES) if row[0] is not None]
    assert began_at - timedelta(seconds=2) <= min(times)
    assert max(times) <= shop.live.now() + timedelta(seconds=2)
    asked = "SELECT 1 FROM outbound_mails WHERE purpose = 'approval_request'"
    assert len(shop.rows(asked)) == 2  # nobody was reminded, or asked again
    assert len(shop.mails_to(ADA)) == 4
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
