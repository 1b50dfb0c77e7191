"""When a provider is asked, by whom, and how long rows wait that depend on it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from mailagent.domain.operations.circuit_breaker import (
    Breaker,
    BreakerState,
    Failure,
    after_failure,
    breaker_state,
    given_another_chance,
    look_again_seconds,
    tell_breaker,
)
from mailagent.domain.operations.metric import METRICS, Metric, MetricType, table
from mailagent.domain.operations.model_cost import (
    Tokens,
    cost_of,
    cost_usd,
    format_usd,
    micro_usd,
    parse_prices,
    tokens_of,
)
from mailagent.domain.operations.provider import OPENAI, Provider, ProviderKind
from mailagent.domain.operations.rate_limit import MINUTE, RateLimit
from mailagent.domain.shop import Retention
from tests.cast import NOW

STRIPE = Provider(ProviderKind.GATEWAY, "stripe", "Stripe", "STRIPE_API_KEY")
SENDGRID = Provider(ProviderKind.MAIL, "sendgrid", "SendGrid", "SENDGRID_API_KEY")

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
        (None, BreakerState.CLOSED),
        (Breaker(failures=4), BreakerState.CLOSED),
        (opened(ahead_seconds=0.001), BreakerState.OPEN),
        (opened(ahead_seconds=0), BreakerState.PROBE),
        (opened(ahead_seconds=-3600), BreakerState.PROBE),
        (opened(ahead_seconds=900), BreakerState.OPEN),
        (opened(ahead_seconds=900.001), BreakerState.PROBE),
    ],
    ids=["never", "closed", "a moment ahead", "now", "long ago", "far", "a clock was wrong"],
)
def test_nobody_asks_until_the_time_has_come_and_then_one(
    breaker: Breaker | None, who: BreakerState
) -> None:
    assert breaker_state(breaker, NOW) is who


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
    assert breaker_state(fresh, NOW) is BreakerState.CLOSED
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


@pytest.mark.parametrize(
    ("ahead_seconds", "time"),
    [(0.2, "1 s"), (10, "10 s"), (59.1, "60 s"), (119, "119 s"), (120, "2 min"), (900, "15 min")],
)
def test_people_are_told_since_when_and_what_comes_next(ahead_seconds: float, time: str) -> None:
    told = tell_breaker(OPENAI, opened(60, ahead_seconds), NOW)
    assert told == (
        "OpenAI does not answer as it should since 20 November 2026, 11:59 UTC: mail waits and is answered by "
        f"itself later (failures: 5, next try in {time})"
    )
    assert "tried again when there is need" in tell_breaker(STRIPE, opened(60), NOW)
    assert "SendGrid refuses us" in tell_breaker(
        SENDGRID, replace(opened(), needs_operator=True), NOW
    )


# --- rate limit -----------------------------------------------------------------------------------


def starts(limit: RateLimit, calls: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return when calls start that are made in this order, each at a time and of so many tokens."""
    requests_until = tokens_until = 0
    begun = []
    for at, tokens in calls:
        share = limit.share_of(tokens)
        start = max(at, requests_until - share.requests_ahead, tokens_until - share.tokens_ahead)
        requests_until = max(requests_until, start) + share.requests
        tokens_until = max(tokens_until, start) + share.tokens
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
    limit = RateLimit(requests=30, tokens=60_000)
    calls = [(at * 900_000, 100 if at % 3 else 9_000) for at in range(200)]
    requests, tokens = most_in_a_minute(starts(limit, calls))
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
    ("limit", "mails"),
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
    limit: RateLimit, mails: int | None
) -> None:
    assert limit.mails_a_minute == mails
    assert limit.is_limited == (mails is not None)


# --- cost -----------------------------------------------------------------------------------------


PRICES = parse_prices("0.75,0.075,4.50")


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        ((0, 0, 0), "0"),
        ((1_000_000, 0, 0), "0.75"),
        ((1_000_000, 1_000_000, 0), "0.075"),
        ((0, 0, 1_000_000), "4.5"),
        ((1_234, 1_000, 56), "0.0005025"),
        ((10, 20, 0), "0.00000075"),
        ((3, 0, 0), "0.00000225"),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else value,
)
def test_cached_tokens_are_among_those_read_and_cheaper(
    tokens: tuple[int, int, int], cost: str
) -> None:
    assert cost_usd(PRICES, *tokens) == Decimal(cost)


