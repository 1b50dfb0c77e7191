"""`/metrics` for Prometheus, counted from rows, so that every web process reports the same values; and the
health checks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import TYPE_CHECKING

import sqlalchemy as sa
from flask import Blueprint, Response, current_app

from mailagent import services
from mailagent.adapters.http import begin
from mailagent.domain.operations import metric
from mailagent.domain.operations.metric import MetricType, Sample
from mailagent.store.errors import is_cancelled
from mailagent.store.migration import SchemaProblem, check_schema
from mailagent.store.operations import metric_figures
from mailagent.store.operations.metric_figures import ModelUse, Runs
from mailagent.web.guard import bearer_token, open_to_all

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

logger = logging.getLogger(__name__)

blueprint = Blueprint("metrics", __name__)

CACHE = "metrics"  # the app extension that holds the cached samples
CACHE_SECONDS = 5.0
WAIT_SECONDS = 5.0  # Prometheus waits ten seconds
STATEMENT_SECONDS = 3.0

_DOWN = (Sample(metric.DATABASE_UP, (), 0),)


class CachedSamples:
    """The samples of the last few seconds, which all requests share."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count: _Count | None = None

    def samples(self) -> Sequence[Sample]:
        """Return samples that are a few seconds old at most. If the database is down, or has not responded for
        `WAIT_SECONDS`, return only the sample that says so.

        Raises TimeoutError if the database responds, but too slowly.
        """
        with self._lock:
            if self._count is None or self._count.is_past(CACHE_SECONDS):
                self._count = _Count()
            count = self._count
        try:
            return count.figures.result(timeout=max(WAIT_SECONDS - count.silent_seconds(), 0))
        except TimeoutError:
            if count.figures.done():
                return count.figures.result()
            if count.silent_seconds() < WAIT_SECONDS:
                raise
            return _DOWN


class _Count:
    """One count of all metrics, in a thread of its own, so that a database that does not respond blocks no
    request. The next count starts only after this one has ended, so there is at most one such thread."""

    def __init__(self) -> None:
        self._response_at = time.monotonic()
        self.figures = begin(self._run)

    def silent_seconds(self) -> float:
        """The seconds since the last response of the database."""
        return time.monotonic() - self._response_at

    def is_past(self, seconds: float) -> bool:
        """Return whether the count ended at least `seconds` ago, or failed."""
        if not self.figures.done():
            return False
        return self.figures.exception() is not None or self.silent_seconds() >= seconds

    def _run(self) -> Sequence[Sample]:
        try:
            return _count(self._note_response)
        finally:
            self._note_response()

    def _note_response(self, *_event: object) -> None:
        self._response_at = time.monotonic()


def _count(on_response: Callable[..., None]) -> Sequence[Sample]:
    live = services.current()
    try:
        now = live.now()
        today = live.spending.of_today(live.database, now, STATEMENT_SECONDS)
        use = ModelUse(today, live.token_prices)
        with live.database.snapshot(STATEMENT_SECONDS) as connection:
            sa.event.listen(connection, "after_cursor_execute", on_response)
            runs = Runs(
                live.workflow_client.tables.count_active(connection),
                live.workflow_client.tables.failed_runs(),
            )
            return metric_figures.read(
                connection, runs, use, live.providers, live.policy.limits, now
            )
    except sa.exc.SQLAlchemyError as problem:
        if is_cancelled(problem):
            raise TimeoutError from problem
        logger.exception("event=metrics_failed: cannot read the database; reporting it as down")
        return _DOWN


class _Collector:
    """Passes the samples of one response to prometheus_client."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for each in metric.METRICS:
            make = CounterMetricFamily if each.kind is MetricType.COUNTER else GaugeMetricFamily
            family = make(each.name, each.meaning, labels=each.labels)
            for sample in self._samples:
                if sample.metric is each:
                    family.add_metric(sample.labels, sample.value)
            if family.samples:
                yield family


@blueprint.get("/metrics")
@bearer_token(lambda: services.current().metrics_tokens)
def show() -> Response:
    """Return every metric in Prometheus' text format 0.0.4."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

    cache: CachedSamples = current_app.extensions.setdefault(CACHE, CachedSamples())
    try:
        samples = cache.samples()
    except TimeoutError:
        return Response("the figures could not be counted in time\n", 503, mimetype="text/plain")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(samples))
    response = Response(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)
    response.headers["Cache-Control"] = "no-store"
    return response


# --- health ---------------------------------------------------------------------------------------


health_blueprint = Blueprint("health", __name__)

PROBE = "probe"  # the app extension that checks the database


class SharedProbe:
    """One check of the database at a time, which all requests share. A database that does not respond then
    keeps one thread, and none of those that answer `/healthz`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begun_at = 0.0
        self._checked: Future[None] | None = None

    def check(self) -> None:
        """Raise what `check_schema` raises; TimeoutError if it has not ended `WAIT_SECONDS` after its start."""
        with self._lock:
            if self._checked is None or self._checked.done():
                self._begun_at = time.monotonic()
                self._checked = begin(_check_schema)
            checked, age = self._checked, time.monotonic() - self._begun_at
        checked.result(timeout=max(WAIT_SECONDS - age, 0))


def _check_schema() -> None:
    check_schema(services.current().database, STATEMENT_SECONDS)


@health_blueprint.get("/healthz")
@open_to_all
def alive() -> Response:
    """Answer 200 while the process runs, even if the database is down: restarting the process would not
    help."""
    return Response("alive\n", mimetype="text/plain")


@health_blueprint.get("/readyz")
@open_to_all
def ready() -> Response:
    """Answer 200 if the database is reachable and migrated, else 503 with the reason."""
    probe: SharedProbe = current_app.extensions.setdefault(PROBE, SharedProbe())
    try:
        probe.check()
    except SchemaProblem as problem:
        return Response(f"{problem}\n", 503, mimetype="text/plain")
    except (sa.exc.SQLAlchemyError, TimeoutError):
        logger.exception("event=not_ready: the database cannot be reached")
        return Response("the database cannot be reached\n", 503, mimetype="text/plain")
    return Response("ready\n", mimetype="text/plain")
