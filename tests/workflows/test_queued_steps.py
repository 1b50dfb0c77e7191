"""A worker that is asked to end begins none of the steps that wait for a thread; another one does them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from dbos import DBOS

from mailagent.cli.worker import engine_of
from mailagent.workflows import launch
from mailagent.workflows.steps.recording import at_work
from tests.cast import MONA, big_order
from tests.harness import Harness, open_shop, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.workflows.trouble import table_of_runs, watched

pytestmark = pytest.mark.both_databases

REFUNDS = 11
WISH = "The standing desk of order {} is damaged, please refund it."
STEP = "look_at_decision"


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    with open_shop(tmp_path, database_url, {"CONVERSATION_CONCURRENCY": "1"}) as harness:
        yield harness


def ask_for_refunds(shop: Harness) -> list[str]:
    """Let refunds wait for their manager; return the links that decide them."""
    for number in range(REFUNDS):
        who = {"email": f"ada.{number}@example.com", "name": "Ada Example"}
        shop.stock(big_order(f"W{2000 + number}", customer=who))
        shop.write(WISH.format(f"W{2000 + number}"), from_address=who["email"])
    requests = shop.wait_for_mails(MONA, REFUNDS, 60)
    wait_until(shop.at_rest, 30, "the answers to be sent")
    wait_for_recv()
    return [link_in(request.text) for request in requests]


@contextmanager
def held(executor: ThreadPoolExecutor) -> Iterator[None]:
    """Let the only thread do nothing as long as this lasts."""
    taken, gate = threading.Event(), threading.Event()

    def hold() -> None:
        taken.set()
        gate.wait(60)

    executor.submit(hold)
    assert taken.wait(30)
    try:
        yield
    finally:
        gate.set()


def wait_for_recv() -> None:
    """Wait until the runs of all refunds wait for their wake-ups, with no step before them."""
    waiting = dbos_here()._sys_db.notifications_map
    wait_until(lambda: len(waiting.snapshot()) == REFUNDS, 30, "all runs to wait for a decision")


def dbos_here() -> DBOS:
    (launched,) = launch._launched
    return launched.dbos


def wake_all(shop: Harness, links: list[str]) -> None:
    """Let the runs of all refunds come to their next step in one go."""
    wait_for_recv()
    dbos = dbos_here()
    with held(dbos._executor):
        for link in links:
            assert "approved" in decide(shop, link, "approve")
        queued = dbos._executor._work_queue
        wait_until(lambda: queued.qsize() >= REFUNDS, 30, "all runs to be woken")


def wait_for(gate: threading.Event) -> None:
    gate.wait(60)


def states_of_refunds(shop: Harness) -> Counter[str]:
    runs = shop.rows(f"SELECT status FROM {table_of_runs(shop)} WHERE name = 'refund'")
    return Counter(run.status for run in runs)


def test_of_the_steps_that_wait_for_a_thread_none_begins_after_the_stop(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(shop):
        links = ask_for_refunds(shop)
    gate = threading.Event()
    monkeypatch.setattr(launch, "STEP_THREADS", 0)
    with (
        ThreadPoolExecutor(1) as beside,
        watched(f"{STEP} before", lambda: wait_for(gate)) as seen,
    ):
        try:
            # In a thread of its own: DBOS refuses to start beside an event loop, and a browser brings one.
            beside.submit(launch.launch, engine_of(shop.app.config["MAILAGENT"])).result(60)
            wake_all(shop, links)
            wait_until(lambda: at_work._steps >= REFUNDS, 30, "all steps to be queued")
            stopped = beside.submit(launch.stop, 20)
            wait_until(lambda: at_work._leaving, 10, "the stop")
            gate.set()
            assert stopped.result(60)
        finally:
            gate.set()
            launch.stop()
        assert seen[f"{STEP} before"] == 1
    assert states_of_refunds(shop) == {"ENQUEUED": REFUNDS}
    with running(shop):
        wait_until(lambda: states_of_refunds(shop) == {"SUCCESS": REFUNDS}, 60, "all to be paid")
    assert len(shop.rows("SELECT * FROM ledger_entries")) == REFUNDS
