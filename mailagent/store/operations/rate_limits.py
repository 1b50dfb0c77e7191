"""Turns to ask a provider, as one row for all workers: each call books its own, one behind the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mailagent.domain.operations.provider import Provider
from mailagent.domain.operations.rate_limit import Step
from mailagent.store import schema
from mailagent.store.database import insert_once

_rate_limits = schema.rate_limits
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# No call is booked as far ahead. A clock that went wrong set such a time, and it counts as now.
_FARTHEST = 3_600_000_000


def book(
    connection: sa.Connection, provider: Provider, step: Step, now: datetime, within_seconds: float
) -> datetime | None:
    """Book a call of a provider; return when it may start, or None if that is not within so many seconds:
    then nothing is booked."""
    at = (now - _EPOCH) // _MICROSECOND
    requests, tokens = _lock(connection, provider, at)
    start = max(at, requests - step.requests_ahead, tokens - step.tokens_ahead)
    if start > at + round(within_seconds * 1_000_000):
        return None
    connection.execute(
        _rate_limits.update()
        .where(_rate_limits.c.provider == provider.name)
        .values(
            requests_until=max(requests, start) + step.requests,
            tokens_until=max(tokens, start) + step.tokens,
        )
    )
    return _EPOCH + start * _MICROSECOND


def hold(
    connection: sa.Connection, provider: Provider, step: Step, now: datetime, seconds: float
) -> None:
    """Let no further call of a provider start within so many seconds: it asks for a pause. `step`: that of a
    call, which may start ahead of its turn. Turns that are booked already stand."""
    at = (now - _EPOCH) // _MICROSECOND
    requests, _ = _lock(connection, provider, at)
    until = max(requests, at + round(seconds * 1_000_000) + step.requests_ahead)
    connection.execute(
        _rate_limits.update()
        .where(_rate_limits.c.provider == provider.name)
        .values(requests_until=until)
    )


def _lock(connection: sa.Connection, provider: Provider, at: int) -> tuple[int, int]:
    """Let no other call book until the commit. Return until when requests and tokens are booked, in
    microseconds since 1970."""
    unused = {"provider": provider.name, "requests_until": at, "tokens_until": at}
    insert_once(connection, _rate_limits, unused, "provider")
    row = connection.execute(
        sa.select(_rate_limits).where(_rate_limits.c.provider == provider.name).with_for_update()
    ).one()
    requests, tokens = (
        at if until > at + _FARTHEST else until for until in (row.requests_until, row.tokens_until)
    )
    return requests, tokens
