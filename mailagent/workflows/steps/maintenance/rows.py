"""How the sweep goes through rows that wait: page by page, with the runs that were enqueued for them, and
each row by itself, so that one which makes trouble stops no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import sqlalchemy as sa

from mailagent import services
from mailagent.engine import Run
from mailagent.store.errors import is_outage
from mailagent.workflows.steps.operators import tell_of_row

logger = logging.getLogger(__name__)

ROWS_AT_ONCE = 500

R = TypeVar("R")


def see_to_waiting(
    read: Callable[[sa.Connection, int, str], Sequence[R]],
    name: Callable[[R], str],
    runs_of: Callable[[R], Sequence[str]],
    see_to: Callable[[R, Mapping[str, Run]], int],
) -> int:
    """See to all rows that `read` gives, and return how many there was something to do about.

    `read` takes a connection, a limit, and the name of the last row that it gave; `runs_of` names the
    runs that may look after a row; `see_to` is given those that exist.
    """
    done, last = 0, ""
    while True:
        page = _read(read, last)
        if page:
            runs = services.current().workflow_client.runs.find_latest(
                [r for row in page for r in runs_of(row)]
            )
            # A run that has ended since the rows were read has left its mark in them.
            unchanged = set(_read(read, last))
            waiting = [row for row in page if row in unchanged]
            done += see_to_each(waiting, name, lambda row, runs=runs: see_to(row, runs))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        if len(page) < ROWS_AT_ONCE:
            return done
        last = name(page[-1])


def _read(read: Callable[[sa.Connection, int, str], Sequence[R]], last: str) -> Sequence[R]:
    with services.current().database.snapshot() as connection:
        return read(connection, ROWS_AT_ONCE, last)


def see_to_each(rows: Iterable[R], name: Callable[[R], str], see_to: Callable[[R], int]) -> int:
    """See to each row by itself, and return how many there was something to do about.

    A row that makes trouble is logged, the operators are told of it once, and the others go on.
    Raises what the database says when it is in trouble itself: then no row can be seen to.
    """
    done, failed = 0, 0
    for row in rows:
        try:
            done += see_to(row)
        except Exception as error:
            if is_outage(error):
                raise
            failed += 1
            logger.exception("the sweep cannot see to %s; it goes on with the others", name(row))
            tell_of_row(name(row), f"{type(error).__name__}: {error}")
    if failed:
        logger.error("the sweep could not see to %s rows", failed)
    return done
