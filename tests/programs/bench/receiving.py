"""What receiving a mail costs: the webhook with nobody to work on the mail, beside a bare view."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from tests.processes import Process
from tests.programs.bench.flows import QUESTION, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.meter import between
from tests.programs.bench.posting import Poster, post_all
from tests.programs.bench.table import Figures


@dataclass(frozen=True, slots=True)
class Received:
    """`p50_ms`, `p99_ms`: how long a request takes while others are posted beside it."""

    figures: Figures
    p50_ms: float
    p99_ms: float


def measure_webhook(ground: Ground) -> Received:
    with ground.database() as url, ground.stable.web(url, "web") as (app, webhook):
        return _measure(ground, url, app, webhook)


def measure_bare_view(ground: Ground) -> Received:
    with ground.database() as url, ground.stable.bare_view(url) as (view, webhook):
        return _measure(ground, url, view, webhook)


def _measure(ground: Ground, database_url: str, child: Process, webhook: str) -> Received:
    poster = Poster(webhook)
    first = prepare(QUESTION, ground.alone, database_url, ground.stable.key)
    alone_ms = [poster.post(post) for post in first]
    posts = prepare(QUESTION, ground.mails, database_url, ground.stable.key)
    meter = ground.meter(database_url, child)
    before = meter.read()
    posted = post_all(webhook, posts)
    used = between(before, meter.read())  # nothing polls here: there is no rest to take off
    latencies = sorted(posted.latencies_ms)
    return Received(
        ground.figures(used, statistics.median(alone_ms), posted.per_second),
        p50_ms=statistics.median(latencies),
        p99_ms=latencies[int(len(latencies) * 0.99)],
    )
