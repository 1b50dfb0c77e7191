"""Calls of the model, as rows: what each came to and how many tokens it took, also of answers that never
left. No words of anybody are kept here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.cost import Tokens
from mailagent.store import schema

_calls = schema.model_calls


def record(
    connection: sa.Connection,
    conversation_id: str,
    run_id: str | None,
    outcome: Mapping[str, Any],
    now: datetime,
) -> None:
    """Record one call by its `outcome`, the plain data that the model's adapter returned."""
    usage = outcome.get("usage") or {}
    values = {
        "conversation_id": conversation_id,
        "run_id": run_id,
        "at": now,
        "model": outcome.get("model") or "",
        "outcome": outcome["kind"],
        "input_tokens": usage.get("input", 0),
        "cached_tokens": usage.get("cached", 0),
        "output_tokens": usage.get("output", 0),
    }
    connection.execute(_calls.insert(), values)


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
    summed = sa.select(
        _calls.c.model,
        sa.func.count(),
        _total(_calls.c.input_tokens),
        _total(cached),
        _total(_calls.c.output_tokens),
    )
    found = connection.execute(summed.where(*where).group_by(_calls.c.model))
    return {model: Tokens(*numbers) for model, *numbers in found}


def _total(tokens: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    # PostgreSQL sums integers into a type that the driver reads as a Decimal.
    return sa.cast(sa.func.coalesce(sa.func.sum(tokens), 0), sa.BigInteger)
