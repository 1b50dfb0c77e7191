"""Spans that are off cost nothing, and of those that are made only names, times and ids leave the house."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from mailagent.demo.process import ROOT
from mailagent.telemetry import spans
from mailagent.telemetry.exporting import IdsOnly
from tests.harness import Harness
from tests.processes import base_environment
from tests.workflows.trouble import table_of_runs

SECRET = "My kettle is broken"


@pytest.fixture
def kept() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


def make_spans(exporter: SpanExporter) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("x").start_as_current_span("step") as span:
        span.set_attribute("dbos.operation.workflow_id", "refund-01")
        span.set_attribute("dbos.user.name", SECRET)
        span.set_attribute("exception.message", SECRET)
        span.add_event("exception", {"exception.message": SECRET})
        span.set_status(Status(StatusCode.ERROR, SECRET))


def test_only_ids_leave_the_house(kept: InMemorySpanExporter) -> None:
    make_spans(kept)
    assert SECRET in kept.get_finished_spans()[0].to_json()  # the test would notice
    kept.clear()
    make_spans(IdsOnly(kept))
    (sent,) = kept.get_finished_spans()
    assert SECRET not in sent.to_json()
    assert dict(sent.attributes or {}) == {"dbos.operation.workflow_id": "refund-01"}
    assert sent.status.status_code is StatusCode.ERROR


def test_spans_that_are_off_are_nothing() -> None:
    with spans.request("GET", "/"), spans.call("openai", "ask"), spans.wake_up("refund") as carried:
        assert carried == {}
    assert spans.trace_id() is None


def test_a_process_without_the_setting_loads_nothing_of_opentelemetry(tmp_path: Path) -> None:
    code = (
        "import sys, wsgi; client = wsgi.app.test_client(); client.get('/healthz'); client.get('/ops');"
        "print([name for name in sys.modules if name.split('.')[0] in ('opentelemetry', 'prometheus_client')])"
    )
    environment = {
        **base_environment(),
        "SECRET_KEY": "a key for tests only",
        "DATABASE_URL": f"sqlite:///{tmp_path}/unused.db",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "[]", done.stderr


# --- carried --------------------------------------------------------------------------------------


CARRIED = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


def test_a_fork_stands_in_the_trace_of_its_original(shop: Harness) -> None:
    shop.write("Where is my kettle?")
    table = table_of_runs(shop)
    (run,) = shop.rows(f"SELECT workflow_uuid FROM {table} WHERE name = 'conversation'")
    attributes = json.dumps({"subject": "conversation_01", "dbos.otelContext": CARRIED})
    with shop.live.database.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE {table} SET status = 'ERROR', attributes = '{attributes}'"
        )
    _, fork_id = shop.live.workflow_client.replays.fork_run(run.workflow_uuid)
    (forked,) = shop.rows(
        f"SELECT attributes FROM {table} WHERE workflow_uuid = :fork_id", fork_id=fork_id
    )
    found = forked.attributes
    kept = json.loads(found) if isinstance(found, str) else found
    assert kept["dbos.otelContext"] == CARRIED
    seen = shop.live.workflow_client.runs.find_run(fork_id)
    assert seen is not None
    assert dict(seen.attributes) == {"subject": "conversation_01"}
