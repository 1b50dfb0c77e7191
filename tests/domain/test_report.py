"""Figures of some days: how long it took, in short sentences, and the week that a mail is about."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from mailagent.domain.operations.report import (
    Figure,
    Report,
    by_span,
    coarse,
    last_week,
    percentile,
    tell_time,
)

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "kept"), [(-3, 0), (0, 0), (7, 7), (45, 45), (123, 120), (3_661, 3_700)]
)
def test_two_digits_of_a_time_are_kept(seconds: int, kept: int) -> None:
    assert coarse(timedelta(seconds=seconds)) == kept


@pytest.mark.parametrize(
    ("times", "half", "most"),
    [
        ({}, None, None),
        ({"30": 1}, 30, 30),
        ({"30": 5, "600": 4, "7200": 1}, 30, 600),
        ({"9": 1, "10": 1, "100": 8}, 100, 100),
    ],
)
def test_shares_of_times(times: dict[str, int], half: int | None, most: int | None) -> None:
    assert (percentile(times, 0.5), percentile(times, 0.9)) == (half, most)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "–"),
        (0, "0 s"),
        (119, "119 s"),
        (180, "3 min"),
        (9100, "3 h"),
        (260_000, "3 days"),
    ],
)
def test_times_are_told_in_words(seconds: int | None, told: str) -> None:
    assert tell_time(seconds) == told


def test_spans_count_every_case_once() -> None:
    counted = by_span({"30": 2, "60": 1, "61": 3, "90000": 4})
    assert list(counted.values()) == [3, 3, 0, 0, 0, 4]


@pytest.mark.parametrize("day", range(7))
def test_the_last_week_ended_on_monday(day: int) -> None:
    now = MONDAY + timedelta(days=7 + day, hours=3)
    assert last_week(now) == (MONDAY, MONDAY + timedelta(days=7))


def test_the_report_in_sentences() -> None:
    totals = {
        (Figure.MAILS, "agent"): 8,
        (Figure.MAILS, "waiting"): 2,
        (Figure.ANSWER_SECONDS, "45"): 8,
        (Figure.REFUNDS, "paid USD"): 3,
        (Figure.AMOUNTS, "paid USD"): 149_900,
        (Figure.DECISION_SECONDS, "7200"): 1,
        (Figure.COST, ""): 1_250_000,
        (Figure.QUESTIONS, ""): 4,
        (Figure.VOTES, "yes"): 3,
        (Figure.VOTES, "no"): 1,
    }
    report = Report(MONDAY, MONDAY + timedelta(days=7), Counter(totals), {})
    assert list(report.sentences()) == [
        "10 mails of customers: 8 answered by the agent, 0 by people, 2 waiting.",
        "First answer: half within 45 s, nine of ten within 45 s.",
        "Refunds, paid: 3, $1,499.00.",
        "Decided by managers: 1, half within 2 h.",
        "The model cost $1.25.",
        "Questions that no passage answered: 4.",
        "Customers who were helped: 3 of 4 who said so.",
    ]
    assert len(report.days) == 7


def test_the_report_in_tables() -> None:
    tuesday = Counter(
        {(Figure.MAILS, "agent"): 1_200, (Figure.MAILS, "none"): 3, (Figure.COST, ""): 2_500_000}
    )
    totals = tuesday | Counter(
        {
            (Figure.REFUNDS, "paid USD"): 3,
            (Figure.AMOUNTS, "paid USD"): 149_900,
            (Figure.APPROVALS, "reject"): 1,
            (Figure.APPROVALS, "expired"): 2,
        }
    )
    days = {MONDAY + timedelta(days=1): tuesday}
    report = Report(MONDAY, MONDAY + timedelta(days=2), totals, days)
    assert dict(report.tables()) == {
        "Mails, and who answered them": [
            ("Day", "Mails", "Agent", "People", "Waiting", "No answer needed", "Cost"),
            ("Mon 16", "0", "0", "0", "0", "0", "$0.00"),
            ("Tue 17", "1,203", "1,200", "0", "0", "3", "$2.50"),
            ("All", "1,203", "1,200", "0", "0", "3", "$2.50"),
        ],
        "Refunds": [("State", "Refunds", "Amount"), ("Paid", "3", "$1,499.00")],
        "Requests to managers": [
            ("Outcome", "Requests"),
            ("Expired without a decision", "2"),
            ("Rejected", "1"),
        ],
    }


def test_a_table_has_no_cost_without_a_price_and_nothing_of_what_was_not_asked() -> None:
    report = Report(MONDAY, MONDAY + timedelta(days=1), Counter({(Figure.MAILS, "agent"): 8}), {})
    ((_, rows),) = report.tables()
    assert rows[0][-1] == "No answer needed"
    assert rows[-1] == ("All", "8", "8", "0", "0", "0")
