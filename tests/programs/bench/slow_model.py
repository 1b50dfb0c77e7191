"""Workers that wait for a slow model: how many mails a second, in how much memory, and whether two workers
answer twice as many as one. Mail comes in by a web process beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.processes import Process
from tests.programs.bench.answering import wait_for_mails
from tests.programs.bench.clients import post_all
from tests.programs.bench.flows import QUESTION, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.measured import Aim, Measured, render_lines, unanswered
from tests.programs.bench.meter import MB, cpu_seconds, read_memory
from tests.programs.bench.records import read_records

# Conversations of a worker at once. They go through their steps together: with 300, whose calls wait for four
# seconds in all, nothing is to do for a quarter of the time.
HUNDREDS = 500
# So few that waiting, not the machine's two cores, limits one worker.
FEW = 16
_WARM_UP_MAILS = 8


@dataclass(frozen=True, slots=True)
class Throughput:
    """`most_asked`: how many calls of the model were under way at once."""

    mails: int
    answered: int
    seconds: float
    most_asked: int
    cpu_ms: float

    @property
    def per_second(self) -> float:
        return self.mails / self.seconds


def measure_slow_model(ground: Ground) -> Measured:
    """Measure one worker with a model that takes two seconds a call."""
    with ground.database() as url, ground.web(url, "web") as (_, webhook):
        shop = _Shop(ground, url, webhook, 2.0)
        with shop.worker(1, HUNDREDS) as worker:
            done, memory = shop.measure([worker], ground.sizes.slow_mails), read_memory(worker)
    peak = memory.peak_rss / MB
    table = {
        "model's latency, two calls a mail": "2 s",
        "CONVERSATION_CONCURRENCY": str(HUNDREDS),
        "mails at once": f"{done.mails}, answered {done.answered}",
        "mails/s, one worker": f"{done.per_second:.1f}",
        "calls of the model under way, at most": str(done.most_asked),
        "the worker's CPU": f"{done.cpu_ms:.1f} ms a mail",
        "the worker's memory at its peak (RSS)": f"{peak:.0f} MB",
        "the worker's threads, at the end": str(memory.threads),
    }
    aims = [
        Aim("slow model, one worker", done.per_second, 40, "mails/s", at_least=True),
        Aim("slow model, the worker's peak memory", peak, 350, "MB"),
    ]
    return Measured(render_lines(table.items()), aims, unanswered(done.mails - done.answered))


def measure_pair(ground: Ground) -> Measured:
    """Measure two workers against one, with a model that takes one second a call."""
    mails = ground.sizes.pair_mails
    with ground.database() as url, ground.web(url, "web") as (_, webhook):
        shop = _Shop(ground, url, webhook, 1.0)
        with shop.worker(1, FEW) as first:
            one = shop.measure([first], mails)
            with shop.worker(2, FEW) as second:
                two = shop.measure([first, second], mails)
    ratio = two.per_second / one.per_second
    table = {
        "model's latency, two calls a mail": "1 s",
        "CONVERSATION_CONCURRENCY": str(FEW),
        "mails at once": f"{mails}, answered {one.answered} and {two.answered}",
        "mails/s, one worker": f"{one.per_second:.2f}",
        "mails/s, two workers": f"{two.per_second:.2f}",
        "two against one": f"{ratio:.2f}×",
    }
    aim = Aim("two workers against one", ratio, 1.8, "×", at_least=True)
    wrong = unanswered(2 * mails - one.answered - two.answered)
    return Measured(render_lines(table.items()), [aim], wrong)


@dataclass(frozen=True, slots=True)
class _Shop:
    """A web process on a database of its own, and how long the model takes while it is measured."""

    ground: Ground
    url: str
    webhook: str
    latency_seconds: float

    @contextmanager
    def worker(self, number: int, concurrency: int) -> Iterator[Process]:
        names = {"WORKER_ID": f"bench-{number}", "CONVERSATION_CONCURRENCY": str(concurrency)}
        with self.ground.worker(self.url, None, **names) as child:
            yield child

    def measure(self, workers: list[Process], mails: int) -> Throughput:
        """Let all mails come at once. The first that a worker answers makes it load what it needs."""
        providers = self.ground.providers
        self._answer(_WARM_UP_MAILS * len(workers))
        providers.set_latency(self.latency_seconds)
        used, began_at = sum(map(cpu_seconds, workers)), time.time()
        seconds = self._answer(mails)
        most_asked = providers.counts().most_at_once
        providers.set_latency(0)
        answered = read_records(self.url, began_at, time.time()).answered
        cpu_ms = (sum(map(cpu_seconds, workers)) - used) * 1000 / mails
        return Throughput(mails, answered, seconds, most_asked, cpu_ms)

    def _answer(self, mails: int) -> float:
        """Return how long it takes from the first mail to the last reply, in seconds."""
        ground, sent = self.ground, self.ground.providers.counts().mails
        posted = post_all(self.webhook, prepare(QUESTION, mails, self.url, ground.key))
        wait_for_mails(ground, self.url, sent + mails * QUESTION.mails_back)
        return time.monotonic() - posted.began_at
