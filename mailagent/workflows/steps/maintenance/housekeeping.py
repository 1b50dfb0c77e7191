"""Effects of the housekeeping: what is old enough goes, bit by bit, so that nobody waits for it.

Whatever breaks off leaves whole batches behind it, and the next one goes on; several at once take
different rows. `docs/retention.md` says what goes when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa
from dbos import DBOS

from mailagent import services
from mailagent.engine import OldRun
from mailagent.store.operations import step_texts
from mailagent.store.privacy import open_cases, retention
from mailagent.workflows.steps.recording import at_work, step

# On SQLite a delete holds up every other writer.
RUNS_AT_ONCE = 100
ROWS_AT_ONCE = 500
CONVERSATIONS_AT_ONCE = 50
PAUSE_SECONDS = 0.02
# Of each of the three steps: a quarter of the hour, so that they are over before the next hour's begin. What
# is left is the next hour's. A worker that is to end waits for a batch, not for a step.
STEP_SECONDS = 900.0
# Each hour looks this far back only; `flask purge` looks at everything.
LOOKS_BACK = timedelta(days=60)
# No index tells a sweep from a customer's run: whoever looks for the oldest reads all runs since. So once a day
# everything, for what was left while no worker ran; in the other hours this much.
LOOKS_BACK_FOR_SCHEDULED = timedelta(hours=6)
LOOKS_AT_ALL_IN_HOUR = 3  # UTC

_List = Callable[[sa.Connection, datetime, int, OldRun | None], Sequence[OldRun]]


@dataclass(frozen=True, slots=True)
class Clock:
    """How long a purge may go on; `seconds` None: until nothing is left. In a run also no longer than until
    its process is to end."""

    seconds: float | None
    began: float = field(default_factory=time.monotonic)

    def is_over(self) -> bool:
        if DBOS.workflow_id is not None and at_work.is_leaving:
            return True
        return self.seconds is not None and time.monotonic() - self.began >= self.seconds


@step
def purge_histories() -> int:
    """Delete histories of runs that ended long ago; return of how many."""
    looks_at_all = services.current().now().hour == LOOKS_AT_ALL_IN_HOUR
    return delete_histories(Clock(STEP_SECONDS), None if looks_at_all else LOOKS_BACK_FOR_SCHEDULED)


@step
def purge_content() -> int:
    """Take out what was said long ago, if the shop wants that; return of how many conversations and of
    how many mails outside of any."""
    return take_out_text(Clock(STEP_SECONDS), LOOKS_BACK)


@step
def purge_short_lived() -> int:
    """Delete rows that served for a while only; return how many."""
    return delete_short_lived(Clock(STEP_SECONDS))


# --- histories ------------------------------------------------------------------------------------


def delete_histories(clock: Clock, back: timedelta | None = None) -> int:
    """Delete the histories that are old enough, and the words that they speak of, until the clock stops it;
    return of how many runs. `back`:
    how far before that to look for what the schedule began, None for everything."""
    live = services.current()
    now, kept, client = live.now(), live.retention, live.workflow_client
    scheduled, ended = kept.scheduled_runs_before(now), kept.runs_before(now)
    since = None if back is None else _place_of(scheduled - back)
    deleted = _delete_all(
        client.histories.list_scheduled_before, scheduled, clock, since
    ) + _delete_all(client.histories.list_ended_before, ended, clock)
    _repeat(lambda connection: step_texts.purge(connection, ended, ROWS_AT_ONCE), clock)
    return deleted


def _place_of(moment: datetime) -> OldRun:
    """Return what stands before all runs that were begun at a time or later."""
    return OldRun("", "", "", round(moment.timestamp() * 1000))


def _delete_all(read: _List, before: datetime, clock: Clock, since: OldRun | None = None) -> int:
    live, deleted = services.current(), 0
    last = since
    while not clock.is_over():
        with live.database.snapshot() as connection:
            page = read(connection, before, RUNS_AT_ONCE, last)
            done_with = _done_with(connection, page)
        if not page:
            break
        last = page[-1]
        with live.database.transaction() as connection:
            gone = live.workflow_client.histories.delete_old(connection, done_with, before)
            retention.forget_dismissals(connection, gone)
        deleted += len(gone)
        if len(page) < RUNS_AT_ONCE:
            break
        time.sleep(PAUSE_SECONDS)
    return deleted


def _done_with(connection: sa.Connection, page: Sequence[OldRun]) -> list[str]:
    """Return those of the runs whose row has come to its end, too."""
    still_open = open_cases.find_open(connection, {run.subject for run in page})
    return [run.run_id for run in page if run.subject not in still_open]


def count_histories() -> int:
    """Return how many histories are old enough to be deleted."""
    live = services.current()
    now, kept, client = live.now(), live.retention, live.workflow_client
    counted = 0
    for read, before in (
        (client.histories.list_scheduled_before, kept.scheduled_runs_before(now)),
        (client.histories.list_ended_before, kept.runs_before(now)),
    ):
        last: OldRun | None = None
        with live.database.snapshot() as connection:
            while page := read(connection, before, ROWS_AT_ONCE, last):
                counted += len(_done_with(connection, page))
                last = page[-1]
    return counted


# --- words, and rows that serve for a while ---------------------------------------------------------


def take_out_text(clock: Clock, back: timedelta | None = None) -> int:
    """Take out what is old enough until the clock stops it; return of how many conversations and of how
    many mails outside of any. `back`: how far before that to look, None for everything."""
    live = services.current()
    now = live.now()
    before = live.retention.text_before(now)
    if before is None:
        return 0
    since = None if back is None else before - back

    def threads(connection: sa.Connection) -> int:
        return retention.purge_conversations(connection, before, since, now, CONVERSATIONS_AT_ONCE)

    def loose(connection: sa.Connection) -> int:
        return retention.purge_loose(connection, before, since, ROWS_AT_ONCE)

    return _repeat(threads, clock) + _repeat(loose, clock)


def delete_short_lived(clock: Clock) -> int:
    """Delete rows that served for a while until the clock stops it; return how many."""
    return sum(delete_of_rule(rule, clock) for rule in retention.RULES)


def delete_of_rule(rule: retention.Rule, clock: Clock) -> int:
    """Delete rows of one such sort until the clock stops it; return how many."""
    now = services.current().now()
    return _repeat(lambda connection: retention.purge(connection, rule, now, ROWS_AT_ONCE), clock)


def _repeat(purge: Callable[[sa.Connection], int], clock: Clock) -> int:
    live, gone = services.current(), 0
    while not clock.is_over():
        with live.database.transaction() as connection:
            batch = purge(connection)
        if not batch:
            break
        gone += batch
        time.sleep(PAUSE_SECONDS)
    return gone
