"""`/metrics` for Prometheus: from rows, so that any web process answers for all processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import sqlalchemy as sa
from flask import Blueprint, Response, current_app

from mailagent import services
from mailagent.domain import metric
from mailagent.domain.metric import MetricType, Sample
from mailagent.store import metric_figures
from mailagent.web.bearer import carries_one_of, unauthorised
from mailagent.web.guard import bearer_token

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

logger = logging.getLogger(__name__)

blueprint = Blueprint("metrics", __name__)

KEPT = "metrics"  # where an app keeps its figures
KEPT_SECONDS = 5.0
WAIT_SECONDS = 5.0


class KeptSamples:
    """The figures of the last few seconds: however many ask, one counts and the others wait for it."""

    def __init__(self, seconds: float = KEPT_SECONDS, wait_seconds: float = WAIT_SECONDS) -> None:
        self._seconds, self._wait_seconds = seconds, wait_seconds
        self._lock = Lock()
        self._samples: Sequence[Sample] = ()
        self._counted_at = 0.0

    def samples(self) -> Sequence[Sample]:
        """Return figures at most so many seconds old; of a database that is away only that it is.

        Raises TimeoutError where another still counts: a database that hangs must not take all threads.
        """
        if not self._lock.acquire(timeout=self._wait_seconds):
            raise TimeoutError
        try:
            if not self._samples or time.monotonic() - self._counted_at >= self._seconds:
                self._samples = _count()
                self._counted_at = time.monotonic()
            return self._samples
        finally:
            self._lock.release()


def _count() -> Sequence[Sample]:
    live = services.current()
    try:
        now = live.now()
        with live.database.snapshot() as connection:
            active = live.doorbell.count_active(connection)
            failed = live.doorbell.failed_runs()
            return metric_figures.read(connection, active, failed, live.prices_of, now)
    except sa.exc.SQLAlchemyError:
        logger.exception("the metrics cannot be counted")
        return [Sample(metric.DATABASE_UP, (), 0)]


class _Collector:
    """What prometheus_client collects from: made anew for each answer, so that nothing is left over."""

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
@bearer_token
def tell() -> Response:
    """Tell every metric in Prometheus' text format 0.0.4."""
    if not carries_one_of(services.current().metrics_tokens):
        return unauthorised()
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

    kept: KeptSamples = current_app.extensions.setdefault(KEPT, KeptSamples())
    try:
        samples = kept.samples()
    except TimeoutError:
        return Response("the figures are still being counted\n", 503, mimetype="text/plain")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(samples))
    response = Response(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)
    response.headers["Cache-Control"] = "no-store"
    return response
