"""A provider's limits of requests and tokens a minute, by the generic cell rate algorithm (ITU-T I.371). Pure.

Each call takes a part of a minute, and the next one starts after it. So no 60 seconds have more calls than the
limits allow. Some calls may start at once (a burst); the steady rate is lower by as many.

A call takes the tokens that it sends and the most that its answer may have. OpenAI counts both before it
answers, and does not document that it gives unused tokens back."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

MINUTE = 60_000_000  # microseconds, as all times here

# Requests within the same second do not wait for each other.
REQUESTS_AT_ONCE = 1_000_000
# A tenth of a minute's tokens may be used at once; or one usual call, but at most half of a minute's tokens. A
# larger call starts later.
TOKENS_AT_ONCE = 10
TOKENS_OF_A_CALL = 12_000

# A run that would wait longer for its first call ends, and its mail is answered later, because a waiting run
# keeps its slot in the queue. A run that has made a call waits; else we would pay for the earlier calls again.
LONGEST_FIRST_WAIT_SECONDS = 20.0
LONGEST_WAIT_SECONDS = 600.0
# A worker that was stopped for this many seconds after its turn has lost its reservation.
TURN_SECONDS = 5.0

# What the answer to one mail usually takes. The sweep enqueues as many mails a minute as the limits allow.
CALLS_OF_A_MAIL = 3
TOKENS_OF_A_MAIL = 33_000


@dataclass(frozen=True, slots=True)
class Share:
    """What a call takes of each limit, in microseconds. `requests`, `tokens`: the time until the next call's
    turn. `requests_ahead`, `tokens_ahead`: how long before its turn it may start if capacity is unused;
    negative for a large call, which starts after its turn."""

    requests: int
    requests_ahead: int
    tokens: int
    tokens_ahead: int


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The most requests and tokens a minute, of all workers together; None for no limit."""

    requests: int | None = None
    tokens: int | None = None

    @property
    def is_limited(self) -> bool:
        return self.requests is not None or self.tokens is not None

    @property
    def mails_a_minute(self) -> int | None:
        """About how many mails a minute we can begin to answer, at least 1; None without a limit."""
        by_requests = self.requests // CALLS_OF_A_MAIL if self.requests else None
        by_tokens = self.tokens // TOKENS_OF_A_MAIL if self.tokens else None
        known = [each for each in (by_requests, by_tokens) if each is not None]
        return max(1, min(known)) if known else None

    def share_of(self, tokens: int) -> Share:
        """Return what one call takes. `tokens`: those that it sends and the most that its answer may have."""
        requests = ceil((MINUTE + REQUESTS_AT_ONCE) / self.requests) if self.requests else 0
        if not self.tokens:
            return Share(requests, REQUESTS_AT_ONCE if requests else 0, 0, 0)
        at_once = max(self.tokens / TOKENS_AT_ONCE, min(TOKENS_OF_A_CALL, self.tokens / 2))
        each = MINUTE / (self.tokens - at_once)
        ahead = floor((at_once - min(tokens, self.tokens)) * each)
        took = ceil(tokens * each)
        return Share(requests, REQUESTS_AT_ONCE if requests else 0, took, ahead)
