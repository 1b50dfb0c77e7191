"""A provider's rate limits as one row for all workers. Each call reserves its turn behind the ones before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mailagent.domain.operations.provider import Provider
from mailagent.domain.operations.rate_limit import Share
from mailagent.store import schema
from mailagent.store.database import insert_once

_rate_limits = schema.rate_limits
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# In microseconds. No reservation is so far in the future; a wrong clock has made such a row, and we reset it.
_FARTHEST = 3_600_000_000


def reserve(
    connection: sa.Connection,
    provider: Provider,
    share: Share,
    now: datetime,
    within_seconds: float,
) -> datetime | None:
    """Reserve a turn for a call; return when it may start. If that is not within `within_seconds`, reserve
    nothing and return None."""
    at = (now - _EPOCH) // _MICROSECOND
    requests, tokens = _lock(connection, provider, at)
    start = max(at, requests - share.requests_ahead, tokens - share.tokens_ahead)
    if start > at + round(within_seconds * 1_000_000):
        return None
    connection.execute(
        _rate_limits.update()
        .where(_rate_limits.c.provider == provider.name)
        .values(
            requests_until=max(requests, start) + share.requests,
            tokens_until=max(tokens, start) + share.tokens,
        )
    )
    return _EPOCH + start * _MICROSECOND


def hold(
    connection: sa.Connection, provider: Provider, share: Share, now: datetime, seconds: float
) -> None:
    """Give no further turns for some seconds, because the provider asks for a pause. `share`: of a usual call,
    because a call may start some time ahead of its turn. Turns that are already reserved stay."""
    at = (now - _EPOCH) // _MICROSECOND
    requests, _ = _lock(connection, provider, at)
    until = max(requests, at + round(seconds * 1_000_000) + share.requests_ahead)
    connection.execute(
        _rate_limits.update()
        .where(_rate_limits.c.provider == provider.name)
        .values(requests_until=until)
    )


def _lock(connection: sa.Connection, provider: Provider, at: int) -> tuple[int, int]:
    """Lock the provider's row until the commit. Return until when its requests and its tokens are reserved, in
    microseconds since 1970; at least `at`, the time now."""
    unused = {"provider": provider.name, "requests_until": at, "tokens_until": at}
    insert_once(connection, _rate_limits, unused, "provider")
    row = connection.execute(
        sa.select(_rate_limits).where(_rate_limits.c.provider == provider.name).with_for_update()
    ).one()
    requests, tokens = (
        at if until > at + _FARTHEST else until for until in (row.requests_until, row.tokens_until)
    )
    return requests, tokens
