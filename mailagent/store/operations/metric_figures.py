"""Reads the values of the metrics from rows, so that every process reports the same values.

Each value comes from an index or from a stored counter, so that a scrape is fast even with a million mails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import MailKind, MailStatus, OutboundStatus, Purpose
from mailagent.domain.money import Money
from mailagent.domain.operations import metric
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.metric import Sample
from mailagent.domain.operations.model_cost import TokenPrices, Tokens, cost_of
from mailagent.domain.operations.provider import Providers
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema
from mailagent.store.console import dismissals
from mailagent.store.database import in_literals, insert_once
from mailagent.store.mail import assignments, outbound, throttled
from mailagent.store.operations import circuit_breakers, incidents, workers
from mailagent.store.refunds import remedies
from mailagent.store.refunds.credits import CREDIT_MINOR, IS_CREDIT

_mails, _outbound = schema.inbound_mails.c, schema.outbound_mails.c
_refunds, _drafts = schema.refunds.c, schema.drafts.c
_approvals, _settlements = schema.approvals, schema.ledger_settlements.c

# The labels of the reasons why a customer's mail gets no answer; any other reason has the label "other".
REASONS = {
    assignments.PEOPLE_ANSWER: "people_look_after_it",
    throttled.SUMMED_UP: "flood",
    **{reason.value: reason.name.lower() for reason in HandOverReason},
}
# The outcomes of a model call. We also report zeros, because Prometheus' `rate` misses a series' first value.
OUTCOMES = ("done", "retry", "operator", "person")

_NOT_SENT_YET = (OutboundStatus.QUEUED.value, OutboundStatus.SENDING.value)

_unanswered = in_literals(_mails.status, MailStatus.UNANSWERED.value)
# The refund waits for a person to pay it, not for a provider.
_is_to_be_settled = (
    sa.exists()
    .where(_settlements.refund_id == _refunds.refund_id, in_literals(_settlements.state, "open"))
    .correlate(schema.refunds)
)
_WAITING: Mapping[str, tuple[sa.ColumnElement[datetime], sa.ColumnElement[bool]]] = {
    "unanswered": (_mails.received_at, _unanswered & _mails.draft_id.is_(None)),
    "put_off": (_mails.received_at, _unanswered & (_mails.put_off > 0)),
    "throttled": (_mails.received_at, in_literals(_mails.status, MailStatus.THROTTLED.value)),
    "drafts": (_drafts.created_at, in_literals(_drafts.state, "waiting")),
    "approvals": (_refunds.requested_at, in_literals(_refunds.status, "awaiting_approval")),
    "payments": (
        sa.func.coalesce(_refunds.decided_at, _refunds.requested_at),  # without the manager's time
        in_literals(_refunds.status, "approved")
        & ~_is_to_be_settled
        & ~remedies.where_held_up(_refunds.refund_id),
    ),
    "settlements": (_settlements.recorded_at, in_literals(_settlements.state, "open")),
    "outgoing": (_outbound.created_at, in_literals(_outbound.status, *_NOT_SENT_YET)),
}


@dataclass(frozen=True, slots=True)
class Runs:
    """What the workflow engine reports. `active`: how many runs have not ended, by queue, workflow and status.
    `failed`: the query for failed runs."""

    active: Counter[tuple[str, str, str]]
    failed: sa.Select[Any]


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Today's tokens, and their cost in US dollars, by the model's name."""

    today: Mapping[str, Tokens]
    prices: TokenPrices | None


def read(
    connection: sa.Connection,
    runs: Runs,
    use: ModelUse,
    providers: Providers,
    currencies: Iterable[str],
    now: datetime,
) -> list[Sample]:
    """Return the samples of all metrics. Call it in a snapshot. `currencies`: report zeros for these, too, so
    that a first refund is a step up from zero."""
    return [
        Sample(metric.DATABASE_UP, (), 1),
        *_mail_in(connection),
        *waiting(connection, now),
        *_mail_out(connection),
        *_refunded(connection, currencies),
        *_model(connection, use),
        *_providers(connection, providers),
        *_runs(connection, runs),
        Sample(metric.WORKERS, (), _number(connection, workers.alive(connection))),
    ]


