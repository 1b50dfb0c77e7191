"""Sends spans to a collector: only names, times and ids, whoever made the span and whatever is in it.

Loaded only where spans are made: all of OpenTelemetry's SDK is imported here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

TRACES_PATH = "/v1/traces"

# DBOS puts the text of an error into a span, which may quote a mail: all else stays here.
TOLD = frozenset(
    (
        "dbos.operation.workflow_id",
        "dbos.operation.type",
        "dbos.application.version",
        "dbos.executor.id",
        "dbos.queue.name",
        "http.request.method",
        "http.route",
        "http.response.status_code",
        "peer.service",
        "mailagent.conversation_id",
        "mailagent.refund_id",
        "mailagent.run_id",
        "mailagent.worker_id",
        "mailagent.role",
    )
)


class IdsOnly(SpanExporter):
    """Passes spans on without what is not TOLD: no events, no words of a status."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([_bare(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _bare(span: ReadableSpan) -> ReadableSpan:
    told = {name: value for name, value in (span.attributes or {}).items() if name in TOLD}
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=told,
        links=span.links,
        kind=span.kind,
        status=trace.Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def make_provider(endpoint: str, named: Mapping[str, str]) -> TracerProvider:
    """Return what makes spans, DBOS's too, and sends them from a thread of its own."""
    # Of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES what is set stands above ours.
    resource = (
        Resource.get_empty().merge(Resource(dict(named))).merge(OTELResourceDetector().detect())
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + TRACES_PATH)
    provider.add_span_processor(BatchSpanProcessor(IdsOnly(exporter)))
    trace.set_tracer_provider(provider)
    # DBOS misses a collector of logs, which are for standard error.
    logging.getLogger("dbos").addFilter(_is_worth_a_line)
    # One line for a collector that is away, not one for each try.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    return provider


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return "logger provider not set" not in record.getMessage()
