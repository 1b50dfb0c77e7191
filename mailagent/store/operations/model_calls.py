"""Calls of the model as rows: outcome, tokens and cost, also of answers that were never sent; and the
spending of a day. No text is stored here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

import sqlalchemy as sa

from mailagent.domain.operations.model_cost import (
    TokenPrices,
    Tokens,
    day_begins_at,
    micro_usd,
    plus,
    tokens_of,
)
from mailagent.store import schema
from mailagent.store.database import Database, insert_once

_calls = schema.model_calls


def record(
    connection: sa.Connection,
    call_id: int,
    conversation_id: str,
    run_id: str | None,
    outcome: Mapping[str, Any],
    now: datetime,
    prices: TokenPrices | None = None,
) -> bool:
    """Record one call by its `outcome`, the plain data that the model's adapter returned.

    `call_id` is made once for each call (`ids.new_number`). `prices` are those of its model now: what it cost
    stays, whatever they become. Returns whether it was not on record yet.
    """
    usage = outcome.get("usage") or {}
    values = {
        "call_id": call_id,
        "conversation_id": conversation_id,
        "run_id": run_id,
        "at": now,
        "model": outcome.get("model") or "",
        "outcome": outcome["kind"],
        "input_tokens": usage.get("input", 0),
        "cached_tokens": usage.get("cached", 0),
        "output_tokens": usage.get("output", 0),
        "cost_micro_usd": None if prices is None else micro_usd(prices, usage),
    }
    return insert_once(connection, _calls, values, "call_id")


def sum_of(connection: sa.Connection, conversation_id: str) -> dict[str, Tokens]:
    """Return what the calls for a conversation took, by the model's name."""
    return _sum(connection, _calls.c.conversation_id == conversation_id)


def sum_between(
    connection: sa.Connection, since: datetime, until: datetime | None
) -> dict[str, Tokens]:
    """Return likewise what all calls took from a time on, and before another one."""
    before = [] if until is None else [_calls.c.at < until]
    return _sum(connection, _calls.c.at >= since, *before)


def _sum(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> dict[str, Tokens]:
    # No more of a call is cached than it read.
    cached = sa.case(
        (_calls.c.cached_tokens > _calls.c.input_tokens, _calls.c.input_tokens),
        else_=_calls.c.cached_tokens,
    )
    cost = _calls.c.cost_micro_usd
    summed = sa.select(
        _calls.c.model,
        sa.func.count(),
        _total(_calls.c.input_tokens),
        _total(cached),
        _total(_calls.c.output_tokens),
        sa.case((cost.is_not(None), _total(cost))),
    )
    found: dict[str, Tokens] = {}
    for model, *numbers in connection.execute(
        summed.where(*where).group_by(_calls.c.model, cost.is_not(None))
    ):
        found[model] = found.get(model, Tokens()) + tokens_of(*numbers)
    return found


def _total(tokens: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    # PostgreSQL sums integers into a type that the driver reads as a Decimal.
    return sa.cast(sa.func.coalesce(sa.func.sum(tokens), 0), sa.BigInteger)


# --- spending -------------------------------------------------------------------------------------


# Asked by each run, answered from memory for so long.
KEPT = timedelta(seconds=5)
# What is recorded now may be committed a little later; what is older is not counted again.
SETTLED_AFTER = timedelta(seconds=60)
DAY = timedelta(days=1)

Use = Mapping[str, Tokens]  # by the name of the model


class Spending:
    """Counts the tokens of a day by model, for one process; safe to be shared by threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked_at: datetime | None = None
        self._settled_until: datetime | None = None
        self._settled: Use = {}
        self._today: Use = {}
        self._past: dict[datetime, Use] = {}

    def of_today(
        self, database: Database, now: datetime, statement_seconds: float | None = None
    ) -> Use:
        """Return what today's calls took until a few seconds ago. `statement_seconds`: as for a snapshot."""
        with self._lock:
            asked_at = self._asked_at
            if asked_at is None or not timedelta(0) <= now - asked_at < KEPT:
                self._count(database, now, statement_seconds)
            return self._today

    def of_days(self, database: Database, now: datetime, days: int) -> list[tuple[datetime, Use]]:
        """Return today and the days before it, the newest first."""
        today = day_begins_at(now)
        found = [(today, self.of_today(database, now))]
        for number in range(1, days):
            begins_at = today - number * DAY
            if begins_at not in self._past:
                with database.snapshot() as connection:
                    use = sum_between(connection, begins_at, begins_at + DAY)
                if now - (begins_at + DAY) < SETTLED_AFTER:
                    found.append((begins_at, use))
                    continue
                self._past[begins_at] = use
            found.append((begins_at, self._past[begins_at]))
        return found

    def _count(self, database: Database, now: datetime, statement_seconds: float | None) -> None:
        begins_at = day_begins_at(now)
        settled, until = self._settled, self._settled_until
        if until is None or not begins_at <= until <= now:  # another day, or a clock put back
            settled, until = {}, begins_at
        settle_until = max(until, now - SETTLED_AFTER)
        with database.snapshot(statement_seconds) as connection:
            if settle_until > until:
                more = sum_between(connection, until, settle_until)
                settled = plus(settled, more)
            today = plus(settled, sum_between(connection, settle_until, None))
        self._settled, self._settled_until = settled, settle_until
        self._today, self._asked_at = today, now
