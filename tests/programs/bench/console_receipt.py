"""What the index of words costs when mail is received: rows of mail written with it and without it."""

from __future__ import annotations

import time

import sqlalchemy as sa

_ROWS = 20_000
_TIMES = 3


def measure_receipt(engine: sa.Engine) -> tuple[float, float]:
    """Return how many microseconds one row takes with the index of words, and without it; the best of
    three. Nothing else of a receipt is in it, so it is the largest share that the index can have."""
    return _best(engine, with_text=True), _best(engine, with_text=False)


def _best(engine: sa.Engine, with_text: bool) -> float:
    return min(_measure(engine, with_text) for _ in range(_TIMES))


def _measure(engine: sa.Engine, with_text: bool) -> float:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE received (LIKE inbound_mails INCLUDING ALL)")
        index = connection.scalar(
            sa.text(
                "SELECT indexname FROM pg_indexes WHERE tablename = 'received' AND indexdef LIKE '%gin%'"
            )
        )
        if not with_text:
            connection.exec_driver_sql(f"DROP INDEX {index}")
    began = time.perf_counter()
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO received SELECT * FROM inbound_mails ORDER BY received_at DESC LIMIT {_ROWS}"
        )
    taken = time.perf_counter() - began
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE received")
    return taken / _ROWS * 1_000_000
