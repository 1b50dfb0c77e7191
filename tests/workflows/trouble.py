"""Trouble made on purpose: steps that fail, databases that are cut off, locked or restarted."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions

from mailagent import services
from mailagent.engine import DELIVERY, QUEUE_OF
from mailagent.store import schema
from mailagent.workflows.steps import recording
from tests.cast import DESK_WISH, MONA, big_order
from tests.harness import Harness, wait_until


class Mistake(Exception):
    """An error as code with a mistake raises it."""


def table_of_runs(shop: Harness) -> str:
    return f"{'' if is_sqlite(shop) else 'dbos.'}workflow_status"


def is_sqlite(shop: Harness) -> bool:
    return shop.live.database.engine.dialect.name == "sqlite"


@contextmanager
def watched(at: str, do: Callable[[], None]) -> Iterator[Counter[str]]:
    """Do something whenever a step comes to a point, such as "pay_refund before"; count all points."""
    seen: Counter[str] = Counter()

    def watcher(name: str, point: str) -> None:
        seen[f"{name} {point}"] += 1
        if f"{name} {point}" == at:
            do()

    unwatch = recording.watch(watcher)
    try:
        yield seen
    finally:
        unwatch()


@contextmanager
def failing(step: str) -> Iterator[Counter[str]]:
    """Let a step fail as long as this lasts."""

    def fail() -> None:
        raise Mistake(f"ada@example.com: 'a word of hers' in {step}")

    with watched(f"{step} before", fail) as seen:
        yield seen


def once(do: Callable[[], None]) -> Callable[[], None]:
    """Return what does it the first time only."""
    left = [do]
    return lambda: left.pop()() if left else None


def wait_for_run(shop: Harness, workflow: str, status: str) -> str:
    """Wait until some run of a workflow is in a state; return its id."""

    def found() -> list[str]:
        runs = shop.live.workflow_client.runs.list_runs(status=status)
        return [run.run_id for run in runs if run.workflow == workflow]

    wait_until(lambda: bool(found()), 30, f"a {workflow} run that is {status}")
    return found()[0]


@contextmanager
def dbos_client(shop: Harness) -> Iterator[DBOSClient]:
    """Do what anybody with access to the database can do, or the DBOS console."""
    client = DBOSClient(
        system_database_engine=shop.live.database.engine,
        serializer=DBOSPortableJSONSerializer(),
        application_name="mailagent",
    )
    yield client
    client.destroy()


def enqueue_by_hand(shop: Harness, run_id: str, *arguments: str, **named: str) -> None:
    """Enqueue a delivery with any arguments."""
    options: EnqueueOptions = {
        "workflow_name": DELIVERY,
        "queue_name": QUEUE_OF[DELIVERY],
        "workflow_id": run_id,
    }
    with dbos_client(shop) as client:
        client.enqueue(options, *arguments, **named)


def set_run(shop: Harness, run_id: str, status: str, worker_id: str = "test") -> None:
    """Put a run into a state, as if it had come to it just now."""
    with shop.live.database.transaction() as connection:
        connection.execute(
            sa.text(
                f"UPDATE {table_of_runs(shop)} SET status = :status, executor_id = :worker_id,"
                " owner_xid = 'somebody', updated_at = :now, completed_at = :now"
                " WHERE workflow_uuid = :run_id"
            ),
            {
                "status": status,
                "worker_id": worker_id,
                "run_id": run_id,
                "now": int(shop.live.now().timestamp() * 1000),
            },
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


def later(shop: Harness, **delta: float) -> None:
    """Let time pass for the rows."""
    now = shop.live.now() + timedelta(**delta)
    services.bind(replace(shop.live, now=lambda: now))


def backdate_refund(shop: Harness, days: int) -> None:
    """Let the only refund have been asked for and decided so many days earlier."""
    with shop.live.database.transaction() as connection:
        (row,) = connection.execute(sa.select(schema.refunds)).all()
        earlier = row.requested_at - timedelta(days=days)
        connection.execute(schema.refunds.update().values(requested_at=earlier, decided_at=earlier))


def forget_runs(shop: Harness) -> None:
    """Lose every wake-up, as a restored backup of the app's tables would."""
    with shop.live.database.transaction() as connection:
        connection.execute(sa.text(f"DELETE FROM {table_of_runs(shop)}"))


def delete_run(shop: Harness, run_id: str) -> None:
    """Delete a run, as an operator does in the DBOS console."""
    with dbos_client(shop) as client:
        client.delete_workflow(run_id)


def let_be_missed(shop: Harness) -> None:
    """Let this shop's worker have signed in without a gap for a minute: others can be missed then."""
    with shop.live.database.transaction() as connection:
        for row in connection.execute(sa.select(schema.workers)).all():
            connection.execute(
                schema.workers.update()
                .where(schema.workers.c.worker_id == row.worker_id)
                .values(steady_since=row.seen_at - timedelta(minutes=1))
            )


def cut_connections(shop: Harness, where: str = "TRUE") -> int:
    """End connections to the database, DBOS's too, as its operator would; return how many."""
    server = sa.create_engine(shop.live.database.engine.url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        ended = connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {where}"
            )
        ).all()
    server.dispose()
    return len(ended)


@contextmanager
def locked_file(shop: Harness) -> Iterator[None]:
    """Hold the one lock of a SQLite file, as a backup that was forgotten would."""
    path = shop.live.database.engine.url.database
    assert path is not None
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


def lose_patience(shop: Harness) -> None:
    """Let the app's own connections to SQLite wait for a lock for a tenth of a second only."""
    engine = shop.live.database.engine
    engine.dispose()

    @sa.event.listens_for(engine, "connect")
    def hurry(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA busy_timeout=100")