def _mail_in(connection: sa.Connection) -> Iterator[Sample]:
    received = count(connection, RECEIVED)
    for kind in MailKind:
        yield Sample(metric.RECEIVED, (kind.value,), received[kind.value, "", "mails"])
    reasons = _count_reasons(connection)
    statuses = (MailStatus.UNANSWERED.value, MailStatus.THROTTLED.value)
    where = [in_literals(_mails.status, status) for status in statuses]
    open_ones = sum(_number(connection, sa.select(_mails.mail_id).where(each)) for each in where)
    handed_over = _number(connection, assignments.select_handed_over())
    answered = received.total() - open_ones - reasons.total() - handed_over
    yield Sample(metric.ANSWERED, (), answered)
    kinds = [kind.value for kind in MailKind if kind is not MailKind.CUSTOMER]
    for reason in (*REASONS.values(), *kinds, "other"):
        yield Sample(metric.NO_ANSWER, (reason,), reasons[reason])


def _count_reasons(connection: sa.Connection) -> Counter[str]:
    """Return how many mails get no answer: customers' mails by the reason's label, other mails by their
    kind."""
    of_customer = sa.case(REASONS, value=_mails.no_answer_reason, else_="other")
    label = sa.case((_mails.kind == MailKind.CUSTOMER.value, of_customer), else_=_mails.kind)
    query = sa.select(label.label("reason"), sa.func.count().label("number")).group_by("reason")
    rows = connection.execute(query.where(in_literals(_mails.status, MailStatus.NO_ANSWER.value)))
    return Counter({row.reason: row.number for row in rows})


def waiting(connection: sa.Connection, now: datetime) -> Iterator[Sample]:
    """Return how much waits, and for how long."""
    for what, (at, where) in _WAITING.items():
        number, oldest = connection.execute(
            sa.select(sa.func.count(), sa.func.min(at)).where(where)
        ).one()
        seconds = max((now - oldest).total_seconds(), 0) if number else 0
        yield Sample(metric.WAITING, (what,), number)
        yield Sample(metric.OLDEST, (what,), seconds)
    overdue = (
        sa.select(_approvals.c.approval_id)
        .join(schema.refunds, _refunds.refund_id == _approvals.c.refund_id)
        .where(in_literals(_refunds.status, "awaiting_approval"), _approvals.c.expires_at <= now)
    )
    yield Sample(metric.OVERDUE, (), _number(connection, overdue))


def _mail_out(connection: sa.Connection) -> Iterator[Sample]:
    written = count(connection, WRITTEN)
    for purpose in Purpose:
        yield Sample(metric.WRITTEN, (purpose.value,), written[purpose.value, "", "mails"])
    counts: Counter[str] = Counter()
    for statuses in (_NOT_SENT_YET, outbound.LOST):
        query = sa.select(_outbound.status, sa.func.count()).group_by(_outbound.status)
        for status, number in connection.execute(
            query.where(in_literals(_outbound.status, *statuses))
        ):
            counts[status] = number
    counts[OutboundStatus.SENT.value] = written.total() - counts.total()
    for each in OutboundStatus:
        yield Sample(metric.OUTGOING, (each.value,), counts[each.value])


def _refunded(connection: sa.Connection, currencies: Iterable[str]) -> Iterator[Sample]:
    query = sa.select(
        _refunds.status,
        _refunds.currency,
        sa.func.count(),
        sa.func.coalesce(sa.func.sum(_refunds.amount_minor).filter(~IS_CREDIT), 0),
        sa.func.coalesce(sa.func.sum(CREDIT_MINOR).filter(IS_CREDIT), 0),
    ).group_by(_refunds.status, _refunds.currency)
    found = {(row[0], row[1]): row[2:] for row in connection.execute(query)}
    for currency in sorted({*currencies, *(each for _, each in found)}):
        for status in RefundStatus:
            number, *sums = found.get((status.value, currency), (0, 0, 0))
            yield Sample(metric.REFUNDS, (status.value, currency), number)
            for each, minor in zip((metric.MONEY, metric.STORE_CREDIT), sums, strict=True):
                amount = float(Money(int(minor), currency).decimal())
                yield Sample(each, (status.value, currency), amount)


