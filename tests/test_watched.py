"""docs/loaded-run.md shows what the dashboard, the alerts and the recorded rules ask today."""

from __future__ import annotations

from tests.programs.watched import board, page
from tests.programs.watched.watching import EXPECTED

PAGE = page.PAGE.read_text("utf-8")
STALE = "run again: python -m tests.programs.watched --document"


def test_the_page_has_the_panels_and_queries_of_the_dashboard() -> None:
    asked = [(each.title, each.query) for each in board.targets()]
    assert len(asked) > 20
    assert page.panels_in(PAGE) == asked, STALE


def test_the_page_has_the_alerts_and_what_is_recorded() -> None:
    assert page.alerts_in(PAGE) == list(board.alerts()), STALE
    assert page.recorded_in(PAGE) == board.recorded(), STALE


def test_the_run_of_the_page_found_nothing_wrong() -> None:
    assert "\n- Nothing was wrong.\n" in PAGE


def test_alerts_that_are_expected_are_there() -> None:
    assert EXPECTED.keys() <= board.alerts().keys()


def test_every_alert_of_today_has_a_limit_to_leave_out() -> None:
    assert [name for name, each in board.alerts().items() if board.watched(each) == each] == []
