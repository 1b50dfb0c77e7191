"""What a whole mail costs, from the webhook to the last mail back, and what of it is a worker's."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.processes import Process, ProcessFailed
from tests.programs.bench.clients import Poster, approve, approve_all, post_all
from tests.programs.bench.flows import APPROVED, QUESTION, REFUND, Flow, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.meter import Usage
from tests.programs.bench.providers import PATIENCE_SECONDS, Counts
from tests.programs.bench.records import Records, list_left, read_records

_LONGEST_PAUSE_SECONDS = 0.5
FLOWS = (QUESTION, REFUND, APPROVED)


@dataclass(frozen=True, slots=True)
class Alone:
    """Median wall times of one mail with nothing beside it, in ms, the model's time taken off."""

    whole_ms: float
    after_200_ms: float


@dataclass(frozen=True, slots=True)
class Answered:
    """What all mails of one flow used. `requests`: calls of the model for each mail."""

    used: Usage
    per_second: float
    alone: Alone
    requests: float
    records: Records


Results = tuple[dict[str, Answered], Usage]


def measure_mails(ground: Ground) -> Results:
    """Measure each flow with everything in one process; return also what waiting uses."""
    with ground.database() as url, ground.web(url, "all") as (app, webhook):
        return measure_flows(ground, url, app, webhook, FLOWS)


def measure_worker(ground: Ground) -> Results:
    """Measure what a worker does for a question, with the webhook in another process.

    The webhook's transactions are counted, too: PostgreSQL counts by database.
    """
    with (
        ground.database() as url,
        ground.web(url, "web") as (_, webhook),
        ground.worker(url) as worker,
    ):
        return measure_flows(ground, url, worker, webhook, (QUESTION,))


def measure_flows(
    ground: Ground, url: str, child: Process, webhook: str, flows: Sequence[Flow]
) -> Results:
    alone = {flow: one_by_one(ground, url, webhook, flow) for flow in flows}
    loads = [_all_at_once(ground, url, child, webhook, flow, alone[flow]) for flow in flows]
    before = ground.read(url, child)
    time.sleep(max(load.used.seconds for load in loads))
    idle = ground.read(url, child).minus(before)
    return {flow.name: load for flow, load in zip(flows, loads, strict=True)}, idle


def one_by_one(ground: Ground, url: str, webhook: str, flow: Flow) -> Alone:
    pauses = random.Random(1)
    whole_ms, after_200_ms = [], []
    for post in prepare(flow, ground.alone, url, ground.key):
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
    ground: Ground, url: str, child: Process, webhook: str, flow: Flow, alone: Alone
) -> Answered:
    posts = prepare(flow, ground.mails, url, ground.key)
    before, counts, began_at = ground.read(url, child), ground.providers.counts(), time.time()
    posted = post_all(webhook, posts)
    if flow.mails_before is not None:
        wait_for_mails(ground, url, counts.mails + flow.mails_before * ground.mails)
        approve_all(webhook, ground.providers.list_links(counts.mails))
    done = wait_for_mails(ground, url, counts.mails + flow.mails_back * ground.mails)
    seconds, ended_at = time.monotonic() - posted.began_at, time.time()
    return Answered(
        used=ground.read(url, child).minus(before),
        per_second=ground.mails / seconds,
        alone=alone,
        requests=(done.requests - counts.requests) / ground.mails,
        records=read_records(url, began_at, ended_at),
    )


def wait_for_mails(
    ground: Ground, url: str, mails: int, patience_seconds: float = PATIENCE_SECONDS
) -> Counts:
    """Wait until so many mails were sent. Raises ProcessFailed, with what is left, if they are not."""
    try:
        return ground.providers.wait_for_mails(mails, patience_seconds)
    except ProcessFailed as failed:
        left = "\n".join(list_left(url))
        raise ProcessFailed(f"{failed}; not done:\n{left}") from failed
