"""OpenTelemetry spans of requests, wake-ups and calls of providers. DBOS makes those of runs and steps.

Without `start` there are no spans, and OpenTelemetry is not loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from mailagent.telemetry import log_ids

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

NAME = "mailagent"
STOP_SECONDS = 2.0

_started: list[TracerProvider] = []


def is_on() -> bool:
    """Return whether tracing is on in this process."""
    return bool(_started)


def start(endpoint: str, role: str) -> None:
    """Turn tracing on, and send spans to a collector in the background.

    `endpoint`: the collector's address for OTLP over HTTP, without the path. The exporter reads other
    `OTEL_EXPORTER_OTLP_…` variables itself.
    https://opentelemetry.io/docs/specs/otel/protocol/exporter/
    """
    if _started:
        return
    from mailagent.telemetry.exporting import make_provider

    _started.append(make_provider(endpoint, {"service.name": NAME, "mailagent.role": role}))


def stop() -> None:
    """Send the finished spans, for at most two seconds, and turn tracing off."""
    while _started:
        ending = threading.Thread(target=_started.pop().shutdown, name="spans", daemon=True)
        ending.start()
        ending.join(STOP_SECONDS)


def request(method: str, route: str) -> AbstractContextManager[None]:
    """Make the span of a request. It has the route, not the path, which may contain the token of a link."""
    named = {"http.request.method": method, "http.route": route}
    return _span(f"{method} {route}", "SERVER", named)


def note_status(status: int) -> None:
    """Add the status of the response to the request's span."""
    if _started:
        from opentelemetry.trace import Status, StatusCode, get_current_span

        span = get_current_span()
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))


def call(provider: str, what: str) -> AbstractContextManager[None]:
    """Make the span of a call to a provider."""
    return _span(f"{provider} {what}", "CLIENT", {"peer.service": provider})


@contextmanager
def wake_up(workflow: str, running: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Make the span of a wake-up; yield the W3C trace context (https://www.w3.org/TR/trace-context/) for the
    run that is woken, so that it joins the trace. It is empty if tracing is off.

    `running` is the trace context of a run that is active already. The span is then part of that run's
    trace, with a link to the current span.
    """
    if not _started:
        yield {}
        return
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent, links = None, []
    if running:
        parent = TraceContextTextMapPropagator().extract(dict(running))
        links = [Link(get_current_span().get_span_context())]
    with _span(f"wake {workflow}", "PRODUCER", {}, parent, links):
        carried: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carried)
        yield carried


@contextmanager
def _span(
    name: str,
    kind: str,
    attributes: Mapping[str, Any],
    parent: Context | None = None,
    links: list[Any] | None = None,
) -> Iterator[None]:
    if not _started:
        yield
        return
    from opentelemetry.trace import SpanKind

    with (
        _started[0]
        .get_tracer(NAME)
        .start_as_current_span(
            name,
            context=parent,
            kind=SpanKind[kind],
            attributes={**attributes, **_ids()},
            links=links,
            record_exception=False,  # an exception's text may quote a mail
        )
    ):
        yield


def _ids() -> dict[str, str]:
    return {f"mailagent.{name}": each for name, each in log_ids.known().items()}


def note_ids() -> None:
    """Add the current ids to the current span, such as a step's."""
    if _started:
        from opentelemetry.trace import get_current_span

        get_current_span().set_attributes(_ids())


def trace_id() -> str | None:
    """Return the id of the current trace in hexadecimal, or None."""
    if not _started:
        return None
    from opentelemetry.trace import format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    return format_trace_id(context.trace_id) if context.is_valid else None
