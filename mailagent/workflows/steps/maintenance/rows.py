"""How the sweep goes through waiting rows: page by page, with the runs that were enqueued for them. Each row
has its own transaction, so that one that fails stops no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import sqlalchemy as sa

from mailagent import services
from mailagent.engine.run import Run
from mailagent.store.errors import is_outage
from mailagent.workflows.steps.notices import tell_of_row

logger = logging.getLogger(__name__)

ROWS_AT_ONCE = 500

R = TypeVar("R")


def process_waiting(
    read: Callable[[sa.Connection, int, str], Sequence[R]],
    id_of: Callable[[R], str],
    runs_of: Callable[[R], Sequence[str]],
    process: Callable[[R, Mapping[str, Run]], int],
) -> int:
    """Process all rows that `read` returns, and return the sum of what `process` returns.

    `read` takes a connection, a limit, and the id of the last row before. `runs_of` returns the ids of the runs
    that may be enqueued for a row; `process` gets those that exist.
    """

    live = services.current()

    def read_page(last: str) -> Sequence[R]:
        with live.database.snapshot() as connection:
            return read(connection, ROWS_AT_ONCE, last)

    done, last = 0, ""
    while page := read_page(last):
        run_ids = [run_id for row in page for run_id in runs_of(row)]
        runs = live.workflow_client.runs.find_latest(run_ids)
        # A run that ended since the first reading has changed its row.
        unchanged = set(read_page(last))
        waiting = [(row, runs) for row in page if row in unchanged]
        done += process_each(waiting, lambda pair: id_of(pair[0]), lambda pair: process(*pair))
        if len(page) < ROWS_AT_ONCE:
            break
        last = id_of(page[-1])
    return done


def process_each(rows: Iterable[R], id_of: Callable[[R], str], process: Callable[[R], int]) -> int:
    """Process each row, and return the sum of what `process` returns.

    If a row fails, log it, tell the operators once, and go on with the others. Raises the database's error if
    the database itself fails."""
    done, failed = 0, 0
    for row in rows:
        try:
            done += process(row)
        except Exception as error:
            if is_outage(error):
                raise
            failed += 1
            logger.exception(
                "row=%s event=sweep_failed: the sweep goes on with the others", id_of(row)
            )
            tell_of_row(id_of(row), error)
    if failed:
        logger.error("event=sweep_incomplete: the sweep failed on %s rows", failed)
    return done
