"""A worker's beats: seen from outside, and under the name under which the engine takes its runs."""

from __future__ import annotations

from pathlib import Path

from dbos import DBOS

from mailagent.workflows.heartbeat import Heartbeat, take_over
from tests.stage import Stage, open_shop, running, wait_until
from tests.workflows.test_take_over import wait_for_a_refund_that_waits
from tests.workflows.trouble import let_be_missed, set_run


def test_a_worker_touches_its_file_at_every_beat(tmp_path: Path, database_url: str) -> None:
    beat = tmp_path / "beat"
    with open_shop(tmp_path, database_url, {"WORKER_BEAT_FILE": str(beat)}) as shop, running(shop):
        first = beat.stat().st_mtime_ns
        wait_until(lambda: beat.stat().st_mtime_ns > first, 30, "the next beat")


def test_the_engine_runs_under_the_name_that_beats(shop: Stage) -> None:
    with running(shop):
        assert [row.worker_id for row in shop.rows("SELECT worker_id FROM workers")] == [
            DBOS.executor_id
        ]


def test_runs_under_the_engines_own_name_are_left_alone(shop: Stage) -> None:
    # With the console DBOS takes runs under a name that it makes up at each start.
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
    set_run(shop, run_id, "PENDING", "made-up")
    heartbeat = Heartbeat()
    heartbeat.start("ours")
    try:
        heartbeat.rename("made-up")
        assert [row.worker_id for row in shop.rows("SELECT worker_id FROM workers")] == ["made-up"]
        let_be_missed(shop)
        assert take_over() == 0
        run = shop.live.doorbell.find_run(run_id)
        assert run is not None
        assert run.status == "PENDING"
    finally:
        heartbeat.stop()
    assert shop.rows("SELECT worker_id FROM workers") == []
