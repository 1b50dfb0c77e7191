"""The page of the loaded run has what is asked today, and what reads, compares and draws a run does so. No
Prometheus is started here: `python -m tests.programs.watched` does that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

from tests.programs.watched import board, page, prometheus
from tests.programs.watched.answers import QueryFailed, Series, parse
from tests.programs.watched.compare import Compared, find_differences, told_rows
from tests.programs.watched.picture import DARK, LIGHT, Look, chart_of, draw, grouped, nice, told
from tests.programs.watched.results import Alert, Line, Result, Shown, from_data
from tests.programs.watched.watching import EXPECTED, find_empty, find_unwell, find_wrong_alert

SVG = "{http://www.w3.org/2000/svg}"
PAGE = page.PAGE.read_text("utf-8")
STALE = "run again: python -m tests.programs.watched --document"

QUEUES = [
    Line("conversations", [(0.0, 0.0), (30.0, 4.0), (60.0, 1.0)]),
    Line("refunds & more", [(0.0, 2.0), (60.0, 2.0)]),
    Line("deliveries", [(0.0, 0.0), (60.0, 0.0)]),
]
PANELS = [
    Shown("Database", "stat", "short", None, "min(up)", [Line("", [(0.0, 1.0), (60.0, 1.0)])]),
    Shown("Queues", "timeseries", "short", None, 'max(depth{a=~"b|c"})', QUEUES),
    Shown("Queues", "timeseries", "short", None, "max(runs)", [Line("at work", [(0.0, 3.0)])]),
    Shown("Oldest", "timeseries", "s", None, "max(oldest)", []),
    Shown("Wrong", "timeseries", "short", 1.0, "max(open)", [Line("it", [(0.0, 0.0)])]),
]
SECONDS = {"load": 50.0, "away_from": 20.0, "away_until": 30.0, "whole": 60.0}
RESULT = Result(
    facts={
        **{"date": "2026-11-22", "commit": "abc1234", "cores": "2"},
        **{"Python": "3.11", "PostgreSQL": "18", "Prometheus": "2.42"},
    },
    load={"mails": 120, "decided": 10, "requests": 300, "refused": 5},
    seconds=SECONDS,
    panels=PANELS,
    recorded={"mailagent:model_tokens:max": 3},
    alerts=[
        Alert("Away", 3, {"pending": 21.0}, "while it is left alone"),
        Alert("Down", 1, {}, ""),
    ],
    compared=[Compared("max(a)", "SELECT 1", 0.0, {"x": 2.0}, {"x": 2.0, "y": 1.0})],
)


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


def test_what_is_expected_or_empty_is_there() -> None:
    assert EXPECTED.keys() <= board.alerts().keys()
    asked = {each.query for each in board.targets()} | set(board.recorded())
    assert board.RIGHTLY_EMPTY.keys() <= asked


def chart_titles(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [str(each.findtext(f"{SVG}title")) for each in root.findall(f"{SVG}g")]


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_the_picture_is_well_formed_and_has_a_line_for_each_series_that_moves(look: Look) -> None:
    drawn = draw(PANELS, SECONDS, look)
    root = ElementTree.fromstring(drawn)
    assert root.findtext(f"{SVG}title")
    assert chart_titles(drawn) == ["Queues", "Oldest", "Wrong"]
    queues, oldest, wrong = root.findall(f"{SVG}g")
    words = {str(each.text) for each in queues.findall(f"{SVG}text")}
    assert {"Queues", "conversations", "refunds & more", "at work", "1 more always 0"} <= words
    assert "deliveries" not in words
    assert [len(each.findall(f"{SVG}path")) for each in (queues, oldest, wrong)] == [3, 0, 1]


def test_a_line_is_drawn_where_its_values_are() -> None:
    group = ElementTree.fromstring(draw(PANELS, SECONDS, LIGHT)).findall(f"{SVG}g")[0]
    drawn = group.findall(f"{SVG}path")[0].attrib["d"].split()
    assert [each[0] for each in drawn] == ["M", "L", "L"]
    (x0, bottom), (x1, top), (x2, y2) = (map(float, each[1:].split(",")) for each in drawn)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert bottom - y2 == pytest.approx((bottom - top) / 4, abs=0.2)


def test_a_line_is_interrupted_where_its_series_was_gone() -> None:
    points = [(0.0, 1.0), (5.0, 1.0), (40.0, 1.0), (45.0, 1.0)]
    shown = replace(PANELS[1], lines=[Line("a", points)])
    [drawn] = ElementTree.fromstring(draw([shown], SECONDS, LIGHT)).iter(f"{SVG}path")
    assert [each[0] for each in drawn.attrib["d"].split()] == ["M", "L", "M", "L"]


def test_nothing_is_drawn_outside_the_picture() -> None:
    many = [replace(PANELS[1], lines=[Line("a name " * 6, [(0.0, 1.0)])] * 20)]
    root = ElementTree.fromstring(draw(many, SECONDS, LIGHT))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) < width
        assert 0 < float(text.attrib["y"]) < height


def test_of_many_lines_the_largest_are_named() -> None:
    lines = [Line(str(number), [(0.0, float(number))]) for number in range(1, 12)]
    chart = chart_of([replace(PANELS[1], lines=lines)])
    assert [line.name for line in chart.named] == ["4", "5", "6", "7", "8", "9", "10", "11"]
    assert chart.rest == "3 smaller ones"
    assert chart.most == 12


def test_queries_of_one_panel_are_drawn_together() -> None:
    assert [len(group) for group in grouped(PANELS)] == [2, 1, 1]


@pytest.mark.parametrize(
    ("number", "most"), [(0, 1), (0.03, 0.03), (7, 8), (101, 120), (1500, 1500), (99, 100)]
)
def test_an_axis_ends_at_a_round_number(number: float, most: float) -> None:
    assert nice(number) == pytest.approx(most)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.25, "percentunit", "25 %"),
        (1.5, "currencyUSD", "$1.50"),
        (12345.6, "short", "12,346"),
        (90, "s", "90 s"),
    ],
)
def test_a_value_is_told_in_its_unit(value: float, unit: str, text: str) -> None:
    assert told(value, unit) == text


def answer(kind: str, result: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def test_an_answer_of_prometheus_is_read() -> None:
    now = [{"metric": {"queue": "refunds"}, "value": [7.5, "3"]}]
    assert parse(answer("vector", now)) == [Series({"queue": "refunds"}, ((7.5, 3.0),))]
    over = [{"metric": {}, "values": [[1, "NaN"], [2, "0.5"], [3, "+Inf"]]}]
    assert parse(answer("matrix", over)) == [Series({}, ((2.0, 0.5),))]
    assert parse(answer("scalar", [4, "2"])) == [Series({}, ((4.0, 2.0),))]


def test_what_never_was_a_number_is_no_series() -> None:
    assert parse(answer("vector", [{"metric": {}, "value": [1, "NaN"]}])) == []


def test_a_query_that_is_not_taken_says_why() -> None:
    with pytest.raises(QueryFailed, match="parse error: no closing bracket"):
        parse({"status": "error", "error": "parse error: no closing bracket"})


@pytest.mark.parametrize(
    ("told_rows", "truth", "near", "lines"),
    [
        ({"a": 2.0}, {"a": 2.0}, 0.0, []),
        ({"a": 2.0}, {"a": 3.0}, 0.0, ["a is 2 in Prometheus and 3 in truth"]),
        ({"a": 2.0}, {}, 0.0, ["a is 2 in Prometheus and 0 in truth"]),
        ({}, {"": 1.0}, 0.0, ["it is 0 in Prometheus and 1 in truth"]),
        ({"a": 95.0}, {"a": 100.0}, 0.1, []),
        ({"a": 85.0}, {"a": 100.0}, 0.1, ["a is 85 in Prometheus and 100 in truth"]),
    ],
    ids=["same", "differs", "more", "less", "near", "far"],
)
def test_a_difference_is_found(
    told_rows: Mapping[str, float], truth: Mapping[str, float], near: float, lines: list[str]
) -> None:
    assert find_differences(told_rows, truth, near) == lines


def test_to_compare_nothing_is_wrong() -> None:
    assert Compared("q", "s", 0.0, {}, {}).wrong == ["there is nothing to compare"]
    assert Compared("q", "s", 0.0, {"": 1.0}, {"": 1.0}).wrong == []


def test_series_are_told_by_their_labels_and_zeros_left_out() -> None:
    series = [
        Series({"status": "paid", "currency": "USD"}, ((1.0, 5.0), (2.0, 7.0))),
        Series({"status": "failed", "currency": "USD"}, ((2.0, 0.0),)),
    ]
    assert told_rows(series, ("status", "currency")) == {"paid USD": 7.0}


def test_a_query_without_series_is_named_unless_it_should_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(board, "RIGHTLY_EMPTY", {"quiet": "nothing is wrong", "loud": "likewise"})
    found = find_empty({"there": 2, "missing": 0, "quiet": 0, "loud": 1})
    assert list(found) == ["missing has no series", "loud has 1 series"]


def test_a_rule_that_prometheus_could_not_evaluate_is_named() -> None:
    rules = [
        {"name": "Fine", "health": "ok"},
        {"name": "Ill", "health": "err", "lastError": "many-to-many matching"},
    ]
    assert list(find_unwell(rules)) == ["Ill is err: many-to-many matching"]


@pytest.mark.parametrize(
    ("alert", "wrong"),
    [
        (Alert("Away", 1, {"pending": 3.0}, "a reason"), []),
        (Alert("Away", 1, {"pending": 3.0}, ""), ["Away was pending"]),
        (
            Alert("Away", 1, {"pending": 3.0, "firing": 4.0}, "a reason"),
            ["Away was pending and firing"],
        ),
        (Alert("Away", 0, {}, ""), ["Away looks at nothing that is there"]),
    ],
    ids=["expected", "unexpected", "fires", "blind"],
)
def test_an_alert_that_should_be_quiet_is_named(alert: Alert, wrong: list[str]) -> None:
    assert list(find_wrong_alert(alert)) == wrong


@pytest.mark.parametrize(
    ("expression", "looks_at"),
    [
        ("absent(mailagent_database_up)", "mailagent_database_up"),
        ("max by (job) (waiting) > 3 * 86400", "max by (job) (waiting)"),
        ("max by (job) (rate(errors[10m])) > 0.1", "max by (job) (rate(errors[10m]))"),
        ("min by (job) (up) == 0", "min by (job) (up)"),
    ],
)
def test_what_an_alert_looks_at_is_without_its_limit(expression: str, looks_at: str) -> None:
    assert board.watched(expression) == looks_at


def test_every_alert_of_today_has_a_limit_to_leave_out() -> None:
    assert [name for name, each in board.alerts().items() if board.watched(each) == each] == []


def test_a_result_is_put_into_the_page_and_found_there() -> None:
    text = f"before\n{page.BEGIN}old\n{page.END}\nafter\n"
    filled = page.fill_in(text, RESULT)
    assert page.panels_in(filled) == [(each.title, each.query) for each in PANELS]
    assert page.alerts_in(filled) == ["Away", "Down"]
    assert page.recorded_in(filled) == ["mailagent:model_tokens:max"]
    assert "conversations: **1** (0 to 4)<br>refunds & more: **2** (2 to 2)<br>1 more: 0" in filled
    assert "pending from minute 0.3: while it is left alone" in filled
    assert "| `max(a)` | `SELECT 1` | x | 2 | 2 |\n|  |  | y | 0 | 1 |" in filled
    assert filled.startswith("before\n")
    assert filled.endswith("\nafter\n")
    assert page.fill_in(filled, RESULT) == filled


def test_a_page_without_a_place_is_not_written() -> None:
    with pytest.raises(ValueError, match="no place"):
        page.fill_in("nothing here", RESULT)


def test_a_result_comes_back_from_its_file() -> None:
    assert from_data(json.loads(json.dumps(asdict(RESULT)))) == RESULT


def test_without_prometheus_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(click.ClickException, match="apt-get install prometheus"):
        prometheus.find_program()
