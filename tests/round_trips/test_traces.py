"""One approved refund is one trace, from the webhook to the gateway, over processes and over days; and no
line of a log or name of a span holds what anybody wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cast import ADA, MONA, SUPPORT
from tests.harness import Harness
from tests.telemetry.collector import Collector, Seen
from tests.telemetry.story import lines_of, processes_of, tell

CALLS = {"openai ask", "sendgrid send", "ledger refund"}
RUNS = {"conversation", "refund"}
STEPS = {
    "take_batch",
    "ask_model",
    "propose_refund",
    "claim_refund",
    "pay_refund",
    "tell_customer",
}
WAKE_UPS = {"wake conversation", "wake refund"}
WEBHOOK, DECISION = "POST /webhooks/sendgrid/inbound", "POST /approvals/<token>"
WORDS = (ADA, MONA, SUPPORT, "standing desk", "damaged", "Ada Example", "My order", "/approvals/ey")


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    server.start()
    yield server
    server.stop()


def ancestors(seen: Seen, by_id: dict[str, Seen]) -> list[str]:
    """Return the names of what a span stands within, the nearest first."""
    found = []
    while seen.parent_id:
        seen = by_id[seen.parent_id]
        found.append(seen.name)
    return found


def test_an_approved_refund_is_one_connected_trace_without_anybodys_words(
    shop: Harness, collector: Collector, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "LOG_FORMAT": "json"}
    web, worker = processes_of(
        shop, logs, **settings, GUNICORN_CMD_ARGS="--access-logfile - --threads 4"
    )
    tell(shop, web, worker)
    (start,) = (each for each in collector.spans if each.name == WEBHOOK)
    trace = [each for each in collector.spans if each.trace_id == start.trace_id]
    names = {each.name for each in trace}
    assert names >= CALLS | RUNS | STEPS | WAKE_UPS, names
    by_id = {each.span_id: each for each in trace}
    roots = {ancestors(each, by_id)[-1] for each in trace if each is not start}
    assert roots == {WEBHOOK}
    (paid,) = (each for each in trace if each.name == "ledger refund")
    way = ["pay_refund", "refund", "wake refund", "conversation", "wake conversation", WEBHOOK]
    assert [each for each in ancestors(paid, by_id) if each != "propose_refund"] == way
    (refund,) = shop.refunds()
    assert paid.facts["mailagent.refund_id"] == refund.refund_id
    _check_decision(collector, trace)
    assert refund.refund_id.encode() in collector.raw
    assert [word for word in WORDS if word.encode() in collector.raw] == []
    _check_lines(logs, refund.conversation_id, start.trace_id)


def _check_decision(collector: Collector, trace: list[Seen]) -> None:
    """A decision is a trace of its own; its wake-up stands in the refund's and links to it."""
    (decision,) = (each for each in collector.spans if each.name == DECISION)
    (woken,) = (each for each in trace if each.span.links)
    assert woken.name == "wake refund"
    assert woken.span.links[0].span_id == decision.span.span_id


def _check_lines(logs: Path, conversation_id: str, trace_id: str) -> None:
    lines = lines_of(logs)
    assert set.intersection(*map(set, lines)) >= {"time", "level", "logger", "message"}
    (webhook,) = (line for line in lines if "POST /webhooks/sendgrid/inbound" in line["message"])
    assert (webhook["conversation_id"], webhook["trace_id"]) == (conversation_id, trace_id)
    assert webhook["role"] in ("all", "web")
    (decision,) = (line for line in lines if "POST /approvals/… " in line["message"])
    assert decision["refund_id"].startswith("refund_")
    assert webhook["logger"] == "gunicorn.access"
