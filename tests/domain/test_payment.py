"""When a payment is looked up before it is asked for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mailagent.domain.refunds.payment import may_have_been_asked
from tests.cast import NOW


@pytest.mark.parametrize(
    ("intended", "minutes", "looked_up"),
    [
        (False, 0, False),
        (False, 12 * 60 - 1, False),
        (
            False,
            12 * 60,
            True,
        ),  # a database before this one may have asked; its key may be forgotten
        (True, 0, True),
        (True, 12 * 60, True),
        (False, -60, False),  # a clock that jumped back
    ],
)
def test_what_may_have_been_asked_is_looked_up(
    intended: bool, minutes: int, looked_up: bool
) -> None:
    now = NOW + timedelta(minutes=minutes)
    assert may_have_been_asked(intended, NOW, now) is looked_up
