"""How fast a provider may be asked: its limits of requests and tokens a minute, as times. Pure.

Each call takes the time that its share of the minute lasts, and the next one starts when that is over (the
generic cell rate algorithm, ITU-T I.371). So in no minute, wherever it begins, start more than the limits
allow: what may start at once is taken off what is let through evenly.

A call takes the tokens that it sends and the most that its answer may have: so OpenAI counts it before
there is an answer, and what the answer did not need is not known to be given back.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

MINUTE = 60_000_000  # microseconds, as all times here

# Requests that come within a second of each other need not wait for their turn within it.
REQUESTS_AT_ONCE = 1_000_000
# Of the tokens of a minute a tenth may start at once, but a usual call at least if that is no more than
# half; a call that is larger starts when nothing is owed, and later by what it is larger.
TOKENS_AT_ONCE = 10
TOKENS_OF_A_CALL = 12_000

# Before its first call a mail is put off rather than held for longer: its run would keep a place in which
# the team's words and hand-overs could be seen to. What has begun waits its turn, since the calls
# that were made already would have to be paid again.
LONGEST_FIRST_WAIT_SECONDS = 20.0
LONGEST_WAIT_SECONDS = 600.0
# A turn that was not taken for so long is given up: the worker was stopped meanwhile.
TURN_SECONDS = 5.0

# Of one mail, as a rule: how much is brought back a minute is reckoned with these.
CALLS_OF_A_MAIL = 3
TOKENS_OF_A_MAIL = 33_000


@dataclass(frozen=True, slots=True)
class Step:
    """What a call takes of each limit, in microseconds: for how long, and how long before its turn it may
    start if less was asked before (after its turn, if less than 0)."""

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

    def step(self, tokens: int, owed: int = 0) -> Step:
        """Return what one call of so many tokens takes, and with it `owed` tokens of earlier ones."""
        requests = ceil((MINUTE + REQUESTS_AT_ONCE) / self.requests) if self.requests else 0
        if not self.tokens:
            return Step(requests, REQUESTS_AT_ONCE if requests else 0, 0, 0)
        at_once = max(self.tokens / TOKENS_AT_ONCE, min(TOKENS_OF_A_CALL, self.tokens / 2))
        each = MINUTE / (self.tokens - at_once)
        ahead = floor((at_once - min(tokens, self.tokens)) * each)
        took = ceil((tokens + owed) * each)
        return Step(requests, REQUESTS_AT_ONCE if requests else 0, took, ahead)
