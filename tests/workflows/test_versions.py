"""The application version is written by hand, and a run is for workers of its own version only."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa
from dbos import DBOS

from mailagent import engine as names
from mailagent.engine import APPLICATION_VERSION, REFUND
from tests.cast import ADA
from tests.databases import ONE_DATABASE
from tests.harness import Harness, beside, open_shop, running, wait_until
from tests.histories.history import History, read_all
from tests.histories.tables import WORKER, Tables
from tests.round_trips.provider_faults import QUESTION

OTHER = "of another release"


def a_refund() -> History:
    found = (each for each in read_all() if each.workflow == REFUND)
    return replace(next(found), application_version=OTHER)


def check(shop: Harness) -> str:
    return str(beside(lambda: shop.app.test_cli_runner().invoke(args=["check"]).output))


def test_the_version_is_a_number_that_somebody_wrote() -> None:
    (given,) = (
        each.value
        for each in ast.parse(inspect.getsource(names)).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "APPLICATION_VERSION"
    )
    assert isinstance(given, ast.Constant), "computed, it would leave every waiting run behind"
    assert str(given.value).isdigit()


@ONE_DATABASE
def test_workers_run_under_that_version_and_leave_runs_of_others_alone(shop: Harness) -> None:
    tables, old = Tables(shop.live.database), a_refund()
    tables.put(old)
    with running(shop):
        assert DBOS.application_version == APPLICATION_VERSION
        with shop.live.database.transaction() as connection:
            shop.live.workflow_client.tables.requeue_runs_of(
                connection, WORKER
            )  # as if it had vanished
        shop.write(QUESTION)
        shop.wait_for_mails(ADA)  # which a worker has taken from its queue since
        assert tables.outcome(old.run_id)[0] == "ENQUEUED"
        dbos = shop.live.workflow_client._dbos
        dbos._sys_db.create_application_version(OTHER)
        dbos.set_latest_application_version(APPLICATION_VERSION)
        said = check(shop)
        assert f"note: 1 run waits for workers of version {OTHER}" in said
        assert "Everything is in place" in said


@ONE_DATABASE
def test_a_release_that_was_rolled_back_says_that_it_gets_no_new_runs(shop: Harness) -> None:
    with running(shop):
        pass
    assert "new runs" not in check(shop)
    with shop.live.database.transaction() as connection:
        later = "SELECT max(version_timestamp) + 1 FROM application_versions"
        connection.execute(
            sa.text(
                "INSERT INTO application_versions"
                " (version_id, version_name, version_timestamp, created_at, application_name)"
                f" VALUES ('v', :name, ({later}), 0, 'mailagent')"
            ),
            {"name": OTHER},
        )
    assert f"problem: new runs go to workers of version {OTHER} only" in check(shop)


# --- heartbeat ------------------------------------------------------------------------------------


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
