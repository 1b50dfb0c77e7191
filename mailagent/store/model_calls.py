"""Calls of the model, as rows: what each came to and how many tokens it took, also of answers that never
left. No words of anybody are kept here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Row

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


def sum_of(connection: sa.Connection, conversation_id: str) -> Row:
    """Return how often the model was asked for a conversation (`calls`), and the tokens of all calls.

    `cached_tokens` counts no more of a call than it read.
    """
    cached = sa.case(
        (_calls.c.cached_tokens > _calls.c.input_tokens, _calls.c.input_tokens),
        else_=_calls.c.cached_tokens,
    )
    return connection.execute(
        sa.select(
            sa.func.count().label("calls"),
            _total(_calls.c.input_tokens).label("input_tokens"),
            _total(cached).label("cached_tokens"),
            _total(_calls.c.output_tokens).label("output_tokens"),
        ).where(_calls.c.conversation_id == conversation_id)
    ).one()


def _total(tokens: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    # PostgreSQL sums integers into a type that the driver reads as a Decimal.
    return sa.cast(sa.func.coalesce(sa.func.sum(tokens), 0), sa.BigInteger)
