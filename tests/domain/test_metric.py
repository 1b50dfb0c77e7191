"""The metrics keep Prometheus' conventions, and docs/monitoring.md has all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mailagent.domain.operations.metric import METRICS, Metric, MetricType, table

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"


def test_the_table_in_the_docs_is_the_codes() -> None:
    begin, end = "tests/domain/test_metric.py -->\n", "\n<!-- end of metrics -->"
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|", *table()]
    told = DOCUMENT.read_text("utf-8").partition(begin)[2].partition(end)[0]
    assert told == "\n".join(rows), "docs/monitoring.md should have:\n" + "\n".join(rows)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_as_prometheus_wants_it(metric: Metric) -> None:
    assert re.fullmatch(r"mailagent_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricType.COUNTER)
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)


def test_no_name_stands_twice() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
