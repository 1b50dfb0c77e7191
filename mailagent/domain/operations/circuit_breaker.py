"""A breaker for each provider: after several failures in a row nobody asks it but one at a time. Pure.

Closed, everybody asks. Open, nobody does until a time; then one who asks is the probe, and what comes of
that closes the breaker or opens it for longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from mailagent.domain.operations.retry import share_of

FAILURES_TO_OPEN = 5  # in a row, of all workers together
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 60.0  # between two probes, unless the provider itself names a longer one
LONGEST_WISH_SECONDS = 900.0  # of a provider's own word (Retry-After), which may be a day
# A provider that names a longer pause than this is not asked again before: no run waits it out.
LONGEST_WAIT_AT_WORK_SECONDS = 120.0
# After so long the probe's process has died: the model's adapter gives an answer up after 90 seconds,
# SendGrid's after 30. A Stripe that sends a byte now and then may hold a probe longer; then there are two.
PROBE_SECONDS = 120.0

FIRST_LOOK_SECONDS = 60.0
LAST_LOOK_SECONDS = 900.0


class Provider(StrEnum):
    """Whom we depend on over the network."""

    OPENAI = "openai"
    SENDGRID = "sendgrid"
    STRIPE = "stripe"

    @property
    def called(self) -> str:
        return _TITLES[self]


_TITLES = {Provider.OPENAI: "OpenAI", Provider.SENDGRID: "SendGrid", Provider.STRIPE: "Stripe"}

_MEANS = {
    Provider.OPENAI: "mail waits and is answered by itself later",
    Provider.SENDGRID: "mail of ours waits and goes out by itself later",
    Provider.STRIPE: "refunds wait and are paid by themselves later",
}


@dataclass(frozen=True, slots=True)
class Breaker:
    """What is on record of a provider that has failed lately. `failures` in a row; `needs_operator`: it
    refuses us, and waiting alone does not help."""

    failures: int = 0
    opened_at: datetime | None = None
    until_at: datetime | None = None
    needs_operator: bool = False
    why: str = ""


class Standing(Enum):
    """Who may ask a provider now."""

    CLOSED = "everybody"
    PROBE = "one"
    OPEN = "nobody"


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that the provider did not answer as it should. `wish_seconds`: the pause that it asked for
    itself; `needs_operator`: it refuses us, so every call would fail."""

    why: str
    wish_seconds: float = 0.0
    needs_operator: bool = False


def standing(breaker: Breaker | None, now: datetime) -> Standing:
    """Return who may ask. A time further off than any pause was set by a clock that went wrong, and
    holds nobody up."""
    if breaker is None or breaker.until_at is None:
        return Standing.CLOSED
    ahead = (breaker.until_at - now).total_seconds()
    return Standing.OPEN if 0 < ahead <= LONGEST_WISH_SECONDS else Standing.PROBE


def after_failure(breaker: Breaker, failure: Failure, now: datetime, probing: bool) -> Breaker:
    """Return the breaker after one more failure.

    Of calls that were under way when it opened no pause becomes longer; a probe's failure doubles it.
    """
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
    """Return the pause before the next probe: as long as the breaker has been open, so that it doubles,
    within 10 and 60 seconds; or what the provider asked for, if that is longer."""
    own = min(max(open_seconds, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
    return max(own, min(failure.wish_seconds, LONGEST_WISH_SECONDS))


def given_another_chance(breaker: Breaker) -> Breaker:
    """Return the breaker after an operator has put something right and replays: everybody asks, and the
    first failure opens it again. A provider that still refuses us is no news."""
    failures = min(breaker.failures, FAILURES_TO_OPEN - 1)
    return Breaker(failures, needs_operator=breaker.needs_operator, why=breaker.why)


def look_again_seconds(row_id: str, age_seconds: float) -> float:
    """Return how long a row waits whose provider is not asked, before it is looked at again.

    As long as it has waited already, within a minute and seven and a half, and up to twice that: by its
    id, so that thousands of rows do not come back in the same second.
    """
    base = min(max(age_seconds, FIRST_LOOK_SECONDS), LAST_LOOK_SECONDS / 2)
    return base * (1 + share_of(row_id))


def away_name(provider: Provider) -> str:
    """Return what the console calls a provider whose breaker is open."""
    return f"away:{provider}"


def tell_breaker(provider: Provider, breaker: Breaker, now: datetime) -> str:
    """Return an open breaker in a sentence, for people. Times are UTC."""
    opened_at, until_at = breaker.opened_at, breaker.until_at
    since = f" since {opened_at:%Y-%m-%d %H:%M} UTC" if opened_at else ""
    what = "refuses us" if breaker.needs_operator else "does not answer as it should"
    failures = "1 failure" if breaker.failures == 1 else f"{breaker.failures} failures"
    is_ahead = until_at is not None and until_at > now
    next_try = f"next try {until_at:%H:%M:%S}" if is_ahead else "tried again when there is need"
    return f"{provider.called} {what}{since}: {_MEANS[provider]} ({failures}, {next_try})"
