"""Permits to call a provider, and the outcomes of calls, by the circuit breaker of each provider."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.circuit_breaker import BreakerState, Failure, breaker_state
from mailagent.domain.operations.provider import Provider
from mailagent.domain.text import tell_error
from mailagent.store.operations import circuit_breakers, metric_figures


@dataclass(frozen=True, slots=True)
class Permit:
    """A permit to call a provider once. `probing`: all others wait for the outcome of this call.
    `failed_lately`: a success has to be recorded."""

    provider: Provider
    probing: bool = False
    failed_lately: bool = False


def find_permit(connection: sa.Connection, provider: Provider) -> Permit | None:
    """Return a permit to call a provider, or None while its breaker is open."""
    now = services.current().now()
    found = circuit_breakers.find(connection, provider)
    match breaker_state(found, now):
        case BreakerState.CLOSED:
            return Permit(provider, failed_lately=found is not None)
        case BreakerState.PROBE if circuit_breakers.claim_probe(connection, provider, now):
            return Permit(provider, probing=True, failed_lately=True)
    return None


def free_permit(connection: sa.Connection, permit: Permit) -> None:
    """Free a permit that was not used, so that another call may probe."""
    if permit.probing:
        circuit_breakers.free_probe(connection, permit.provider, services.current().now())


def note_outcome(connection: sa.Connection, permit: Permit, failure: Failure | None) -> bool:
    """Record whether a provider has answered (None) or failed. Return whether its breaker is open now."""
    now = services.current().now()
    if failure is None:
        if permit.failed_lately:
            circuit_breakers.record_success(connection, permit.provider, permit.probing, now)
        return False
    told = Failure(tell_error(failure.why), failure.wish_seconds, failure.needs_operator)
    after = circuit_breakers.record_failure(connection, permit.provider, told, now, permit.probing)
    metric_figures.count_failure(connection, permit.provider.name)
    return after.until_at is not None
