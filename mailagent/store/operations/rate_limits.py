"""Turns to ask a provider, as one row for all workers: each call books its own, one behind the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from mailagent.domain.operations.circuit_breaker import Provider
from mailagent.domain.operations.rate_limit import Step
from mailagent.store import schema

_rate_limits = schema.rate_limits
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Nobody books as far ahead: a time beyond was set by a clock that went wrong, and holds nobody up.
_FARTHEST = 3_600_000_000


def book(
    connection: sa.Connection, provider: Provider, step: Step, now: datetime, within_seconds: float
) -> datetime | None:
    """Book a call of a provider; return when it may start, or None if that is not within so many seconds:
    then nothing is booked. One statement, and first come, first served."""
    at = (now - _EPOCH) // _MICROSECOND
    values = {
        "called": provider.value,
        "at": at,
        "latest": at + round(within_seconds * 1_000_000),
        "sane": at + _FARTHEST,
        "requests": step.requests,
        "requests_ahead": step.requests_ahead,
        "tokens": step.tokens,
        "tokens_ahead": step.tokens_ahead,
    }
    starts_at = connection.scalar(_booking(connection.dialect.name), values)
    return None if starts_at is None else _EPOCH + starts_at * _MICROSECOND


_HOLD = (
    _rate_limits.update()
    .where(
        _rate_limits.c.provider == sa.bindparam("called"),
        sa.or_(
            _rate_limits.c.requests_until < sa.bindparam("until"),
            _rate_limits.c.requests_until > sa.bindparam("sane"),
        ),
    )
    .values(requests_until=sa.bindparam("until"))
)


def hold(
    connection: sa.Connection, provider: Provider, step: Step, now: datetime, seconds: float
) -> None:
    """Let no further call of a provider start within so many seconds: it asks for a pause. `step`: that of a
    call, which may start ahead of its turn. Turns that are booked already stand."""
    at = (now - _EPOCH) // _MICROSECOND
    until = at + round(seconds * 1_000_000) + step.requests_ahead
    connection.execute(_HOLD, {"called": provider.value, "until": until, "sane": at + _FARTHEST})


def _make(dialect: str) -> Any:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    most = sa.func.greatest if dialect == "postgresql" else sa.func.max

    def value(name: str) -> sa.BindParameter[int]:
        return sa.bindparam(name, type_=sa.BigInteger)

    def sane(until: sa.Column[int]) -> sa.ColumnElement[int]:
        return sa.case((until > value("sane"), value("at")), else_=until)

    requests, tokens = sane(_rate_limits.c.requests_until), sane(_rate_limits.c.tokens_until)
    start = most(
        value("at"), requests - value("requests_ahead"), tokens - value("tokens_ahead"), type_=sa.BigInteger
    )  # fmt: skip
    first = {
        "provider": sa.bindparam("called"),
        "starts_at": value("at"),
        "requests_until": value("at") + value("requests"),
        "tokens_until": value("at") + value("tokens"),
    }
    return (
        insert(_rate_limits)
        .values(first)
        .on_conflict_do_update(
            index_elements=["provider"],
            set_={
                "starts_at": start,
                "requests_until": most(requests, start) + value("requests"),
                "tokens_until": most(tokens, start) + value("tokens"),
            },
            where=start <= value("latest"),
        )
        .returning(_rate_limits.c.starts_at)
    )


_made: dict[str, Any] = {}


def _booking(dialect: str) -> Any:
    if dialect not in _made:
        _made[dialect] = _make(dialect)
    return _made[dialect]
