"""A collector of spans: OTLP over HTTP with protobuf, as the specification of OpenTelemetry has it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from mailagent.demo.fakes.http_server import Answer, LocalServer, Request


@dataclass(frozen=True)
class Seen:
    """One span that was sent, with what made it."""

    span: Span
    resource: dict[str, str]

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def trace_id(self) -> str:
        return self.span.trace_id.hex()

    @property
    def span_id(self) -> str:
        return self.span.span_id.hex()

    @property
    def parent_id(self) -> str:
        return self.span.parent_span_id.hex()

    @cached_property
    def facts(self) -> dict[str, str]:
        return _facts(self.span.attributes)


def _facts(pairs: object) -> dict[str, str]:
    return {
        pair.key: pair.value.string_value or str(pair.value.int_value)
        for pair in pairs  # type: ignore[attr-defined]  # protobuf's container of them
        if isinstance(pair, KeyValue)
    }


class Collector(LocalServer):
    """Keeps every span that it is sent, and the bytes as they came."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.raw = b""
        super().__init__({"POST /v1/traces": self._take}, lambda _request: Answer(404))

    def _take(self, request: Request) -> Answer:
        self.raw += request.body
        sent = ExportTraceServiceRequest.FromString(request.body)
        for group in sent.resource_spans:
            resource = _facts(group.resource.attributes)
            for scope in group.scope_spans:
                self.spans += [Seen(span, resource) for span in scope.spans]
        return Answer(200)
