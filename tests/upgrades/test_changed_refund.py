"""A step is added before a refund is paid, while refunds wait for managers and others are half-way through."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dbos import DBOS

from mailagent.engine import APPLICATION_VERSION, REFUND
from tests.cast import ADA, DESK_WISH, KETTLE_WISH, MONA, big_order, order
from tests.databases import postgres_copy
from tests.harness import Harness, open_shop, wait_until
from tests.histories.history import History, read_all
from tests.histories.replay import replay
from tests.processes import Worker, base_environment
from tests.round_trips.approvals import decide, link_in
from tests.upgrades import changed_refund
from tests.upgrades.changed_refund import LOOKED

DRAIN_SECONDS = 40
BODIES = ("unguarded", "guarded_where_it_stands", "guarded_from_the_start")

for name in BODIES:  # under names of their own, beside the body of today
    DBOS.workflow(name=name)(getattr(changed_refund, name))


@pytest.fixture
def small_shop(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Harness]:
    """A shop on SQLite; what is replayed does not depend on the kind of database."""
    path = tmp_path / "test.db"
    shutil.copy(migrated_sqlite, path)
    with open_shop(tmp_path, f"sqlite:///{path}") as harness:
        yield harness


@pytest.fixture
def shop(tmp_path: Path, postgres_url: str, migrated_postgres: str) -> Iterator[Harness]:
    """A shop without a worker; processes of their own come and go."""
    with (
        postgres_copy(postgres_url, migrated_postgres) as url,
        open_shop(tmp_path, url) as harness,
    ):
        yield harness


def finished_refunds(body: str) -> list[History]:
    """Return the refunds that ended under the oldest release, as runs of another body."""
    found = [
        each for each in read_all()
        if each.workflow == REFUND and each.application_version == APPLICATION_VERSION
    ]  # fmt: skip
    return [
        replace(each, workflow=body, run_id=f"{body} {each.run_id}")
        for each in found
        if each.release == found[0].release and not each.is_cut
    ]


def test_a_guarded_change_replays_what_old_runs_recorded_and_an_unguarded_one_does_not(
    small_shop: Harness,
) -> None:
    found = replay(small_shop, [each for body in BODIES for each in finished_refunds(body)])
    paid = [each for each in finished_refunds("unguarded") if each.output == "paid"]
    assert len(paid) > 3
    assert len(found) == len(paid)
    for difference in found:
        assert difference.startswith("unguarded of ")
        assert "recorded is pay_refund, today's code wants look_once_more" in difference


def test_a_refund_that_waited_ends_as_it_began_and_a_later_one_in_the_new_way(
    shop: Harness, tmp_path: Path
) -> None:
    environment = {**base_environment(), **shop.environ}
    shop.stock(big_order(), order())
    old = Worker("w1", environment, tmp_path)
    new = Worker(
        "w1", environment, tmp_path, ("tests.upgrades.new_worker", "guarded_from_the_start")
    )
    try:
        old.start_and_wait()
        shop.write(DESK_WISH)
        (request,) = shop.wait_for_mails(MONA)
        shop.wait_for_mails(ADA)
        waits = "SELECT 1 FROM dbos.operation_outputs WHERE function_name = 'DBOS.sleep'"
        wait_until(lambda: bool(shop.rows(waits)), 30, "the refund's run to wait")
        old.ask_to_end()
        old.wait(DRAIN_SECONDS)
        new.start_and_wait()
        decide(shop, link_in(request.text), "approve")
        assert shop.wait_for_refund("paid").order_id == "W2001"
        shop.write(KETTLE_WISH)
        wait_until(lambda: len(shop.rows("SELECT * FROM ledger_entries")) == 2, 60, "both payments")
        shop.wait_for_mails(ADA, 4)  # two answers, two receipts
    finally:
        old.kill()
        new.kill()
    looked = [row.subject for row in shop.rows("SELECT * FROM audit WHERE action = :a", a=LOOKED)]
    later = [each.refund_id for each in shop.refunds() if each.order_id == "W1001"]
    assert looked == later
    assert len(shop.rows("SELECT * FROM ledger_entries")) == 2
    assert len(shop.mails_to(MONA)) == 1
