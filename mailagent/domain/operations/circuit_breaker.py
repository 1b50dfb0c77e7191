"""The circuit breaker of each provider. Pure.

While the breaker is closed, we make every call. Several failures in a row, a refused key or a long Retry-After
open it until `until_at`. Then one call is the probe: its success closes it, its failure opens it again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from math import ceil

from mailagent.domain.operations.provider import Provider, ProviderKind
from mailagent.domain.operations.report import tell_time
from mailagent.domain.operations.retry import share_of
from mailagent.domain.text import Fill, fill

FAILURES_TO_OPEN = 5  # in a row, of all workers together
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 60.0  # between two probes, unless the provider itself names a longer one
LONGEST_WISH_SECONDS = 900.0  # we wait no longer, even if the provider's Retry-After says a day
# A longer Retry-After opens the breaker, because no run sleeps for longer.
LONGEST_WAIT_AT_WORK_SECONDS = 120.0
# A probe without an outcome after this time counts as lost: its process died. The model's adapter gives up
# after 90 seconds. A gateway may take longer (CALL_IS_UNDER_WAY_FOR): then two probes may run at once.
PROBE_SECONDS = 120.0

FIRST_LOOK_SECONDS = 60.0
LAST_LOOK_SECONDS = 900.0


MEANS = {
    ProviderKind.MODEL: "mail waits and is answered by itself later",
    ProviderKind.MAIL: "mail of ours waits and goes out by itself later",
    ProviderKind.GATEWAY: "refunds wait and are paid by themselves later",
    ProviderKind.ORDERS: "orders are told as they were last seen; refunds wait and go on by themselves later",
}


@dataclass(frozen=True, slots=True)
class Breaker:
    """The breaker of a provider that has failed lately. `failures`: how many in a row. `until_at`: when the
    next probe may start; None while the breaker is closed. `needs_operator`: the provider refuses us, such as
    for a wrong key, and waiting does not help."""

    failures: int = 0
    opened_at: datetime | None = None
    until_at: datetime | None = None
    needs_operator: bool = False
    why: str = ""


class BreakerState(Enum):
    """The state of a breaker. CLOSED: make all calls. PROBE: make one. OPEN: make none."""

    CLOSED = "closed"
    PROBE = "probe"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed. `wish_seconds`: the pause that the provider asked for (Retry-After), 0 for none.
    `needs_operator`: the provider refuses us, so that every call would fail."""

    why: str
    wish_seconds: float = 0.0
    needs_operator: bool = False


def breaker_state(breaker: Breaker | None, now: datetime) -> BreakerState:
    """Return a breaker's state. None stands for a provider that has not failed lately. An `until_at` further
    away than the longest pause comes from a wrong clock, so we allow a probe."""
    if breaker is None or breaker.until_at is None:
        return BreakerState.CLOSED
    ahead = (breaker.until_at - now).total_seconds()
    return BreakerState.OPEN if 0 < ahead <= LONGEST_WISH_SECONDS else BreakerState.PROBE


def after_failure(breaker: Breaker, failure: Failure, now: datetime, probing: bool) -> Breaker:
    """Return the breaker after one more failure. `probing`: the call was the probe. Other calls that fail while
    the breaker is open began before it opened, and do not lengthen the pause."""
    is_open = breaker.until_at is not None
    if is_open and not probing:
        if not failure.needs_operator or breaker.needs_operator:
            return breaker
        return replace(breaker, needs_operator=True, why=failure.why)
    counted = replace(
        breaker,
        failures=breaker.failures + 1,
        needs_operator=failure.needs_operator,
        why=failure.why,
    )
    if not is_open and not _opens(counted, failure):
        return counted
    opened_at = breaker.opened_at or now
    seconds = _pause_seconds((now - opened_at).total_seconds(), failure)
    return replace(counted, opened_at=opened_at, until_at=now + timedelta(seconds=seconds))


def _opens(counted: Breaker, failure: Failure) -> bool:
    return (
        failure.needs_operator
        or failure.wish_seconds > LONGEST_WAIT_AT_WORK_SECONDS
        or counted.failures >= FAILURES_TO_OPEN
    )


def _pause_seconds(open_seconds: float, failure: Failure) -> float:
    """Return the pause before the next probe: as long as the breaker has been open, so that it doubles, from
    10 to 60 seconds; or what the provider asked for, if that is longer."""
    own = min(max(open_seconds, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
    return max(own, min(failure.wish_seconds, LONGEST_WISH_SECONDS))


def given_another_chance(breaker: Breaker) -> Breaker:
    """Return the breaker closed, after an operator has replayed a run. It keeps up to FAILURES_TO_OPEN - 1
    failures, and `needs_operator`, so that a provider that still refuses us opens no second incident."""
    failures = min(breaker.failures, FAILURES_TO_OPEN - 1)
    return Breaker(failures, needs_operator=breaker.needs_operator, why=breaker.why)


def look_again_seconds(
    row_id: str, age_seconds: float, first_seconds: float = FIRST_LOOK_SECONDS
) -> float:
    """Return how many seconds a row waits before the next look at its provider's breaker: as long as it has
    waited already (`age_seconds`), from `first_seconds` to 7.5 minutes, times 1 to 2 by its id, so that not all
    rows look in the same second."""
    base = min(max(age_seconds, first_seconds), LAST_LOOK_SECONDS / 2)
    return base * (1 + share_of(row_id))


def away_name(provider: Provider) -> str:
    """Return the name by which the console lists a provider's open breaker, such as `away:openai`."""
    return f"away:{provider.name}"


def tell_breaker(provider: Provider, breaker: Breaker, now: datetime, _: Fill = fill) -> str:
    """Return a sentence for people about an open breaker. `_` translates the words."""
    opened_at, until_at = breaker.opened_at, breaker.until_at
    what = (
        _("%(provider)s refuses us", provider=provider.title)
        if breaker.needs_operator
        else _("%(provider)s does not answer as it should", provider=provider.title)
    )
    since = _(" since %(since)s", since=opened_at) if opened_at else ""
    failures = _("failures: %(number)s", number=breaker.failures)
    next_try = (
        _("next try in %(time)s", time=tell_time(ceil((until_at - now).total_seconds()), _))
        if until_at is not None and until_at > now
        else _("tried again when there is need")
    )
    # Added, not formatted: a page's sentence has the marks of its times.
    return what + since + ": " + _(MEANS[provider.kind]) + " (" + failures + ", " + next_try + ")"
