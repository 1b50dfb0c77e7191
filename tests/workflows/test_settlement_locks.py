"""People, files and the sweep at work on the same entries of the ledger: PostgreSQL ends none as a deadlock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from mailagent.domain.refunds.settlement import Outcome, ReportedAgain, SettlementState
from mailagent.settling import settle, settle_all
from mailagent.store.refunds import orders
from mailagent.workflows.steps.maintenance.tasks import tell_overdue_settlements
from tests.cast import MONA, OLGA, order
from tests.harness import Harness, open_shop, pass_time, wait_until
from tests.workflows.paying import pay
from tests.workflows.proposals import propose, write
from tests.workflows.trouble import is_sqlite

WAITS = (
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
TWO_PAYMENTS = [
    {"payment_id": "gift", "method": "card", "amount": "20.00"},
    {"payment_id": "card", "method": "card", "amount": "29.99"},
]


@pytest.fixture
def shop(tmp_path: Path, database_url: str) -> Iterator[Harness]:
    """A shop that has two refunds in its ledger, the first in two parts. The order of the second has the
    lower id, and its entry the higher key."""
    with open_shop(tmp_path, database_url, {"MAILAGENT_SETTLES": ""}) as shop:
        if is_sqlite(shop):
            pytest.skip("SQLite has one lock for all")
        shop.stock(order("W2", payments=TWO_PAYMENTS), order("W1"))
        for order_id in ("W2", "W1"):
            assert propose(write(shop, subject=order_id), order_id)["outcome"] == "approved"
            assert pay(shop.refunds()[-1].refund_id)["status"] == "approved"
        yield shop


def list_paid(shop: Harness) -> list[Outcome]:
    """Return that all entries were paid, by their keys."""
    rows = shop.rows("SELECT idempotency_key FROM ledger_entries ORDER BY idempotency_key")
    assert len(rows) == 3
    return [Outcome(row.idempotency_key, SettlementState.SETTLED) for row in rows]


def count_settled(shop: Harness) -> int:
    return len(shop.rows("SELECT 1 FROM ledger_settlements WHERE state = 'settled'"))


def start(
    thread: ThreadPoolExecutor, shop: Harness, act: Callable[[sa.Connection], int]
) -> Future[int]:
    """Start a transaction in another thread; return once it waits for a lock."""

    def commit() -> int:
        with shop.live.database.transaction() as connection:
            return act(connection)

    started = thread.submit(commit)
    wait_until(lambda: bool(shop.rows(WAITS)), 20, "the other transaction to wait")
    return started


def test_a_file_and_a_person_settle_parts_of_one_refund_at_the_same_moment(shop: Harness) -> None:
    first, second, _ = list_paid(shop)
    with ThreadPoolExecutor(1) as thread:
        with shop.live.database.transaction() as connection:
            assert settle(connection, first, OLGA)  # as the first line of a file
            ticked = start(thread, shop, lambda other: settle(other, second, MONA))
            assert settle(connection, second, OLGA)  # its second line
        with pytest.raises(ReportedAgain):
            ticked.result(20)
    assert count_settled(shop) == 2


def test_a_file_locks_all_its_orders_by_their_ids_first(shop: Harness) -> None:
    """As look-ups and erasures do."""
    paid = list(enumerate(list_paid(shop)))
    with ThreadPoolExecutor(1) as thread:
        with shop.live.database.transaction() as connection:
            orders.lock_row(connection, "W1")
            imported = start(thread, shop, lambda other: settle_all(other, paid, OLGA))
            orders.lock_row(connection, "W2")
        assert imported.result(20) == 3
    assert count_settled(shop) == 3


def test_the_sweep_does_not_wait_for_what_is_being_settled(shop: Harness) -> None:
    pass_time(shop, days=8)
    with ThreadPoolExecutor(1) as thread, shop.live.database.transaction() as connection:
        assert settle(connection, list_paid(shop)[0], OLGA)
        assert thread.submit(tell_overdue_settlements).result(20) == 2
    assert tell_overdue_settlements() == 0
