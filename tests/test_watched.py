"""docs/loaded-run.md shows what the dashboard, the alerts and the recorded rules ask today."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.programs.watched import board, page
from tests.programs.watched.watching import EXPECTED

SVG = "{http://www.w3.org/2000/svg}"
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


@pytest.mark.parametrize("file", page.PICTURES, ids=lambda file: file.stem)
def test_the_pictures_have_a_chart_for_each_panel_over_time(file: Path) -> None:
    over_time = [each.title for each in board.targets() if each.kind == "timeseries"]
    assert chart_titles(file.read_text("utf-8")) == list(dict.fromkeys(over_time)), STALE


def test_alerts_that_are_expected_are_there() -> None:
    assert EXPECTED.keys() <= board.alerts().keys()


def chart_titles(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [str(each.findtext(f"{SVG}title")) for each in root.findall(f"{SVG}g")]


def answer(kind: str, result: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def test_every_alert_of_today_has_a_limit_to_leave_out() -> None:
    assert [name for name, each in board.alerts().items() if board.watched(each) == each] == []
