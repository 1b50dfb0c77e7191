"""A provider's limits of requests and tokens a minute, by the generic cell rate algorithm (ITU-T I.371). Pure.

Each call takes its share of a minute, and the next one starts after it. So no minute, wherever it begins, has
more calls than the limits allow. Calls that may start at once are subtracted from what is let through evenly.

A call takes the tokens that it sends and the most that its answer may have. OpenAI counts both before it
answers, and does not document that it gives unused tokens back."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

MINUTE = 60_000_000  # microseconds, as all times here

# Requests within the same second do not wait for each other.
REQUESTS_AT_ONCE = 1_000_000
# A tenth of a minute's tokens may start at once, or a usual call if that is at most half. A larger call
# starts later.
TOKENS_AT_ONCE = 10
TOKENS_OF_A_CALL = 12_000

# A run that would wait longer for its first call puts its mail off, because a waiting run keeps its slot in
# the queue. A run that has made a call waits, because the calls before would have to be paid again.
LONGEST_FIRST_WAIT_SECONDS = 20.0
LONGEST_WAIT_SECONDS = 600.0
# A reservation that was not used for so long is lost: the worker was stopped meanwhile.
TURN_SECONDS = 5.0

# What one mail usually takes; used to decide how many mails the sweep enqueues a minute.
CALLS_OF_A_MAIL = 3
TOKENS_OF_A_MAIL = 33_000


@dataclass(frozen=True, slots=True)
class Step:
    """What a call takes of each limit, in microseconds: its duration, and how long before its turn it may
    start if the limit was not used up before (after its turn, if negative)."""

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
        """How many mails are begun a minute, about; None without a limit."""
        by_requests = self.requests // CALLS_OF_A_MAIL if self.requests else None
        by_tokens = self.tokens // TOKENS_OF_A_MAIL if self.tokens else None
        known = [each for each in (by_requests, by_tokens) if each is not None]
        return max(1, min(known)) if known else None

    def step(self, tokens: int) -> Step:
        """Return what one call of so many tokens takes."""
        requests = ceil((MINUTE + REQUESTS_AT_ONCE) / self.requests) if self.requests else 0
        if not self.tokens:
            return Step(requests, REQUESTS_AT_ONCE if requests else 0, 0, 0)
        at_once = max(self.tokens / TOKENS_AT_ONCE, min(TOKENS_OF_A_CALL, self.tokens / 2))
        each = MINUTE / (self.tokens - at_once)
        ahead = floor((at_once - min(tokens, self.tokens)) * each)
        took = ceil(tokens * each)
        return Step(requests, REQUESTS_AT_ONCE if requests else 0, took, ahead)
