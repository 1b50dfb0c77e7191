"""Limits a minute as times: never more within any minute, and what is little is not held up."""

from __future__ import annotations

import pytest

from mailagent.domain.operations.rate_limit import MINUTE, RateLimit


def starts(pace: RateLimit, calls: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return when calls start that are made in this order, each at a time and of so many tokens."""
    requests_until = tokens_until = 0
    begun = []
    for at, tokens in calls:
        step = pace.step(tokens)
        start = max(at, requests_until - step.requests_ahead, tokens_until - step.tokens_ahead)
        requests_until = max(requests_until, start) + step.requests
        tokens_until = max(tokens_until, start) + step.tokens
        begun.append((start, tokens))
    return begun


def most_in_a_minute(begun: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the most calls, and the most tokens, that start within a minute from any of the starts."""
    windows = [[one for one in begun if at <= one[0] < at + MINUTE] for at, _ in begun]
    return max(map(len, windows)), max(sum(each[1] for each in window) for window in windows)


@pytest.mark.parametrize("most", [1, 2, 3, 59, 60, 61, 500], ids=str)
def test_no_minute_has_more_requests_than_the_limit(most: int) -> None:
    begun = starts(RateLimit(requests=most), [(0, 1)] * (3 * most + 2))
    assert most_in_a_minute(begun)[0] == most


@pytest.mark.parametrize("tokens", [1, 700, 3_000, 10_000], ids=str)
def test_no_minute_has_more_tokens_than_the_limit(tokens: int) -> None:
    limit = 100_000
    begun = starts(
        RateLimit(tokens=limit), [(0, tokens)] * (2 * limit // tokens if tokens > 1 else 50)
    )
    assert most_in_a_minute(begun)[1] <= limit
    # And not much is given away.
    assert tokens == 1 or most_in_a_minute(begun)[1] >= limit * 0.8


def test_both_limits_hold_at_once() -> None:
    pace = RateLimit(requests=30, tokens=60_000)
    calls = [(at * 900_000, 100 if at % 3 else 9_000) for at in range(200)]
    requests, tokens = most_in_a_minute(starts(pace, calls))
    assert requests <= 30
    assert tokens <= 60_000


@pytest.mark.parametrize("limit", [15_000, 30_000, 100_000, 500_000], ids=str)
def test_large_calls_carry_no_minute_over_its_limit(limit: int) -> None:
    sizes = [10_500, 14_000, 9_000, 25_000, 8_500]
    calls = [(0, min(limit, sizes[number % 5])) for number in range(3 * limit // 10_000 + 10)]
    assert most_in_a_minute(starts(RateLimit(tokens=limit), calls))[1] <= limit


def test_calls_with_room_between_them_do_not_wait() -> None:
    calls = [(at * 2_000_000, 1_000) for at in range(100)]
    assert starts(RateLimit(requests=60, tokens=60_000), calls) == calls


@pytest.mark.parametrize(
    ("pace", "mails"),
    [
        (RateLimit(), None),
        (RateLimit(requests=1), 1),
        (RateLimit(requests=500), 166),
        (RateLimit(tokens=330_000), 10),
        (RateLimit(requests=500, tokens=330_000), 10),
    ],
    ids=["none", "one", "requests", "tokens", "both"],
)
def test_as_many_mails_are_brought_back_as_the_limits_bear(
    pace: RateLimit, mails: int | None
) -> None:
    assert pace.mails_a_minute == mails
    assert pace.is_limited == (mails is not None)
