"""Sends spans to a collector, with names, times and ids only.

This module imports OpenTelemetry's SDK, so it is loaded only if tracing is on.
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

# Only these attributes are sent: DBOS puts the text of errors, which may quote a mail, into spans.
SENT = frozenset((
    "dbos.operation.workflow_id", "dbos.operation.type", "dbos.application.version",
    "dbos.executor.id", "dbos.queue.name", "http.request.method", "http.route",
    "http.response.status_code", "peer.service", "mailagent.conversation_id",
    "mailagent.refund_id", "mailagent.run_id", "mailagent.worker_id", "mailagent.role",
))  # fmt: skip


class IdsOnly(SpanExporter):
    """Exports spans with SENT attributes only: without events, and without the text of a status."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([_bare(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _bare(span: ReadableSpan) -> ReadableSpan:
    attributes = {name: value for name, value in (span.attributes or {}).items() if name in SENT}
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        links=span.links,
        kind=span.kind,
        status=trace.Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def make_provider(endpoint: str, named: Mapping[str, str]) -> TracerProvider:
    """Return the provider of all spans, also DBOS's. It sends them in its own thread."""
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override our values.
    resource = (
        Resource.get_empty().merge(Resource(dict(named))).merge(OTELResourceDetector().detect())
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + TRACES_PATH)
    provider.add_span_processor(BatchSpanProcessor(IdsOnly(exporter)))
    trace.set_tracer_provider(provider)
    # DBOS warns that there is no collector for logs. They go to standard error.
    logging.getLogger("dbos").addFilter(_is_worth_a_line)
    # Log one line for a collector that is down, not one for each try.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    return provider


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return "logger provider not set" not in record.getMessage()