def _model(connection: sa.Connection, use: ModelUse) -> Iterator[Sample]:
    tokens: defaultdict[str, Counter[str]] = defaultdict(Counter)
    calls: defaultdict[str, Counter[str]] = defaultdict(lambda: Counter(dict.fromkeys(OUTCOMES, 0)))
    for (model, outcome, quantity), total in count(connection, CALLS).items():
        if quantity == "calls":
            calls[model][outcome] += total
        else:
            tokens[model][quantity] += total
    for model, by_outcome in calls.items():
        for outcome, total in by_outcome.items():
            yield Sample(metric.CALLS, (model, outcome), total)
    for model, by_type in tokens.items():
        for kind in ("input", "cached", "output"):
            yield Sample(metric.TOKENS, (model, kind), by_type[kind])
    for model in sorted(tokens.keys() | use.today.keys()):
        cost = cost_of([use.today.get(model, Tokens())], use.prices)
        if cost is not None:
            yield Sample(metric.COST, (model,), float(cost))


def _providers(connection: sa.Connection, providers: Providers) -> Iterator[Sample]:
    failures, away = list_failures(connection), circuit_breakers.list_open(connection, providers)
    for provider in providers:
        yield Sample(metric.ERRORS, (provider.name,), failures.get(provider.name, 0))
        yield Sample(metric.BREAKER, (provider.name,), provider in away)
    wrong = {each.incident for each in incidents.list_open(connection)}
    for incident in IncidentKind:
        yield Sample(metric.INCIDENT, (incident.value,), incident in wrong)


def _runs(connection: sa.Connection, runs: Runs) -> Iterator[Sample]:
    depths, states = Counter[str](), Counter[tuple[str, str]]()
    for (queue, workflow, status), number in runs.active.items():
        depths[queue] += number if status != "PENDING" else 0
        states[workflow, status] += number
    for queue, number in depths.items():
        yield Sample(metric.DEPTH, (queue,), number)
    for labels, number in states.items():
        yield Sample(metric.RUNS, labels, number)
    counts = dict.fromkeys((workflow for workflow, _ in states), 0)
    counts |= count_failed(connection, runs.failed)
    for workflow, number in counts.items():
        yield Sample(metric.FAILED, (workflow,), number)


def count_failed(connection: sa.Connection, failed_runs: sa.Select[Any]) -> dict[str, int]:
    """Return how many failed runs of each workflow still need a person."""
    failed = failed_runs.subquery()
    query = (
        sa.select(failed.c.workflow, sa.func.count().label("number"))
        .where(dismissals.where_open(connection, failed))
        .group_by(failed.c.workflow)
    )
    return {row.workflow: row.number for row in connection.execute(query)}


def _number(connection: sa.Connection, rows: sa.Select[Any]) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(rows.subquery())) or 0


# --- counters -------------------------------------------------------------------------------------


_counters, _marks, _calls = schema.counters.c, schema.counter_marks.c, schema.model_calls.c

# A row's time is when its transaction began. After this time every such transaction has ended, so that no older
# row can still appear.
SETTLED_AFTER = timedelta(minutes=10)
FAILURES = "failures"

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_ONE = sa.literal(1)

