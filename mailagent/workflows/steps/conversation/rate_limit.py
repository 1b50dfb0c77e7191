"""Limits before a model call: requests and tokens a minute of all workers together, and the daily budget."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from threading import Lock
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.openai.client import MAX_OUTPUT_TOKENS
from mailagent.agent.prompt import estimate_tokens
from mailagent.domain.operations.circuit_breaker import LONGEST_WAIT_AT_WORK_SECONDS, Provider
from mailagent.domain.operations.model_cost import cost_of, format_usd
from mailagent.domain.operations.rate_limit import (
    LONGEST_FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    TURN_SECONDS,
)
from mailagent.store.operations import rate_limits

# A sleep ends by the machine's clock, a turn begins by the database's.
CLOSE_ENOUGH_SECONDS = 0.05

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Turn:
    """A reservation for one call. `wait_seconds`: 0 if it may be made now; `at_ms`: the reserved time, in
    milliseconds since 1970, to be passed in again after the wait; `tokens`: how many were reserved."""

    wait_seconds: float = 0.0
    at_ms: int = 0
    tokens: int = 0


class _Owed:
    """Tokens that this process's calls took beyond their reservations. The next call reserves them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tokens = 0

    def add(self, tokens: int) -> None:
        with self._lock:
            self._tokens += tokens

    def take(self) -> int:
        with self._lock:
            owed, self._tokens = self._tokens, 0
            return owed


_owed = _Owed()


def take_turn(
    instructions: str, items: Sequence[Mapping[str, Any]], at_ms: int, has_begun: bool
) -> Turn | None:
    """Reserve a turn for a call; None, without a reservation, if it would come too late.

    `at_ms` is the turn that was reserved before a wait, 0 for none. A run that has begun may wait longer.
    """
    live = services.current()
    if not live.pace.is_limited:
        return Turn()
    now = live.now()
    tokens = _tokens_of(instructions, items) if live.pace.tokens else 0
    if at_ms:
        ahead = (_EPOCH + at_ms * _MILLISECOND - now).total_seconds()
        if -TURN_SECONDS <= ahead <= LONGEST_WAIT_SECONDS:
            return Turn(ahead if ahead > CLOSE_ENOUGH_SECONDS else 0.0, at_ms, tokens)
    owed = _owed.take() if tokens else 0
    longest = LONGEST_WAIT_SECONDS if has_begun else LONGEST_FIRST_WAIT_SECONDS
    with live.database.transaction() as connection:
        step = live.pace.step(tokens, owed)
        starts_at = rate_limits.book(connection, Provider.OPENAI, step, now, longest)
    if starts_at is None:
        _owed.add(owed)
        return None
    wait = max(0.0, (starts_at - now).total_seconds())
    # Rounded up: after the wait it must not be a moment too early.
    return Turn(wait, -((_EPOCH - starts_at) // _MILLISECOND), tokens)


def wait_for_turn(
    instructions: str, items: Sequence[Mapping[str, Any]], longest_seconds: float
) -> bool:
    """Reserve a turn for a call and sleep until it begins. Return False at once, without a reservation, if that
    would take longer than `longest_seconds`."""
    live = services.current()
    if not live.pace.is_limited:
        return True
    step = live.pace.step(_tokens_of(instructions, items) if live.pace.tokens else 0)
    now = live.now()
    with live.database.transaction() as connection:
        starts_at = rate_limits.book(connection, Provider.OPENAI, step, now, longest_seconds)
    if starts_at is None:
        return False
    time.sleep(max(0.0, (starts_at - now).total_seconds()))
    return True


def is_above_the_limit(instructions: str, items: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a call takes more tokens than the limit of a whole minute."""
    limit = services.current().pace.tokens
    return limit is not None and _tokens_of(instructions, items) > limit


def note_tokens(turn: Turn, outcome: Mapping[str, Any]) -> None:
    """Note the tokens that a call took beyond its reservation. What its answer did not need stays reserved: no
    provider documents that it gives that back."""
    usage = outcome.get("usage")
    if turn.tokens and usage:
        _owed.add(max(0, usage.get("input", 0) + MAX_OUTPUT_TOKENS - turn.tokens))


def note_wish(connection: sa.Connection, outcome: Mapping[str, Any]) -> None:
    """Hold all workers' calls for the pause that a provider asks for when its limits are used up. Longer pauses
    are the circuit breaker's."""
    live, wish = services.current(), outcome.get("after_seconds")
    if outcome.get("limited") and wish and live.pace.is_limited:
        seconds = min(wish, LONGEST_WAIT_AT_WORK_SECONDS)
        rate_limits.hold(connection, Provider.OPENAI, live.pace.step(0), live.now(), seconds)


def _tokens_of(instructions: str, items: Sequence[Mapping[str, Any]]) -> int:
    asked = estimate_tokens(json.dumps(items, ensure_ascii=False))
    return asked + _standing_tokens(instructions) + MAX_OUTPUT_TOKENS


@lru_cache(maxsize=8)
def _standing_tokens(instructions: str) -> int:
    from mailagent.workflows.tools import registry  # here: it imports this package's steps

    return estimate_tokens(instructions + json.dumps(registry.schemas(services.current().policy)))


# --- spending -------------------------------------------------------------------------------------


def cost_of_today() -> Decimal | None:
    """Return what the model has cost today, at most a few seconds old; None without a budget."""
    live = services.current()
    if live.daily_budget is None:
        return None
    use = live.spending.of_today(live.database, live.now())
    return cost_of(use.values(), live.token_prices)


def why_stopped() -> str | None:
    """Return why the agent begins no mail, for people; None if it does."""
    budget, cost = services.current().daily_budget, cost_of_today()
    if budget is None or cost is None or not budget.is_spent(cost):
        return None
    return f"today's budget for the model is spent: {format_usd(cost)} of {format_usd(budget.usd)}"


def why_alarmed() -> str | None:
    """Return, for people, that the budget is nearly spent; None if it is not."""
    budget, cost = services.current().daily_budget, cost_of_today()
    if budget is None or cost is None or not budget.is_near(cost):
        return None
    return f"{format_usd(cost)} of today's {format_usd(budget.usd)} (UTC) are spent"
