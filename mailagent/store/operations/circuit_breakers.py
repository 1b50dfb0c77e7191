"""Circuit breakers as rows: one for each provider that has failed lately, shared by all workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent.domain.operations.circuit_breaker import (
    LONGEST_WISH_SECONDS,
    PROBE_SECONDS,
    Breaker,
    Failure,
    after_failure,
    given_another_chance,
)
from mailagent.domain.operations.provider import Provider
from mailagent.store import audit, schema
from mailagent.store.database import Row, insert_once, update_rows

_breakers = schema.breakers


def find(connection: sa.Connection, provider: Provider) -> Breaker | None:
    """Return a provider's breaker; None if the provider has not failed lately."""
    query = sa.select(_breakers).where(_breakers.c.provider == provider.name)
    row = connection.execute(query).one_or_none()
    return _breaker(row) if row else None


def list_open(connection: sa.Connection, providers: Iterable[Provider]) -> dict[Provider, Breaker]:
    """Return the open breakers of these providers, the one that opened first in front."""
    by_name = {provider.name: provider for provider in providers}
    query = sa.select(_breakers).where(
        _breakers.c.opened_at.is_not(None), _breakers.c.provider.in_(by_name)
    )
    rows = connection.execute(query.order_by(_breakers.c.opened_at)).all()
    return {by_name[row.provider]: _breaker(row) for row in rows}


def _breaker(row: Row) -> Breaker:
    return Breaker(row.failures, row.opened_at, row.until_at, row.needs_operator, row.why)


def claim_probe(connection: sa.Connection, provider: Provider, now: datetime) -> bool:
    """Claim the probe of a provider whose breaker is open; return whether we got it. Of several processes at
    once, one gets it.

    If its outcome is not recorded, because the process died, the next probe is free after PROBE_SECONDS.
    """
    beyond = now + timedelta(seconds=LONGEST_WISH_SECONDS)
    here = _breakers.c.provider == provider.name
    is_due = sa.or_(_breakers.c.until_at <= now, _breakers.c.until_at > beyond)
    until = now + timedelta(seconds=PROBE_SECONDS)
    return update_rows(connection, _breakers, here, is_due, until_at=until) == 1


def free_probe(connection: sa.Connection, provider: Provider, now: datetime) -> None:
    """Give a probe back that was not used."""
    here = _breakers.c.provider == provider.name
    update_rows(connection, _breakers, here, _breakers.c.until_at > now, until_at=now)


def record_success(
    connection: sa.Connection, provider: Provider, probing: bool, now: datetime
) -> None:
    """Record that a call succeeded. `probing`: it was the probe. Only a probe closes an open breaker, because
    other calls may have begun before it opened."""
    known = _breakers.c.provider == provider.name
    where = known if probing else sa.and_(known, _breakers.c.until_at.is_(None))
    ended = connection.execute(_breakers.delete().where(where))
    if probing and ended.rowcount:
        _record_closed(connection, provider.name, now)


def _record_closed(connection: sa.Connection, name: str, now: datetime) -> None:
    audit.record(connection, now, audit.CLOCK, audit.CLOSED, name)


def last_closed_at(connection: sa.Connection, provider: Provider) -> datetime | None:
    """Return when a provider's breaker was last closed, or None."""
    return audit.latest_at(connection, provider.name, audit.CLOSED)


def record_failure(
    connection: sa.Connection, provider: Provider, failure: Failure, now: datetime, probing: bool
) -> Breaker:
    """Record that a call failed; return the breaker as it is after that. `probing`: it was the probe."""
    insert_once(connection, _breakers, {"provider": provider.name}, "provider")
    known = _breakers.c.provider == provider.name
    row = connection.execute(sa.select(_breakers).where(known).with_for_update()).one()
    after = after_failure(_breaker(row), failure, now, probing)
    update_rows(connection, _breakers, known, **asdict(after))
    return after


def give_another_chance(
    connection: sa.Connection, now: datetime, unused_since: datetime | None = None
) -> None:
    """Close all breakers, because an operator replays a run after fixing something
    (`given_another_chance`). `unused_since`: close only breakers whose probe has been free since then."""
    query = sa.select(_breakers).where(_breakers.c.until_at.is_not(None))
    if unused_since is not None:
        query = query.where(_breakers.c.until_at < unused_since)
    rows = connection.execute(query.with_for_update()).all()
    for row in rows:
        here, after = _breakers.c.provider == row.provider, given_another_chance(_breaker(row))
        update_rows(connection, _breakers, here, **asdict(after))
        _record_closed(connection, row.provider, now)
