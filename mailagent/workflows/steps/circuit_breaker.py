"""The circuit breakers of the providers: permits to call a provider, and how the calls ended."""

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
    """A permit to call a provider once. `probing`: this call is the probe, and no other call gets a permit
    until it has ended. `failed_lately`: the breaker has counted failures, so a success has to be recorded."""

    provider: Provider
    probing: bool = False
    failed_lately: bool = False


def claim_permit(connection: sa.Connection, provider: Provider) -> Permit | None:
    """Claim a permit to call a provider; None while its breaker is open, or another call probes. If a probe is
    due, the permit is for it: call `note_outcome` after the call, or `free_permit` without one."""
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
    """Record how a call ended. `failure`: None if the provider answered, even with a refusal. Returns whether
    its breaker is open now."""
    now = services.current().now()
    if failure is None:
        if permit.failed_lately:
            circuit_breakers.record_success(connection, permit.provider, permit.probing, now)
        return False
    told = Failure(tell_error(failure.why), failure.wish_seconds, failure.needs_operator)
    after = circuit_breakers.record_failure(connection, permit.provider, told, now, permit.probing)
    metric_figures.count_failure(connection, permit.provider.name)
    return after.until_at is not None
