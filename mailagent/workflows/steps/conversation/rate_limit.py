"""Limits before a model call: requests and tokens a minute of all workers together, and the daily budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.openai.client import MAX_OUTPUT_TOKENS
from mailagent.agent.prompt import estimate_tokens
from mailagent.domain.operations.circuit_breaker import LONGEST_WAIT_AT_WORK_SECONDS
from mailagent.domain.operations.model_cost import cost_of, format_usd
from mailagent.domain.operations.provider import OPENAI
from mailagent.domain.operations.rate_limit import LONGEST_WAIT_SECONDS, TURN_SECONDS
from mailagent.store.operations import rate_limits

# A sleep uses the machine's clock, a turn the database's; they may differ by this much.
CLOSE_ENOUGH_SECONDS = 0.05

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Turn:
    """A reservation for one call. `wait_seconds`: 0 if it may be made now. `at_ms`: the reserved time, in
    milliseconds since 1970; pass it to `take_turn` again after the wait."""

    wait_seconds: float = 0.0
    at_ms: int = 0


def take_turn(
    instructions: str, items: Sequence[Mapping[str, Any]], longest_seconds: float, at_ms: int = 0
) -> Turn | None:
    """Reserve a turn for a call; None, without a reservation, if it would wait longer than `longest_seconds`.

    `at_ms` is the turn that was reserved before a wait, 0 for none.
    """
    live = services.current()
    if not live.rate_limit.is_limited:
        return Turn()
    now = live.now()
    if at_ms:
        ahead = (_EPOCH + at_ms * _MILLISECOND - now).total_seconds()
        if -TURN_SECONDS <= ahead <= LONGEST_WAIT_SECONDS:
            return Turn(ahead if ahead > CLOSE_ENOUGH_SECONDS else 0.0, at_ms)
    tokens = _tokens_of(instructions, items) if live.rate_limit.tokens else 0
    share = live.rate_limit.share_of(tokens)
    with live.database.transaction() as connection:
        starts_at = rate_limits.reserve(connection, OPENAI, share, now, longest_seconds)
    if starts_at is None:
        return None
    wait = max(0.0, (starts_at - now).total_seconds())
    # Rounded up: after the wait it must not be a moment too early.
    return Turn(wait, -((_EPOCH - starts_at) // _MILLISECOND))


def is_above_the_limit(instructions: str, items: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a call takes more tokens than the limit of a whole minute."""
    limit = services.current().rate_limit.tokens
    return limit is not None and _tokens_of(instructions, items) > limit


def note_wish(connection: sa.Connection, outcome: Mapping[str, Any]) -> None:
    """Hold all workers' calls for the provider's Retry-After when its rate limit is reached, for at
    most LONGEST_WAIT_AT_WORK_SECONDS. A longer Retry-After also opens the circuit breaker."""
    live, wish = services.current(), outcome.get("after_seconds")
    if outcome.get("limited") and wish and live.rate_limit.is_limited:
        seconds = min(wish, LONGEST_WAIT_AT_WORK_SECONDS)
        rate_limits.hold(connection, OPENAI, live.rate_limit.share_of(0), live.now(), seconds)


def _tokens_of(instructions: str, items: Sequence[Mapping[str, Any]]) -> int:
    asked = estimate_tokens(json.dumps(items, ensure_ascii=False))
    return asked + _standing_tokens(instructions) + MAX_OUTPUT_TOKENS


@lru_cache(maxsize=8)
def _standing_tokens(instructions: str) -> int:
    from mailagent.workflows.tools import registry  # here: it imports this package's steps

    return estimate_tokens(instructions + json.dumps(registry.schemas(services.current().policy)))


# --- spending -------------------------------------------------------------------------------------


def cost_of_today() -> Decimal | None:
    """Return what the model has cost today in US dollars, at most a few seconds old; None without a budget."""
    live = services.current()
    if live.daily_budget is None:
        return None
    use = live.spending.of_today(live.database, live.now())
    return cost_of(use.values(), live.token_prices)


def why_stopped() -> str | None:
    """Return why the agent begins no more mail today, as a text for people; None if it may."""
    budget, cost = services.current().daily_budget, cost_of_today()
    if budget is None or cost is None or not budget.is_spent(cost):
        return None
    return f"today's budget for the model is spent: {format_usd(cost)} of {format_usd(budget.usd)}"


def why_alarmed() -> str | None:
    """Return, as a text for people, how much of today's budget is spent if that is nearly all; else None."""
    budget, cost = services.current().daily_budget, cost_of_today()
    if budget is None or cost is None or not budget.is_near(cost):
        return None
    return f"{format_usd(cost)} of today's {format_usd(budget.usd)} (UTC) are spent"
