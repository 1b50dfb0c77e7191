"""Calls of the model, as rows: what each came to and how many tokens it took, also of answers that never
left. No words of anybody are kept here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.operations.cost import TokenPrices, Tokens, micro_usd, tokens_of
from mailagent.store import schema
from mailagent.store.database import insert_once

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
