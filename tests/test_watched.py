"""docs/loaded-run.md shows what the dashboard, the alerts and the recorded rules ask today."""

from __future__ import annotations

from tests.programs.watched import board, page
from tests.programs.watched.watching import EXPECTED

PAGE = page.PAGE.read_text("utf-8")


def test_alerts_that_are_expected_are_there() -> None:
    assert EXPECTED.keys() <= board.alerts().keys()


def test_every_alert_of_today_has_a_limit_to_leave_out() -> None:
    assert [name for name, each in board.alerts().items() if board.watched(each) == each] == []
