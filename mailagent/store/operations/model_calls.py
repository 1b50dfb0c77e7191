"""Model calls as rows: outcome, tokens and cost, also of answers that were never sent; and the cost of a day.
They hold no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import ConversationStatus, HandOverReason
from mailagent.domain.operations.model_cost import (
    TokenPrices,
    Tokens,
    day_begins_at,
    micro_usd,
    tokens_of,
)
from mailagent.store import schema
from mailagent.store.database import Database, from_row, in_literals, insert_once

_calls = schema.model_calls

DAY = timedelta(days=1)


def record(
    connection: sa.Connection,
    call_id: int,
    conversation_id: str,
    run_id: str | None,
    outcome: Mapping[str, Any],
    now: datetime,
    prices: TokenPrices | None = None,
) -> bool:
    """Record one model call; return whether it is new. `outcome`: the JSON that the model's adapter returned,
    with the versions of prompt and tools.

    `call_id`: from `ids.new_number`, once for each call. `prices`: the model's prices now, by which we record
    the cost; None: without a cost.
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
        "prompt_version": outcome.get("prompt_version"),
        "tools_version": outcome.get("tools_version"),
    }
    return insert_once(connection, _calls, values, "call_id")


def sum_of(connection: sa.Connection, conversation_id: str) -> dict[str, Tokens]:
    """Return the tokens and costs of a conversation's calls, by the model's name."""
    return _sum(connection, _calls.c.conversation_id == conversation_id)


def sum_by_day(
    connection: sa.Connection, now: datetime, days: int
) -> list[tuple[datetime, dict[str, Tokens]]]:
    """Return the tokens and costs of each of the last `days` days (UTC), newest first, by the model's name."""
    begins = [day_begins_at(now) - number * DAY for number in range(days)]
    return [(at, sum_of_day(connection, at)) for at in begins]


def sum_of_day(connection: sa.Connection, begins_at: datetime) -> dict[str, Tokens]:
    """Return the tokens and costs of the day that begins at `begins_at`, by the model's name."""
    return _sum(connection, _calls.c.at >= begins_at, _calls.c.at < begins_at + DAY)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the conversations with calls of one version of prompt, tools and model. `handed_over`: how
    many people have now. `stopped`: how many of these were handed over because the agent's answer was not
    true."""

    model: str
    prompt_version: str | None
    tools_version: str | None
    first_at: datetime
    last_at: datetime
    calls: int
    conversations: int
    handed_over: int
    stopped: int
    tokens: int


VERSIONS_SHOWN = 20
_VERSION = ("model", "prompt_version", "tools_version")
# A bound, so that the page is fast in a shop with many calls.
CALLS_COUNTED = 10_000


def outcomes_by_version(connection: sa.Connection, since: datetime) -> list[Outcome]:
    """Return the outcomes of each version with calls since a time, counting at most the latest CALLS_COUNTED
    calls. The version with the latest call comes first."""
    latest = sa.select(_calls).where(_calls.c.at >= since).order_by(_calls.c.at.desc())
    calls = latest.limit(CALLS_COUNTED).subquery().c
    # Group by conversation first: counting distinct conversations over all calls takes three times as long.
    each = (
        sa.select(
            *(calls[name] for name in _VERSION),
            calls.conversation_id,
            sa.func.min(calls.at).label("first_at"),
            sa.func.max(calls.at).label("last_at"),
            sa.func.count().label("calls"),
            _total(calls.input_tokens + calls.output_tokens).label("tokens"),
        )
        .group_by(*(calls[name] for name in _VERSION), calls.conversation_id)
        .subquery()
    )
    # Join only the conversations that people have, which are few.
    threads = schema.conversations.c
    is_with_people = sa.and_(
        threads.conversation_id == each.c.conversation_id,
        in_literals(threads.status, ConversationStatus.HANDED_OVER.value),
    )
    untrue = threads.handed_over_reason == HandOverReason.REPLY_NOT_TRUE.value
    last_at = sa.func.max(each.c.last_at).label("last_at")
    version = [each.c[name] for name in _VERSION]
    query = (
        sa.select(
            *version,
            sa.func.min(each.c.first_at).label("first_at"),
            last_at,
            _total(each.c.calls).label("calls"),
            sa.func.count().label("conversations"),
            sa.func.count(threads.conversation_id).label("handed_over"),
            sa.func.count(sa.case((untrue, 1))).label("stopped"),
            _total(each.c.tokens).label("tokens"),
        )
        .outerjoin_from(each, schema.conversations, is_with_people)
        .group_by(*version)
        .order_by(last_at.desc())
        .limit(VERSIONS_SHOWN)
    )
    return [from_row(Outcome, row) for row in connection.execute(query)]


def _sum(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> dict[str, Tokens]:
    # A server may report more cached than input tokens.
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

# Every run asks for today's spending, so we keep the answer for some seconds.
KEPT = timedelta(seconds=5)


class Spending:
    """Today's tokens and costs. One for each process; threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counted_at: datetime | None = None
        self._today: Mapping[str, Tokens] = {}

    def of_today(
        self, database: Database, now: datetime, statement_seconds: float | None = None
    ) -> Mapping[str, Tokens]:
        """Return today's tokens and costs up to KEPT ago, by the model's name. `statement_seconds`: as in
        `Database.snapshot`."""
        with self._lock:
            counted_at = self._counted_at
            if counted_at is None or not timedelta(0) <= now - counted_at < KEPT:
                with database.snapshot(statement_seconds) as connection:
                    self._today = _sum(connection, _calls.c.at >= day_begins_at(now))
                self._counted_at = now
            return self._today
