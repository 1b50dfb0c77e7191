"""Runs that a living worker has taken and does not run go on all the same; all others are left alone."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from dbos._sys_db import SystemDatabase

from mailagent.workflows import launch, recovery
from mailagent.workflows.recovery import Unattended
from tests.cast import ADA, KETTLE_WISH, MONA, order
from tests.harness import Harness, running, wait_until
from tests.round_trips.approvals import decide, link_in
from tests.workflows.trouble import (
    columns_of,
    once,
    table_of_runs,
    vanish,
    wait_for_a_refund_that_waits,
    watched,
)

QUESTION = "What is the status of my order W1001? I would like to know whether it has arrived."


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker beat often, and miss its own runs after a second."""
    monkeypatch.setattr(recovery, "BEAT_SECONDS", (0.2, 0.3))
    monkeypatch.setattr(recovery, "UNATTENDED_AFTER", timedelta(seconds=1))


def system() -> sa.Engine:
    """Return the engine by which DBOS reaches its tables."""
    (launched,) = launch._launched
    return launched.dbos._sys_db.engine


def play(shop: Harness, text: str, mails: int) -> None:
    """Let Ada write about her order and get so many mails, and see that all ended, and happened once."""
    shop.stock(order())
    shop.write(text)
    shop.wait_for_mails(ADA, mails)
    left = f"SELECT 1 FROM {table_of_runs(shop)} WHERE status IN ('PENDING', 'ENQUEUED')"
    wait_until(lambda: not shop.rows(left), 30, "every run to end")
    assert len(shop.rows("SELECT * FROM ledger_entries")) == mails - 1
    assert len(shop.mails_to(ADA)) == mails
    assert shop.live.workflow_client.runs.list_runs(status="ERROR") == []


def lost_once(claim: Callable[..., Any], lost: list[Any]) -> Callable[..., Any]:
    """Return a claim of queued runs whose first answer is lost after its commit."""

    def claimed(*arguments: Any, **options: Any) -> Any:
        answer = claim(*arguments, **options)
        runs = answer[0] if isinstance(answer, tuple) else answer
        if runs and not lost:
            lost.extend(runs)
            raise sa.exc.OperationalError("COMMIT", None, Exception("the connection was closed"))
        return answer

    return claimed


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("claim", "workflow"),
    [
        ("start_queued_partitioned_workflows", "conversation"),
        ("start_queued_workflows", "refund"),
    ],
)
def test_a_run_whose_claim_was_committed_and_lost_is_done(
    shop: Harness, monkeypatch: pytest.MonkeyPatch, claim: str, workflow: str
) -> None:
    lost: list[str] = []
    monkeypatch.setattr(SystemDatabase, claim, lost_once(getattr(SystemDatabase, claim), lost))
    with running(shop):
        play(shop, KETTLE_WISH, 2)
    assert [run_id.partition("-")[0] for run_id in lost] == [workflow]


@contextlib.contextmanager
def all_taken() -> Iterator[None]:
    """Hold every connection that DBOS may have."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(sa.exc.TimeoutError):
            while True:
                held.enter_context(system().connect())
        yield


@pytest.mark.usefixtures("hasty")
def test_a_run_that_ends_while_no_connection_is_free_ends_all_the_same(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "POOL_SECONDS", 0.3)
    given_back = threading.Event()

    def hold() -> None:
        with all_taken():
            taken.set()
            wait_until(lambda: not is_here("conversation"), 20, "the run to lose its thread")
        given_back.set()

    def take_all() -> None:
        holder.start()
        assert taken.wait(20)

    taken, holder = threading.Event(), threading.Thread(target=hold)
    with watched("send_mail recorded", once(take_all)), running(shop):
        play(shop, QUESTION, 1)
        assert given_back.is_set()
        holder.join()


def is_here(workflow: str) -> bool:
    (launched,) = launch._launched
    active = launched.dbos._active_workflows_set.activeList()
    return any(run_id.startswith(f"{workflow}-") for run_id in active)


def test_dbos_waits_for_a_free_connection_as_it_does_for_a_database_that_is_away(
    shop: Harness,
) -> None:
    with running(shop):
        pool = system().pool
        assert isinstance(pool, sa.QueuePool)
        assert pool.timeout() == launch.POOL_SECONDS >= 3600


@pytest.mark.usefixtures("hasty")
def test_a_run_that_waits_is_left_to_its_worker(shop: Harness) -> None:
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
        before = columns_of(shop, run_id)
        time.sleep(3)  # several beats
        assert columns_of(shop, run_id) == before
        decide(shop, link_in(shop.mails_to(MONA)[0].text), "approve")
        shop.wait_for_refund("paid")


def test_nothing_is_told_of_runs_while_one_may_wait_for_a_thread_or_none_is_run(
    shop: Harness,
) -> None:
    gate = threading.Event()
    with running(shop):
        (launched,) = launch._launched
        threads = launched.dbos._executor
        for _ in range(threads._max_workers + 1):
            threads.submit(gate.wait, 30)
        assert launch._runs_here() is None
        gate.set()
        wait_until(lambda: launch._runs_here() is not None, 10, "a thread to be free")
    assert launch._runs_here() is None


def test_only_what_is_seen_unattended_twice_in_a_row_is_queued_again(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
    monkeypatch.setattr(recovery, "UNATTENDED_AFTER", timedelta(seconds=-2))
    nothing, it = frozenset[str](), frozenset([run_id])
    here: list[frozenset[str] | None] = []
    for looks, queued in (
        ([nothing], 0),
        ([nothing, it], 0),
        ([nothing, None, nothing], 0),
        ([nothing, it, nothing], 0),
        ([None, None], 0),
        ([nothing, nothing], 1),
    ):
        claim(shop, run_id, "ours")
        look = Unattended(lambda: here.pop(0))
        here[:] = looks
        assert [look.look("ours") for _ in looks] == [0] * (len(looks) - 1) + [queued]
        assert status_of(shop, run_id) == ("ENQUEUED" if queued else "PENDING")


@pytest.mark.parametrize(("age", "queued"), [(70, 1), (50, 0)])
def test_what_was_claimed_a_moment_ago_is_left_alone(shop: Harness, age: int, queued: int) -> None:
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
    claim(shop, run_id, "ours", age)
    others = Unattended(frozenset)
    assert [others.look("others"), others.look("others")] == [0, 0]
    look = Unattended(frozenset)
    look.look("ours")
    look.forget()
    assert [look.look("ours"), look.look("ours")] == [0, queued]


def claim(shop: Harness, run_id: str, worker_id: str, seconds_ago: int = 0) -> None:
    """Let a worker have taken a run so long ago."""
    vanish(shop, run_id, worker_id)
    at = shop.live.now() - timedelta(seconds=seconds_ago)
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(
                f"UPDATE {table_of_runs(shop)} SET started_at_epoch_ms = :at"
                " WHERE workflow_uuid = :run_id"
            ),
            {"at": int(at.timestamp() * 1000), "run_id": run_id},
        )


def status_of(shop: Harness, run_id: str) -> str:
    run = shop.live.workflow_client.runs.find_run(run_id)
    assert run is not None
    return run.status
