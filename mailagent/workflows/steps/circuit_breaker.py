"""Leave to ask a provider, and what came of asking: the breakers as steps meet them."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.circuit_breaker import (
    Breaker,
    Failure,
    Provider,
    Standing,
    standing,
)
from mailagent.domain.text import tell_error
from mailagent.store.operations import circuit_breakers, metric_figures


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to ask a provider once. `probing`: everybody else waits for what comes of it; `failed_lately`:
    there is something on record that an answer ends."""

    provider: Provider
    probing: bool = False
    failed_lately: bool = False


def find_permit(connection: sa.Connection, provider: Provider) -> Permit | None:
    """Return leave to ask a provider, or None while nobody is to. In a transaction, which takes the turn of
    a probe."""
    found = circuit_breakers.find(connection, provider)
    how = standing(found, services.current().now())
    if how is Standing.PROBE:
        return _take_trial(connection, provider)
    return _permit(provider, found, how)


def take_permit(provider: Provider, found: Breaker | None) -> Permit | None:
    """Return leave to ask a provider of which `found` was just read, or None while nobody is to."""
    live = services.current()
    how = standing(found, live.now())
    if how is not Standing.PROBE:
        return _permit(provider, found, how)
    with live.database.transaction() as connection:
        return _take_trial(connection, provider)


def _permit(provider: Provider, found: Breaker | None, how: Standing) -> Permit | None:
    return None if how is Standing.OPEN else Permit(provider, failed_lately=found is not None)


def _take_trial(connection: sa.Connection, provider: Provider) -> Permit | None:
    if not circuit_breakers.claim_probe(connection, provider, services.current().now()):
        return None
    return Permit(provider, probing=True, failed_lately=True)


def give_back(connection: sa.Connection, leave: Permit) -> None:
    """Give leave back that was not used."""
    if leave.probing:
        circuit_breakers.free_probe(connection, leave.provider, services.current().now())


@dataclass(frozen=True, slots=True)
class Noted:
    """What a call came to for those who ask next. `is_open`: the provider is not asked for now."""

    is_open: bool = False


def note_outcome(connection: sa.Connection, leave: Permit, failure: Failure | None) -> Noted:
    """Record whether a provider has answered (None) or failed."""
    now = services.current().now()
    if failure is None:
        if leave.failed_lately:
            circuit_breakers.record_success(connection, leave.provider, leave.probing, now)
        return Noted()
    told = Failure(tell_error(failure.why), failure.wish_seconds, failure.needs_operator)
    _before, after = circuit_breakers.record_failure(
        connection, leave.provider, told, now, leave.probing
    )
    metric_figures.count_failure(connection, leave.provider.value)
    return Noted(after.until_at is not None)
