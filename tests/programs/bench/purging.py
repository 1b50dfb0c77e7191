"""`python -m tests.programs.bench.purging [RUNS] [--database sqlite|postgresql]`: how fast old
histories go, and what mail notices of it: answers are timed before the purge and beside it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

import sqlalchemy as sa

from mailagent.workflows.steps.maintenance import housekeeping
from tests.databases import fresh_databases
from tests.harness import Harness, open_shop, running, wait_until

STEPS = 6
DAYS_OLD = 60


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", type=int, nargs="?", default=200_000)
    arguments.add_argument("--database", choices=("sqlite", "postgresql"), default="postgresql")
    given = arguments.parse_args()
    with (
        fresh_databases(given.database) as fresh,
        tempfile.TemporaryDirectory() as folder,
        open_shop(Path(folder), fresh()) as shop,
    ):
        began = time.monotonic()
        fill(shop, given.runs)
        print(f"filled with {given.runs} runs of {STEPS} steps in {time.monotonic() - began:.0f} s")
        with running(shop):
            measure(shop)


def fill(shop: Harness, runs: int) -> None:
    """Record runs that ended long ago, as SQL alone can."""
    sqlite = shop.live.database.engine.dialect.name == "sqlite"
    schema, series = (
        ("", _numbers(runs)) if sqlite else ("dbos.", f"generate_series(1, {runs}) n(n)")
    )
    at = round((time.time() - DAYS_OLD * 86400) * 1000)
    columns = "workflow_uuid, name, status, created_at, updated_at, completed_at, inputs, priority"
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(
                f"INSERT INTO {schema}workflow_status ({columns}, attributes) SELECT 'delivery-' || n,"
                f" 'delivery', 'SUCCESS', {at} + n, {at} + n, {at} + n, '', 0,"
                """ '{"subject": "outbound_gone"}' FROM """ + series
            )
        )
        for step in range(1, STEPS + 1):
            connection.execute(
                sa.text(
                    f"INSERT INTO {schema}operation_outputs (workflow_uuid, function_id, function_name,"
                    f" output, retention_timestamp) SELECT 'delivery-' || n, {step}, 'look', '{'x' * 300}',"
                    f" {at} FROM {series}"
                )
            )


def _numbers(count: int) -> str:
    return (
        f"(WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})"
        " SELECT n FROM n)"
    )


def measure(shop: Harness) -> None:
    alone = [answer(shop, number) for number in range(10)]
    done: list[tuple[int, float]] = []

    def purge() -> None:
        began = time.monotonic()
        gone = housekeeping.delete_histories(housekeeping.Clock(None))
        done.append((gone, time.monotonic() - began))

    thread = threading.Thread(target=purge)
    thread.start()
    beside: list[float] = []
    while thread.is_alive():
        beside.append(answer(shop, 100 + len(beside)))
    thread.join()
    gone, seconds = done[0]
    print(f"purged {gone} histories in {seconds:.1f} s, {gone / seconds:.0f} a second")
    for name, took in (("alone", alone), ("beside the purge", beside)):
        print(
            f"mail to answer, {name}: {len(took)} mails, median {statistics.median(took):.2f} s, "
            f"longest {max(took):.2f} s"
        )


def answer(shop: Harness, number: int) -> float:
    """Write a mail and return how long its answer took, in seconds."""
    began = time.monotonic()
    sender = f"customer{number}@example.net"
    shop.write("Which orders of mine do you have?", from_address=sender, from_name="Customer")
    wait_until(lambda: bool(shop.mails_to(sender)), 120, "an answer")
    return time.monotonic() - began


if __name__ == "__main__":
    main()
