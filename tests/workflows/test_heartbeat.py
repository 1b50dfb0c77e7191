"""A worker's beats: seen from outside, and under the name under which the engine takes its runs."""

from __future__ import annotations

from pathlib import Path

from dbos import DBOS

from tests.harness import Harness, open_shop, running, wait_until


def test_a_worker_touches_its_file_at_every_beat(tmp_path: Path, database_url: str) -> None:
    beat = tmp_path / "beat"
    with open_shop(tmp_path, database_url, {"WORKER_BEAT_FILE": str(beat)}) as shop, running(shop):
        first = beat.stat().st_mtime_ns
        wait_until(lambda: beat.stat().st_mtime_ns > first, 30, "the next beat")


def test_the_engine_runs_under_the_name_that_beats(shop: Harness) -> None:
    with running(shop):
        assert [row.worker_id for row in shop.rows("SELECT worker_id FROM workers")] == [
            DBOS.executor_id
        ]
