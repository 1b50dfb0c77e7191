"""How old a signed webhook may be: boundaries on both sides."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.webhook import age_seconds, is_fresh
from tests.cast import NOW

HERE = int(NOW.timestamp())
DAY = 24 * 3600


@pytest.mark.parametrize(
    ("age", "hours", "fresh"),
    [
        (0, 24, True),
        (DAY, 24, True),
        (DAY + 1, 24, False),
        (DAY + 1, 96, True),
        (4 * DAY, 96, True),
        (4 * DAY + 1, 96, False),
        (-3600, 24, True),
        (-3601, 24, False),
        (-3601, 96, False),
    ],
)
def test_a_request_is_fresh_for_some_hours_and_not_before_its_time(
    age: int, hours: int, fresh: bool
) -> None:
    assert age_seconds(str(HERE - age), NOW) == age
    assert is_fresh(str(HERE - age), NOW, hours) is fresh


@pytest.mark.parametrize(
    "timestamp",
    ["", " ", "now", "-1", "+1", f"{HERE}.0", f" {HERE}", "1e9", "٣", "²", "9" * 13, "9" * 5_000],
)
def test_what_is_no_timestamp_is_never_fresh(timestamp: str) -> None:
    assert age_seconds(timestamp, NOW) is None
    assert not is_fresh(timestamp, NOW)
