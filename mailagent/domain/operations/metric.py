"""The Prometheus metrics: names, types, labels and meanings. `store` counts them; a test compares the table in
docs/monitoring.md. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, by Prometheus' conventions (https://prometheus.io/docs/practices/naming/)."""

    name: str
    kind: MetricType
    labels: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of a metric for one set of labels, in the metric's order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


def _counter(name: str, labels: str, meaning: str) -> Metric:
    return Metric(f"mailagent_{name}_total", MetricType.COUNTER, tuple(labels.split()), meaning)


def _gauge(name: str, labels: str, meaning: str) -> Metric:
    return Metric(f"mailagent_{name}", MetricType.GAUGE, tuple(labels.split()), meaning)


DATABASE_UP = _gauge(
    "database_up", "", "1 if the database answers; if it does not, no other metric is told"
)
RECEIVED = _counter("mails_received", "kind", "mails that came in, by what sort of mail they are")
ANSWERED = _counter("mails_answered", "", "mails that have an answer")
NO_ANSWER = _gauge(
    "mails_without_answer", "reason", "mails that get no answer, by the reason on record"
)
WAITING = _gauge("waiting", "what", "what has not come to its end")
OLDEST = _gauge(
    "oldest_waiting_seconds", "what", "for how long the oldest of it has waited; 0 if nothing waits"
)
OVERDUE = _gauge(
    "approvals_overdue", "", "refunds past their date that nobody has decided on or closed"
)
WRITTEN = _counter("mails_written", "purpose", "mails of ours, by what they are for")
OUTGOING = _gauge("outgoing_mails", "status", "mails of ours, by their state")
REFUNDS = _gauge("refunds", "status currency", "refunds, by their state")
MONEY = _gauge(
    "refunds_amount", "status currency", "what they come to in money, in units of the currency"
)
STORE_CREDIT = _gauge("refunds_store_credit", "status currency", "and in store credit")
CALLS = _counter("model_calls", "model outcome", "calls of the model")
TOKENS = _counter(
    "model_tokens", "model type", "tokens of these calls; `cached` ones are among the `input` ones"
)
COST = _gauge(
    "model_cost_usd_today",
    "model",
    "what the model has cost since midnight UTC, by the prices of each call, as the day's budget counts"
    " it; absent for a model without a price",
)
ERRORS = _counter(
    "provider_errors", "provider", "calls that a provider did not answer as it should"
)
BREAKER = _gauge("breaker_open", "provider", "1 while its circuit breaker is open")
INCIDENT = _gauge(
    "incident_open", "incident", "1 while something is wrong that operators were told of"
)
DEPTH = _gauge("queue_depth", "queue", "runs that wait for a worker")
RUNS = _gauge("runs", "workflow status", "runs that have not ended")
FAILED = _gauge("failed_runs", "workflow", "runs that failed and that no person has dealt with")
WORKERS = _gauge("workers_alive", "", "worker processes that were seen within their lease")

METRICS = (
    DATABASE_UP, RECEIVED, ANSWERED, NO_ANSWER, WAITING, OLDEST, OVERDUE, WRITTEN, OUTGOING, REFUNDS, MONEY,
    STORE_CREDIT, CALLS, TOKENS, COST, ERRORS, BREAKER, INCIDENT, DEPTH, RUNS, FAILED, WORKERS,
)  # fmt: skip


def table() -> Iterator[str]:
    """Yield the lines of the table in docs/monitoring.md."""
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |"
