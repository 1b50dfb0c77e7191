"""What a whole mail costs, from the webhook to the last mail back, and what of it is a worker's."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.processes import ProcessFailed
from tests.programs.bench.deciding import approve, approve_all
from tests.programs.bench.flows import APPROVED, QUESTION, REFUND, Flow, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.meter import Meter, Used, between
from tests.programs.bench.posting import Poster, post_all
from tests.programs.bench.providers import PATIENCE_SECONDS, Counts
from tests.programs.bench.records import Records, list_left, read_records
from tests.programs.bench.table import Figures

_LONGEST_PAUSE_SECONDS = 0.5
FLOWS = (QUESTION, REFUND, APPROVED)


@dataclass(frozen=True, slots=True)
class Alone:
    """Median wall times of one mail with nothing beside it, in ms, the model's time taken off."""

    whole_ms: float
    after_200_ms: float


@dataclass(frozen=True, slots=True)
class Answered:
    """`asks`: of the model, for each mail."""

    figures: Figures
    alone: Alone
    requests: float
    records: Records


@dataclass(frozen=True, slots=True)
class Idle:
    """What a second of waiting uses: queues are polled, the schedule is looked at."""

    cpu_ms: float
    transactions: float
    database_ms: float


Results = tuple[dict[str, Answered], Idle]


def measure_mails(ground: Ground) -> Results:
    """Measure each flow with everything in one process."""
    with ground.database() as url, ground.stable.web(url, "all") as (app, webhook):
        return _measure(ground, url, ground.meter(url, app), webhook, FLOWS)


def measure_worker(ground: Ground) -> Results:
    """Measure what a worker does for a question, with the webhook in another process.

    Of the transactions those of the webhook are among them: PostgreSQL counts by database.
    """
    with (
        ground.database() as url,
        ground.stable.web(url, "web") as (_, webhook),
        ground.stable.worker(url) as worker,
    ):
        return _measure(ground, url, ground.meter(url, worker), webhook, (QUESTION,))


@dataclass(frozen=True, slots=True)
class _Load:
    """Many mails of one flow at once. `began_at`, `ended_at`: as the rows' times are, in seconds."""

    used: Used
    per_second: float
    requests: float
    began_at: float
    ended_at: float


def _measure(
    ground: Ground, database_url: str, meter: Meter, webhook: str, flows: Sequence[Flow]
) -> Results:
    alone = {flow: one_by_one(ground, database_url, webhook, flow) for flow in flows}
    loads = {flow: _all_at_once(ground, database_url, meter, webhook, flow) for flow in flows}
    before = meter.read()
    time.sleep(max(load.used.seconds for load in loads.values()))
    rest = between(before, meter.read())
    answered = {
        flow.name: Answered(
            ground.figures(load.used.without(rest), alone[flow].whole_ms, load.per_second),
            alone[flow],
            load.requests,
            read_records(database_url, load.began_at, load.ended_at),
        )
        for flow, load in loads.items()
    }
    return answered, Idle(
        rest.cpu_seconds * 1000 / rest.seconds,
        rest.transactions / rest.seconds,
        rest.database_seconds * 1000 / rest.seconds,
    )


def one_by_one(ground: Ground, database_url: str, webhook: str, flow: Flow) -> Alone:
    pauses = random.Random(1)
    whole_ms, after_200_ms = [], []
    for post in prepare(flow, ground.alone, database_url, ground.stable.key):
        # Right after the last one each mail would wait for the next look at the queue equally long.
        time.sleep(pauses.uniform(0, _LONGEST_PAUSE_SECONDS))
        before, began = ground.providers.counts(), time.perf_counter()
        received_ms = Poster(webhook).post(post)  # gunicorn closes what is quiet for two seconds
        if flow.mails_before is not None:
            ground.providers.wait_for_mails(before.mails + flow.mails_before)
            approve(webhook, ground.providers.list_links(before.mails)[0])
        after = ground.providers.wait_for_mails(before.mails + flow.mails_back)
        model_ms = (after.model_seconds - before.model_seconds) * 1000
        whole_ms.append((time.perf_counter() - began) * 1000 - model_ms)
        after_200_ms.append(whole_ms[-1] - received_ms)
    return Alone(statistics.median(whole_ms), statistics.median(after_200_ms))


def _all_at_once(
    ground: Ground, database_url: str, meter: Meter, webhook: str, flow: Flow
) -> _Load:
    posts = prepare(flow, ground.mails, database_url, ground.stable.key)
    before, counts, began_at = meter.read(), ground.providers.counts(), time.time()
    posted = post_all(webhook, posts)
    if flow.mails_before is not None:
        wait_for_mails(ground, database_url, counts.mails + flow.mails_before * ground.mails)
        approve_all(webhook, ground.providers.list_links(counts.mails))
    done = wait_for_mails(ground, database_url, counts.mails + flow.mails_back * ground.mails)
    seconds = time.monotonic() - posted.began_at
    ended_at = time.time()
    return _Load(
        used=between(before, meter.read()),
        per_second=ground.mails / seconds,
        requests=(done.requests - counts.requests) / ground.mails,
        began_at=began_at,
        ended_at=ended_at,
    )


def wait_for_mails(
    ground: Ground, database_url: str, mails: int, patience_seconds: float = PATIENCE_SECONDS
) -> Counts:
    """Wait until so many mails were sent. Raises ProcessFailed, with what is left, in vain."""
    try:
        return ground.providers.wait_for_mails(mails, patience_seconds)
    except ProcessFailed as failed:
        left = "\n".join(list_left(database_url))
        raise ProcessFailed(f"{failed}; not done:\n{left}") from failed
