"""Runs of a worker that is gone go on elsewhere, all at once, and only those."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.operations import workers
from mailagent.workflows import launch, recovery
from mailagent.workflows.steps.maintenance import sweep as steps
from tests.cast import MONA
from tests.harness import Harness, open_shop, running
from tests.round_trips.approvals import decide, link_in
from tests.workflows.trouble import (
    columns_of,
    let_be_missed,
    table_of_runs,
    vanish,
    wait_for_a_refund_that_waits,
)

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize("worker_id", ["first", ""])
def test_what_a_worker_left_that_was_killed_goes_on_elsewhere(
    tmp_path: Path, database_url: str, worker_id: str
) -> None:
    with open_shop(tmp_path, database_url, {"WORKER_ID": "first"}) as shop:
        with running(shop):
            run_id = wait_for_a_refund_that_waits(shop)
        vanish(shop, run_id, worker_id)
        (request,) = shop.mails_to(MONA)
    second = open_shop(tmp_path, database_url, {"WORKER_ID": "second"}, shop.mailboxes)
    with second as shop, running(shop):
        assert steps.take_over_runs() == 0  # the others may just have been kept from the database
        let_be_missed(shop)
        steps.take_over_runs()
        decide(shop, link_in(request.text), "approve")
        shop.wait_for_refund("paid")
        assert len(shop.rows("SELECT * FROM ledger_entries")) == 1
        assert shop.mails_to(MONA) == [request]


def test_who_signs_out_leaves_nothing_to_be_waited_for(shop: Harness) -> None:
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
    run = shop.live.workflow_client.runs.find_run(run_id)
    assert run is not None
    assert run.status == "ENQUEUED"
    assert shop.rows("SELECT * FROM workers") == []


def test_runs_of_a_living_worker_are_left_alone(shop: Harness) -> None:
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
        let_be_missed(shop)
        before = columns_of(shop, run_id)
        assert steps.take_over_runs() == 0
        assert columns_of(shop, run_id) == before


def test_a_run_is_left_as_dbos_itself_leaves_one_that_it_recovers(shop: Harness) -> None:
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
    vanish(shop, run_id, "gone")
    dbos = shop.live.workflow_client._dbos._sys_db
    assert dbos.reenqueue_for_recovery(run_id, ["gone"], "_dbos_internal_queue")
    theirs = columns_of(shop, run_id)
    vanish(shop, run_id, "gone")
    with shop.live.database.transaction() as connection:
        assert shop.live.workflow_client.tables.requeue_runs_of(connection, "gone") == 1
    assert columns_of(shop, run_id) == theirs


def test_a_thousand_refunds_that_wait_are_taken_over_in_one_go(shop: Harness) -> None:
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
    with shop.live.database.transaction() as connection:
        (row,) = connection.execute(
            sa.text(f"SELECT * FROM {table_of_runs(shop)} WHERE workflow_uuid = :it"),
            {"it": run_id},
        ).mappings()
        changed = {
            "workflow_uuid": "'copy-' || :number", "status": "'PENDING'", "executor_id": "'gone'",
        }  # fmt: skip
        copied = ", ".join(changed.get(name, name) for name in row)
        connection.execute(
            sa.text(
                f"INSERT INTO {table_of_runs(shop)} ({', '.join(row.keys())}) SELECT {copied}"
                f" FROM {table_of_runs(shop)} WHERE workflow_uuid = :it"
            ),
            [{"number": str(number), "it": run_id} for number in range(1000)],
        )
        workers.sign_in(connection, "here")
    let_be_missed(shop)
    began = time.monotonic()
    assert recovery.take_over() == 1000
    assert time.monotonic() - began < 10
    assert recovery.take_over() == 0


def test_a_worker_that_cannot_say_that_it_lives_takes_nothing(shop: Harness) -> None:
    with running(shop):
        run_id = wait_for_a_refund_that_waits(shop)
        let_be_missed(shop)
        with shop.live.database.transaction() as connection:
            connection.execute(schema.workers.delete())
        vanish(shop, run_id, "gone")
        assert recovery.take_over() == 0


def test_a_worker_that_starts_again_takes_up_its_own(tmp_path: Path, database_url: str) -> None:
    with open_shop(tmp_path, database_url, {"WORKER_ID": "first"}) as shop:
        with running(shop):
            run_id = wait_for_a_refund_that_waits(shop)
        vanish(shop, run_id, "first")
        left = columns_of(shop, run_id)
        (request,) = shop.mails_to(MONA)
        with running(shop):
            decide(shop, link_in(request.text), "approve")
            shop.wait_for_refund("paid")
        assert columns_of(shop, run_id)["recovery_attempts"] == left["recovery_attempts"] + 1  # type: ignore[operator]
        assert len(shop.rows("SELECT * FROM ledger_entries")) == 1


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_number_whose_file_is_another_users_is_left_alone(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = launch.claim_worker_id(database_url)
    assert first.endswith("-1")
    (lock,) = tmp_path.glob("mailagent-*-1.lock")
    # Root, as which tests may run, opens every file, but no folder.
    (tmp_path / lock.name.replace("-1.lock", "-2.lock")).mkdir()
    assert launch.claim_worker_id(database_url).endswith("-3")
