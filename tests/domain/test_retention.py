"""How long is kept what nobody needs for ever."""

from __future__ import annotations

from datetime import timedelta

from mailagent.domain.shop import Retention
from tests.cast import NOW


def test_words_stay_unless_the_shop_says_otherwise() -> None:
    assert Retention().text_before(NOW) is None
    assert Retention(mail_days=90).text_before(NOW) == NOW - timedelta(days=90)


def test_scheduled_runs_go_after_two_days_or_sooner_if_all_do() -> None:
    assert Retention().runs_before(NOW) == NOW - timedelta(days=30)
    assert Retention().scheduled_runs_before(NOW) == NOW - timedelta(days=2)
    assert Retention(run_days=1).scheduled_runs_before(NOW) == NOW - timedelta(days=1)
