"""When a provider is asked, by whom, and how long rows wait that depend on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mailagent.domain.operations.circuit_breaker import (
    Breaker,
    Failure,
    Provider,
    Standing,
    after_failure,
    given_another_chance,
    look_again_seconds,
    standing,
    tell_breaker,
)
from tests.cast import NOW

DOWN = Failure("answered 503")
REFUSED = Failure("answered 401", needs_operator=True)


def opened(open_seconds: float = 0, ahead_seconds: float = 0) -> Breaker:
    """Return a breaker that has been open for a while."""
    return Breaker(
        failures=5,
        opened_at=NOW - timedelta(seconds=open_seconds),
        until_at=NOW + timedelta(seconds=ahead_seconds),
        why="answered 503",
    )


def pause_after(breaker: Breaker, failure: Failure, probing: bool = False) -> float | None:
    after = after_failure(breaker, failure, NOW, probing)
    return None if after.until_at is None else (after.until_at - NOW).total_seconds()


@pytest.mark.parametrize(
    ("breaker", "who"),
    [
        (None, Standing.CLOSED),
        (Breaker(failures=4), Standing.CLOSED),
        (opened(ahead_seconds=0.001), Standing.OPEN),
        (opened(ahead_seconds=0), Standing.PROBE),
        (opened(ahead_seconds=-3600), Standing.PROBE),
        (opened(ahead_seconds=900), Standing.OPEN),
        (opened(ahead_seconds=900.001), Standing.PROBE),
    ],
    ids=["never", "closed", "a moment ahead", "now", "long ago", "far", "a clock was wrong"],
)
def test_nobody_asks_until_the_time_has_come_and_then_one(
    breaker: Breaker | None, who: Standing
) -> None:
    assert standing(breaker, NOW) is who


@pytest.mark.parametrize(
    ("before", "failure", "pause"),
    [
        (0, DOWN, None),
        (3, DOWN, None),
        (4, DOWN, 10),
        (0, Failure("429", wish_seconds=120), None),
        (0, Failure("429", wish_seconds=121), 121),
        (0, Failure("429", wish_seconds=86_400), 900),
        (4, Failure("429", wish_seconds=7), 10),
        (4, Failure("429", wish_seconds=30), 30),
        (0, REFUSED, 10),
    ],
    ids=["first", "fourth", "fifth", "short wish", "long wish", "a day", "small", "own", "refused"],
)
def test_it_opens_after_five_failures_or_at_once_when_the_provider_says_so(
    before: int, failure: Failure, pause: float | None
) -> None:
    assert pause_after(Breaker(failures=before), failure) == pause


@pytest.mark.parametrize(
    ("open_seconds", "pause"),
    [(0, 10), (10, 10), (11, 11), (20, 20), (59, 59), (61, 60), (9e4, 60)],
)
def test_the_pauses_double_up_to_a_minute(open_seconds: float, pause: float) -> None:
    assert pause_after(opened(open_seconds), DOWN, probing=True) == pause


def test_what_was_under_way_when_it_opened_makes_no_pause_longer() -> None:
    late = opened(ahead_seconds=10)
    assert after_failure(late, DOWN, NOW, probing=False) == late
    refused = after_failure(late, REFUSED, NOW, probing=False)
    assert refused == replace(late, needs_operator=True, why="answered 401")
    assert after_failure(refused, REFUSED, NOW, probing=False) == refused


def test_a_probe_tells_anew_whether_an_operator_is_needed() -> None:
    refused = replace(opened(20), needs_operator=True)
    assert not after_failure(refused, DOWN, NOW, probing=True).needs_operator
    assert after_failure(opened(20), REFUSED, NOW, probing=True).needs_operator


@pytest.mark.parametrize("failures", [1, 5, 500])
def test_after_another_chance_everybody_asks_and_one_failure_opens_it(failures: int) -> None:
    fresh = given_another_chance(replace(opened(7200, 60), failures=failures))
    assert standing(fresh, NOW) is Standing.CLOSED
    assert pause_after(fresh, REFUSED) == 10
    if failures >= 5:
        assert pause_after(fresh, DOWN) == 10


def test_a_refusal_after_another_chance_is_no_news() -> None:
    fresh = given_another_chance(replace(opened(20), needs_operator=True))
    assert fresh.needs_operator
    assert not after_failure(fresh, DOWN, NOW, probing=False).needs_operator


@pytest.mark.parametrize(
    ("age_seconds", "shortest", "longest"),
    [(0, 60, 120), (60, 60, 120), (300, 300, 600), (450, 450, 900), (3 * 86_400, 450, 900)],
)
def test_rows_wait_longer_the_older_they_are_and_never_all_together(
    age_seconds: float, shortest: float, longest: float
) -> None:
    waits = [look_again_seconds(f"outbound_{number}", age_seconds) for number in range(1000)]
    assert waits == [
        look_again_seconds(f"outbound_{number}", age_seconds) for number in range(1000)
    ]
    assert shortest <= min(waits) < max(waits) <= longest
    tenths = [round((wait - shortest) / (longest - shortest) * 10) for wait in waits]
    assert max(tenths.count(tenth) for tenth in set(tenths)) < 200


def test_people_are_told_since_when_and_what_comes_next() -> None:
    told = tell_breaker(Provider.OPENAI, opened(60, 30), NOW)
    assert told == (
        "OpenAI does not answer as it should since 2026-11-20 11:59 UTC: mail waits and is answered by "
        "itself later (5 failures, next try 12:00:30)"
    )
    assert "tried again when there is need" in tell_breaker(Provider.STRIPE, opened(60), NOW)
    assert "SendGrid refuses us" in tell_breaker(
        Provider.SENDGRID, replace(opened(), needs_operator=True), NOW
    )
