"""Breakers, as rows: one for each provider that has failed lately, for all workers together."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent.domain.operations.circuit_breaker import (
    LONGEST_WISH_SECONDS,
    PROBE_SECONDS,
    Breaker,
    Failure,
    Provider,
    after_failure,
    given_another_chance,
)
from mailagent.store import audit, schema
from mailagent.store.database import Row, insert_once

_breakers = schema.breakers


def find(connection: sa.Connection, provider: Provider) -> Breaker | None:
    """Return what is on record of a provider; None when it has not failed lately."""
    query = sa.select(_breakers).where(_breakers.c.provider == provider.value)
    row = connection.execute(query).one_or_none()
    return _breaker(row) if row else None


def list_open(connection: sa.Connection) -> dict[Provider, Breaker]:
    """Return the breakers that are open, by provider, the longest open first."""
    query = sa.select(_breakers).where(_breakers.c.opened_at.is_not(None))
    rows = connection.execute(query.order_by(_breakers.c.opened_at)).all()
    return {Provider(row.provider): _breaker(row) for row in rows}


def _breaker(row: Row) -> Breaker:
    return Breaker(row.failures, row.opened_at, row.until_at, row.needs_operator, row.why)


def claim_probe(connection: sa.Connection, provider: Provider, now: datetime) -> bool:
    """Claim the probe of a provider whose breaker is open. If several processes claim it at once, one gets it.

    If its outcome is not recorded, because the process died, the next probe is free after PROBE_SECONDS.
    """
    beyond = now + timedelta(seconds=LONGEST_WISH_SECONDS)
    claimed = connection.execute(
        _breakers.update()
        .where(
            _breakers.c.provider == provider.value,
            sa.or_(_breakers.c.until_at <= now, _breakers.c.until_at > beyond),
        )
        .values(until_at=now + timedelta(seconds=PROBE_SECONDS))
    )
    return claimed.rowcount == 1


def free_probe(connection: sa.Connection, provider: Provider, now: datetime) -> None:
    """Give a probe back that was not used."""
    connection.execute(
        _breakers.update()
        .where(_breakers.c.provider == provider.value, _breakers.c.until_at > now)
        .values(until_at=now)
    )


def record_success(
    connection: sa.Connection, provider: Provider, probing: bool, now: datetime
) -> None:
    """Record that a provider has answered. Only a probe closes an open breaker: other answers may belong to
    calls from before it opened."""
    known = _breakers.c.provider == provider.value
    where = known if probing else sa.and_(known, _breakers.c.until_at.is_(None))
    ended = connection.execute(_breakers.delete().where(where))
    if probing and ended.rowcount:
        _record_closed(connection, provider, now)


def _record_closed(connection: sa.Connection, provider: Provider, now: datetime) -> None:
    audit.record(connection, now, audit.CLOCK, audit.CLOSED, provider.value)


def last_closed_at(connection: sa.Connection, provider: Provider) -> datetime | None:
    """Return when a provider's breaker was last closed, or None."""
    return audit.latest_at(connection, provider.value, audit.CLOSED)


def record_failure(
    connection: sa.Connection, provider: Provider, failure: Failure, now: datetime, probing: bool
) -> tuple[Breaker, Breaker]:
    """Record that a provider has failed; return its breaker before and after."""
    insert_once(connection, _breakers, {"provider": provider.value}, "provider")
    known = _breakers.c.provider == provider.value
    row = connection.execute(sa.select(_breakers).where(known).with_for_update()).one()
    before = _breaker(row)
    after = after_failure(before, failure, now, probing)
    connection.execute(_breakers.update().where(known).values(**asdict(after)))
    return before, after


def give_another_chance(connection: sa.Connection, now: datetime) -> None:
    """Let every provider be called again: an operator has put something right and replays. The first failure
    opens its breaker again."""
    rows = connection.execute(
        sa.select(_breakers).where(_breakers.c.until_at.is_not(None)).with_for_update()
    ).all()
    for row in rows:
        connection.execute(
            _breakers.update()
            .where(_breakers.c.provider == row.provider)
            .values(**asdict(given_another_chance(_breaker(row))))
        )
        _record_closed(connection, Provider(row.provider), now)