@pytest.mark.parametrize(
    ("prices", "tokens", "cost"),
    [
        ("1,0.1,6,1.25", (1_000, 400, 0, 500), "0.000765"),
        ("1,0.1,6", (1_000, 400, 0, 500), "0.00064"),  # as what is read
        ("1,0.1,6,0", (1_000, 400, 0, 500), "0.00014"),
        ("1,0.1,6,1.25", (1_000, 400, 0, 5_000), "0.00079"),  # no more than was read
        ("1,0.1,6,1.25", (0, 0, 0, 5), "0"),
    ],
)
def test_what_is_put_into_the_cache_may_have_a_price_of_its_own(
    prices: str, tokens: tuple[int, int, int, int], cost: str
) -> None:
    assert cost_usd(parse_prices(prices), *tokens) == Decimal(cost)


@pytest.mark.parametrize(
    ("usage", "recorded"),
    [
        ({}, 0),
        ({"input": 1, "output": 1}, 7),
        ({"input": 5}, 5),
        ({"cached": 5, "input": 5}, 1),  # a half is rounded up
        ({"cached": 4, "input": 4}, 0),
        ({"input": 8, "cache_write": 8}, 10),
    ],
)
def test_the_cost_of_a_call_is_recorded_in_millionths(usage: dict[str, int], recorded: int) -> None:
    assert micro_usd(parse_prices("1,0.1,6,1.25"), usage) == recorded


RECORDED = tokens_of(2, 1_000_000, 0, 0, 5_000_000)
UNRECORDED = tokens_of(1, 1_000_000, 500_000, 0, None)


@pytest.mark.parametrize(
    ("tokens", "with_prices", "without"),
    [
        (Tokens(), "0", None),
        (RECORDED, "5", "5"),
        (UNRECORDED, "0.4125", None),
        (RECORDED + UNRECORDED, "5.4125", None),
    ],
)
def test_what_is_on_record_is_not_priced_again(
    tokens: Tokens, with_prices: str, without: str | None
) -> None:
    assert cost_of([tokens], PRICES) == Decimal(with_prices)
    assert cost_of([tokens], None) == (without and Decimal(without))


@pytest.mark.parametrize(
    "text",
    ["", "1,2", "1,2,3,4,5", "1,2,3,x", "1,2,x", "-1,2,3", "1e3,2,3", "1,,3", "1,2,3.1234567"],
)
def test_what_is_not_three_prices_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write 0\.75,0\.075,4\.50"):
        parse_prices(text)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.00"),
        ("0.0005025", "$0.0005025"),
        ("0.00000075", "$0.00000075"),
        ("0.0099999", "$0.0099999"),
        ("0.01", "$0.01"),
        ("1.005", "$1.01"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_costs_are_shown_to_the_cent_and_small_ones_whole(amount: str, shown: str) -> None:
    assert format_usd(Decimal(amount)) == shown


# --- metric ---------------------------------------------------------------------------------------


DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"


def test_the_table_in_the_docs_is_the_codes() -> None:
    begin, end = "tests/domain/test_operations.py -->\n", "\n<!-- end of metrics -->"
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|", *table()]
    told = DOCUMENT.read_text("utf-8").partition(begin)[2].partition(end)[0]
    assert told == "\n".join(rows), "docs/monitoring.md should have:\n" + "\n".join(rows)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_as_prometheus_wants_it(metric: Metric) -> None:
    assert re.fullmatch(r"mailagent_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricType.COUNTER)
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)


def test_no_name_stands_twice() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


# --- retention ------------------------------------------------------------------------------------


def test_words_stay_unless_the_shop_says_otherwise() -> None:
    assert Retention().text_before(NOW) is None
    assert Retention(mail_days=90).text_before(NOW) == NOW - timedelta(days=90)


def test_scheduled_runs_go_after_two_days_or_sooner_if_all_do() -> None:
    assert Retention().runs_before(NOW) == NOW - timedelta(days=30)
    assert Retention().scheduled_runs_before(NOW) == NOW - timedelta(days=2)
    assert Retention(run_days=1).scheduled_runs_before(NOW) == NOW - timedelta(days=1)
