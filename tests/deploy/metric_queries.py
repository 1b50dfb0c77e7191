"""Check the names and labels that a Prometheus query uses against `/metrics`."""

from __future__ import annotations

import re

from mailagent.domain.operations.metric import METRICS, MetricType

METRIC = {metric.name: metric for metric in METRICS}
# By the name under which each is recorded for all processes together.
RECORDED = {
    f"mailagent:{name.removeprefix('mailagent_').removesuffix('_total')}:max": name
    for name in METRIC
}
LONGEST_RAW_MINUTES = 10  # a process that is replaced is soon forgotten
NAME = re.compile(r"\bmailagent[_:][a-z_:]+")
SELECTED = re.compile(r"\b(mailagent[_:][a-z_:]+)\{([^}]*)\}")
MATCHER = re.compile(r'\s*([a-z_]+)\s*(?:=|!=|=~|!~)\s*"([^"]*)"\s*')
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_COUNTED = re.compile(r"\b(\w+)\((mailagent[_:][a-z_:]+)(?:\{[^}]*\})?\[(\d+)([mhd])\]")
_MINUTES = {"m": 1, "h": 60, "d": 24 * 60}
_SHOWN = re.compile(r"\{\{ ?(?:\$labels\.)?([a-z_]+) ?\}\}")


def find_problems(query: str, words: str) -> list[str]:
    """Return which names and labels of a query are not told."""
    names = {RECORDED.get(name, name) for name in NAME.findall(query)}
    problems = [f"no metric {name}" for name in sorted(names - METRIC.keys())]
    labels = {label for name in names & METRIC.keys() for label in METRIC[name].labels} | {"job"}
    for name, matchers in SELECTED.findall(query):
        rest = [part for part in MATCHER.sub("", matchers).split(",") if part]
        chosen = {label for label, _ in MATCHER.findall(matchers)}
        raw = RECORDED.get(name, name)
        own = METRIC[raw].labels if raw in METRIC else ()
        problems += [f"{name} has no label {label}" for label in sorted(chosen - set(own))] + rest
    grouped = {label.strip() for part in _GROUPED.findall(query) for label in part.split(",")}
    problems += [f"nothing has the label {label}" for label in sorted(grouped - labels)]
    problems += [f"no {label} is left" for label in sorted(set(_SHOWN.findall(words)) - grouped)]
    return problems + [
        problem
        for function, name, number, unit in _COUNTED.findall(query)
        if (problem := find_wrong_count(function, name, int(number) * _MINUTES[unit]))
    ]


def find_wrong_count(function: str, name: str, minutes: int) -> str:
    """Return why something is not to be counted so, or nothing. A process that is new has no past, so hours
    are counted by what is recorded; that may fall for a moment, so it is no counter."""
    grows = name in METRIC and METRIC[name].kind is MetricType.COUNTER
    if (function == "delta") != (name in RECORDED) or (name in METRIC and not grows):
        return f"{function} is not for {name}"
    if name in METRIC and minutes > LONGEST_RAW_MINUTES:
        return f"{minutes} minutes of {name} are not those of one process"
    return ""
