"""Refunds whose worker died."""

from __future__ import annotations

from tests.cast import DESK_WISH, MONA, big_order
from tests.harness import Harness, wait_until
from tests.workflows.trouble import (
    set_run,
    table_of_runs,
)


def wait_for_a_refund_that_waits(shop: Harness) -> str:
    """Let a refund wait for its manager, with all else ended; return the id of its run."""
    shop.stock(big_order())
    shop.write(DESK_WISH)
    shop.wait_for_mails(MONA)
    wait_until(
        lambda: len(shop.live.workflow_client.runs.list_runs("PENDING")) == 1,
        20,
        "the answer to be sent",
    )
    return shop.live.workflow_client.runs.list_runs("PENDING")[0].run_id


def vanish(shop: Harness, run_id: str, worker_id: str) -> None:
    """Leave a run as a worker that was killed does."""
    set_run(shop, run_id, "PENDING", worker_id)


def columns_of(shop: Harness, run_id: str) -> dict[str, object]:
    (row,) = shop.rows(f"SELECT * FROM {table_of_runs(shop)} WHERE workflow_uuid = :it", it=run_id)
    changed_by_the_test = {"updated_at": None, "completed_at": None}
    return dict(row._mapping) | changed_by_the_test