Activity = tuple[str, str, str]  # label, detail, quantity


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to count by `label` and `detail`, which must never change in a row. `at` must have an index."""

    name: str
    at: sa.Column[datetime]
    label: sa.ColumnElement[str]
    detail: sa.ColumnElement[str]
    quantities: Mapping[str, sa.ColumnElement[int]]


_cached = sa.case(  # a server may report more cached than input tokens
    (_calls.cached_tokens > _calls.input_tokens, _calls.input_tokens), else_=_calls.cached_tokens
)

_TOKENS = {
    "calls": _ONE,
    "input": _calls.input_tokens,
    "cached": _cached,
    "output": _calls.output_tokens,
}
_MAILS = {"mails": _ONE}
RECEIVED = Source("received", _mails.received_at, _mails.kind, sa.literal(""), _MAILS)
WRITTEN = Source("written", _outbound.created_at, _outbound.purpose, sa.literal(""), _MAILS)
CALLS = Source("calls", _calls.at, _calls.model, _calls.outcome, _TOKENS)
SOURCES = (RECEIVED, WRITTEN, CALLS)


def count(connection: sa.Connection, source: Source) -> Counter[Activity]:
    """Return the totals of a source since the first row. Call it in a snapshot, so that the stored counter and
    the rows that it adds are of one moment."""
    query = sa.select(_counters.label, _counters.detail, _counters.quantity, _counters.total)
    found: Counter[Activity] = Counter()
    for label, detail, quantity, total in connection.execute(
        query.where(_counters.source == source.name)
    ):
        found[label, detail, quantity] += total
    mark = connection.scalar(sa.select(_marks.counted_until).where(_marks.source == source.name))
    return found + _count_rows(connection, source, mark or _BEGINNING, None)


def _count_rows(
    connection: sa.Connection, source: Source, after: datetime, until: datetime | None
) -> Counter[Activity]:
    sums = [sa.func.sum(column).label(name) for name, column in source.quantities.items()]
    query = (
        sa.select(source.label.label("label"), source.detail.label("detail"), *sums)
        .where(source.at > after)
        .group_by("label", "detail")
    )
    if until is not None:
        query = query.where(source.at <= until)
    return Counter(
        {
            (row.label, row.detail, name): int(row._mapping[name])
            for row in connection.execute(query)
            for name in source.quantities
        }
    )


def move_on(connection: sa.Connection, source: Source, now: datetime) -> None:
    """Add the rows since the counter's mark to the counter, and move the mark to the newest of these rows. Of
    several workers at once, one does it."""
    beginning = {"source": source.name, "counted_until": _BEGINNING}
    insert_once(connection, schema.counter_marks, beginning, "source")
    mark = connection.scalar(
        sa.select(_marks.counted_until)
        .where(_marks.source == source.name)
        .with_for_update(skip_locked=True)
    )
    if mark is None:
        return
    # Move it no further than the newest row: if the clock was set back, rows with later times may still come.
    settled = sa.select(source.at).where(source.at > mark, source.at <= now - SETTLED_AFTER)
    until = connection.scalar(settled.order_by(source.at.desc()).limit(1))
    if until is None:
        return
    for counter, total in _count_rows(connection, source, mark, until).items():
        _add(connection, source.name, counter, total)
    connection.execute(
        sa.update(schema.counter_marks)
        .where(_marks.source == source.name)
        .values(counted_until=until)
    )


def count_failure(connection: sa.Connection, provider: str) -> None:
    """Add a failed call to the provider's counter."""
    _add(connection, FAILURES, (provider, "", FAILURES), 1)


def list_failures(connection: sa.Connection) -> dict[str, int]:
    """Return how many calls of each provider have failed; a provider without failures is left out."""
    query = sa.select(_counters.label, _counters.total).where(_counters.source == FAILURES)
    return {row.label: row.total for row in connection.execute(query)}


def _add(connection: sa.Connection, source: str, counter: Activity, total: int) -> None:
    label, detail, quantity = counter
    key = {"source": source, "label": label, "detail": detail, "quantity": quantity}
    insert_once(connection, schema.counters, {**key, "total": 0}, *key)
    connection.execute(
        sa.update(schema.counters)
        .where(*(schema.counters.c[name] == value for name, value in key.items()))
        .values(total=_counters.total + total)
    )
