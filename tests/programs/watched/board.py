"""What is asked of Prometheus: the dashboard's panels, the alerts and the recorded rules, as their files in
docs/deploy have them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from mailagent.app import ROOT

DEPLOY = ROOT / "docs" / "deploy"
RULE_FILES = (DEPLOY / "prometheus" / "recorded.yaml", DEPLOY / "prometheus" / "alerts.yaml")

_SHOWN = re.compile(r"\{\{ ?([a-z_]+) ?\}\}")
_ABSENT = re.compile(r"absent\((.+)\)")
_LIMIT = re.compile(r" (?:==|<|>) [\d.* ]+$")


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel. `legend`: what its series are called."""

    title: str
    unit: str
    query: str
    legend: str

    def name_of(self, labels: Mapping[str, str]) -> str:
        return _SHOWN.sub(lambda found: labels.get(found[1], ""), self.legend)


def targets() -> list[Target]:
    """Return every query of the dashboard, in its order."""
    board = json.loads((DEPLOY / "grafana" / "mailagent.json").read_text("utf-8"))
    return [_target(panel, each) for panel in board["panels"] for each in panel["targets"]]


def _target(panel: Mapping[str, Any], target: Mapping[str, Any]) -> Target:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    return Target(panel["title"], unit, target["expr"], target["legendFormat"])


def _rules() -> list[dict[str, Any]]:
    files = (yaml.safe_load(file.read_text("utf-8")) for file in RULE_FILES)
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def alerts() -> dict[str, str]:
    """Return the expression of each alert."""
    return {rule["alert"]: rule["expr"] for rule in _rules() if "alert" in rule}


def recorded() -> list[str]:
    """Return the names of what is recorded."""
    return [rule["record"] for rule in _rules() if "record" in rule]


def watched(expression: str) -> str:
    """Return what an alert looks at: its expression without the limit. If that yields nothing the alert can
    never fire, however wrong things are."""
    absent = _ABSENT.fullmatch(expression)
    return absent[1] if absent else _LIMIT.sub("", expression)
