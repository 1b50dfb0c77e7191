"""A deadline that is told as a day ends with that day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mailagent.domain.deadline import end_of_day

LAST = datetime(2026, 11, 27, 23, 59, 59, 999_999, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 27, tzinfo=UTC),
        datetime(2026, 11, 27, 20, 49, tzinfo=UTC),
        LAST,
        datetime(2026, 11, 28, 1, 30, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_day_ends_before_the_next_one_in_utc(moment: datetime) -> None:
    assert end_of_day(moment) == LAST
