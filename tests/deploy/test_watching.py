"""What Prometheus and Grafana ask for is told by `/metrics`: every name and every label, and each alert says
what to do and where that is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mailagent.domain.metric import METRICS, MetricType

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"
METRIC = {metric.name: metric for metric in METRICS}

_NAME = re.compile(r"\bmailagent_[a-z_]+")
_SELECTED = re.compile(r"\b(mailagent_[a-z_]+)\{([^}]*)\}")
_MATCHER = re.compile(r'\s*([a-z_]+)\s*(?:=|!=|=~|!~)\s*"([^"]*)"\s*')
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_COUNTED = re.compile(r"\b(rate|increase|delta)\((mailagent_[a-z_]+)")
_SHOWN = re.compile(r"\{\{ ?(?:\$labels\.)?([a-z_]+) ?\}\}")


def alerts() -> list[dict[str, Any]]:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text("utf-8"))
    return [rule for group in rules["groups"] for rule in group["rules"]]


def asked() -> dict[str, tuple[str, str]]:
    """Return every query, with the words that are made of what it yields, by where it stands."""
    found = {
        rule["alert"]: (rule["expr"], " ".join(rule["annotations"].values())) for rule in alerts()
    }
    board = json.loads((DEPLOY / "grafana" / "mailagent.json").read_text("utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            key = f"{panel['title']} {target['refId']}"
            found[key] = (target["expr"], target["legendFormat"])
    return found


ASKED = asked()


def find_problems(query: str, words: str) -> list[str]:
    """Return which names and labels of a query are not told."""
    names = set(_NAME.findall(query))
    problems = [f"no metric {name}" for name in sorted(names - METRIC.keys())]
    labels = {label for name in names & METRIC.keys() for label in METRIC[name].labels}
    for name, matchers in _SELECTED.findall(query):
        rest = [part for part in _MATCHER.sub("", matchers).split(",") if part]
        chosen = {label for label, _ in _MATCHER.findall(matchers)}
        own = METRIC[name].labels if name in METRIC else ()
        problems += [f"{name} has no label {label}" for label in sorted(chosen - set(own))] + rest
    grouped = {label.strip() for part in _GROUPED.findall(query) for label in part.split(",")}
    problems += [f"nothing has the label {label}" for label in sorted(grouped - labels)]
    problems += [f"no {label} is left" for label in sorted(set(_SHOWN.findall(words)) - grouped)]
    for function, name in _COUNTED.findall(query):
        grows = name in METRIC and METRIC[name].kind is MetricType.COUNTER
        if (function == "delta") == grows:
            problems.append(f"{function} is not for {name}")
    return problems


@pytest.mark.parametrize("where", sorted(ASKED))
def test_every_metric_and_label_that_is_asked_for_is_told(where: str) -> None:
    assert find_problems(*ASKED[where]) == []


@pytest.mark.parametrize(
    ("query", "words", "problem"),
    [
        ("mailagent_wating", "", "no metric mailagent_wating"),
        ('mailagent_waiting{queue="x"}', "", "mailagent_waiting has no label queue"),
        ("max by (queue) (mailagent_waiting)", "", "nothing has the label queue"),
        ("max(mailagent_waiting)", "{{what}}", "no what is left"),
        ("rate(mailagent_waiting[5m])", "", "rate is not for mailagent_waiting"),
        (
            "delta(mailagent_model_calls_total[5m])",
            "",
            "delta is not for mailagent_model_calls_total",
        ),
    ],
    ids=["name", "matcher", "group", "words", "gauge", "counter"],
)
def test_a_query_that_is_wrong_is_named(query: str, words: str, problem: str) -> None:
    assert find_problems(query, words) == [problem]


def test_several_processes_that_tell_the_same_are_not_added_up() -> None:
    added = {
        where: query
        for where, (query, _) in ASKED.items()
        if re.search(r"\bsum(?: by \([^)]*\) )?\s?\((?!max by)", query)
    }
    assert added == {}


def test_every_metric_is_looked_at() -> None:
    looked_at = {name for query, _ in ASKED.values() for name in _NAME.findall(query)}
    assert METRIC.keys() - looked_at == set()


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do_and_where_that_is_written(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    text = (DEPLOY.parent.parent / path).read_text("utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    assert not anchor or anchor in headings
