"""What Prometheus, Grafana and KEDA ask for is told by `/metrics`: each name, label and value. Each alert says
what to do and where that is written; whether it fires when it should is for Prometheus' own tool to say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mailagent.cli.installation.check import LONGEST_WAITS
from tests.deploy.files import manifests
from tests.deploy.metric_queries import (
    MATCHER,
    METRIC,
    NAME,
    RECORDED,
    SELECTED,
    find_problems,
)
from tests.harness import open_shop
from tests.web.doors import METRICS_TOKEN, furnish, record_call

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"
RULES = DEPLOY / "prometheus"


def rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((RULES / name).read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return rules("alerts.yaml")


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


Told = dict[str, list[dict[str, str]]]  # by the metric's name, the labels of each sample


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Told:
    """What a shop tells that has something of everything."""
    folder = tmp_path_factory.mktemp("shop")
    shutil.copy(migrated_sqlite, folder / "shop.db")
    settings = {"METRICS_TOKEN": METRICS_TOKEN}
    with open_shop(folder, f"sqlite:///{folder / 'shop.db'}", settings) as shop:
        furnish(shop)
        record_call(shop, timedelta(0))
        headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
        families = text_string_to_metric_families(shop.client.get("/metrics", headers=headers).text)
        samples = [sample for family in families for sample in family.samples]
        return {name: [each.labels for each in samples if each.name == name] for name in METRIC}


def find_unknown_values(query: str, told: Told) -> list[str]:
    """Return which values of a query no sample has; each of several, `one|other`, is looked for by itself.
    What Prometheus adds, such as the namespace, is not among ours."""
    return [
        f"no {name} has the {label} {value}"
        for name, matchers in SELECTED.findall(query)
        for label, values in MATCHER.findall(matchers)
        for value in values.split("|")
        if label in METRIC[RECORDED.get(name, name)].labels
        if not any(re.fullmatch(value, each[label]) for each in told[RECORDED.get(name, name)])
    ]


def test_every_value_that_is_asked_for_is_told(told: Told) -> None:
    scaled = [each for each in manifests() if each["kind"] == "ScaledObject"]
    queries = [
        trigger["metadata"]["query"] for each in scaled for trigger in each["spec"]["triggers"]
    ]
    queries += [rule["expr"] for rule in rules("recorded.yaml")]
    queries += [query for query, _ in ASKED.values()]
    unknown = [find_unknown_values(query, told) for query in queries]
    assert [each for each in unknown if each] == []


@pytest.mark.parametrize("where", sorted(ASKED))
def test_every_metric_and_label_that_is_asked_for_is_told(where: str) -> None:
    assert find_problems(*ASKED[where]) == []


def test_several_processes_that_tell_the_same_are_not_added_up() -> None:
    added = {
        where: query
        for where, (query, _) in ASKED.items()
        if re.search(r"\bsum(?: by \([^)]*\) )?\s?\((?!max by|delta\(mailagent:)", query)
    }
    assert added == {}


def test_every_metric_is_looked_at() -> None:
    looked_at = {name for query, _ in ASKED.values() for name in NAME.findall(query)}
    assert METRIC.keys() - {RECORDED.get(name, name) for name in looked_at} == set()


def test_what_is_asked_for_as_recorded_is_recorded_for_all_processes_together() -> None:
    recorded = {rule["record"]: rule["expr"] for rule in rules("recorded.yaml")}
    assert recorded == {
        name: f"max without (instance, pod) ({RECORDED[name]})"
        for query, _ in ASKED.values()
        for name in NAME.findall(query)
        if name in RECORDED
    }


def test_flask_check_names_what_waits_after_as_long_as_the_alerts() -> None:
    waits = r'oldest_waiting_seconds{what="(\w+)"}\) > (\d+)(?: \* (\d+))?$'
    found = [
        re.search(waits, rule["expr"]) for rule in alerts() if rule["labels"]["severity"] != "info"
    ]
    assert {match[1]: int(match[2]) * int(match[3] or 1) for match in found if match} == {
        what: seconds for what, (seconds, _) in LONGEST_WAITS.items()
    }


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_is_about_one_mailagent_of_several(rule: dict[str, Any]) -> None:
    kept = re.findall(r"(?<!:)\b(?:min|max|sum)\b(?: by \(([^)]*)\))?", rule["expr"])
    assert kept or rule["expr"].startswith("absent(")
    assert [labels for labels in kept if "job" not in labels.split(", ")] == []


def test_each_alert_is_shown_to_fire_and_to_stay_quiet() -> None:
    shown: dict[str, set[bool]] = {}
    for story in yaml.safe_load((RULES / "rules_test.yaml").read_text("utf-8"))["tests"]:
        for look in story["promql_expr_test"]:
            (alert,) = re.findall(r'alertname="(\w+)"', look["expr"])
            shown.setdefault(alert, set()).add(bool(look["exp_samples"]))
    assert shown == {rule["alert"]: {True, False} for rule in alerts()}


def test_the_prometheus_operator_is_given_the_same_rules() -> None:
    text = (DEPLOY.parent / "monitoring.md").read_text("utf-8")
    (script,) = re.findall(r"^(for name in recorded alerts;.*?^done) \| kubectl", text, re.M | re.S)
    made = subprocess.run(
        ["sh", "-c", script], cwd=RULES, capture_output=True, text=True, timeout=60, check=True
    )
    found = {each["metadata"]["name"]: each for each in yaml.safe_load_all(made.stdout)}
    assert {each["kind"] for each in found.values()} == {"PrometheusRule"}
    assert {name: each["spec"] for name, each in found.items()} == {
        f"mailagent-{name}": yaml.safe_load((RULES / f"{name}.yaml").read_text("utf-8"))
        for name in ("recorded", "alerts")
    }


PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=Path(sys.executable).parent)


@pytest.mark.skipif(
    PROMTOOL is None and "CI" not in os.environ, reason="promtool is not here; .ci/run brings it"
)
@pytest.mark.parametrize(
    "arguments", [("check", "rules", "alerts.yaml", "recorded.yaml"), ("test", "rules", "rules_test.yaml")]
)  # fmt: skip
def test_prometheus_own_tool_finds_nothing_wrong(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [str(PROMTOOL), *arguments],
        cwd=RULES,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
