"""Workers that wait for a slow model: how many mails a second, in how much memory, and whether two workers
answer twice as many as one. Mail comes in by a web process beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from tests.processes import Process
from tests.programs.bench.answering import wait_for_mails
from tests.programs.bench.flows import QUESTION, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.memory import MB, Memory, read_memory
from tests.programs.bench.meter import cpu_seconds
from tests.programs.bench.posting import post_all
from tests.programs.bench.records import read_records
from tests.programs.bench.told import Aim, Told, render_lines

# How many conversations a worker has at once. They go through their steps together: with 300, whose asks wait
# for four seconds in all, nothing is to do for a quarter of the time.
HUNDREDS = 500
# So few that waiting, not the machine's two cores, is what limits one worker.
FEW = 16
_WARM_UP_MAILS = 8


@dataclass(frozen=True, slots=True)
class Throughput:
    """`most_asked`: how many asks of the model were under way at once. `memory`: of each worker."""

    mails: int
    answered: int
    seconds: float
    per_second: float
    most_asked: int
    cpu_ms: float
    memory: list[Memory]


def measure_slow_model(ground: Ground) -> Told:
    """Measure one worker with a model that takes two seconds a call."""
    with ground.database() as url, ground.stable.web(url, "web") as (_, webhook):
        shop = _Shop(ground, url, webhook, 2.0)
        with _worker(shop, 1, HUNDREDS) as worker:
            done = shop.measure([worker], ground.sizes.slow_mails)
    peak = max(each.peak_rss for each in done.memory) / MB
    table = render_lines(
        [
            ("model's latency, two asks a mail", "2 s"),
            ("CONVERSATION_CONCURRENCY", str(HUNDREDS)),
            ("mails at once", f"{done.mails}, answered {done.answered}"),
            ("mails/s, one worker", f"{done.per_second:.1f}"),
            ("asks of the model under way, at most", str(done.most_asked)),
            ("the worker's CPU", f"{done.cpu_ms:.1f} ms a mail"),
            ("the worker's memory at its peak (RSS)", f"{peak:.0f} MB"),
            ("the worker's threads, at the end", str(done.memory[0].threads)),
        ]
    )
    aims = [
        Aim("slow model, one worker", done.per_second, 40, "mails/s", at_least=True),
        Aim("slow model, the worker's peak memory", peak, 350, "MB"),
    ]
    return Told(table, asdict(done), aims, _wrong(done))


def measure_pair(ground: Ground) -> Told:
    """Measure two workers against one, with a model that takes one second a call."""
    mails = ground.sizes.pair_mails
    with ground.database() as url, ground.stable.web(url, "web") as (_, webhook):
        shop = _Shop(ground, url, webhook, 1.0)
        with _worker(shop, 1, FEW) as first:
            one = shop.measure([first], mails)
            with _worker(shop, 2, FEW) as second:
                two = shop.measure([first, second], mails)
    ratio = two.per_second / one.per_second
    table = render_lines(
        [
            ("model's latency, two asks a mail", "1 s"),
            ("CONVERSATION_CONCURRENCY", str(FEW)),
            ("mails at once", f"{one.mails}, answered {one.answered} and {two.answered}"),
            ("mails/s, one worker", f"{one.per_second:.2f}"),
            ("mails/s, two workers", f"{two.per_second:.2f}"),
            ("two against one", f"{ratio:.2f}×"),
        ]
    )
    figures = {"one": asdict(one), "two": asdict(two), "ratio": ratio}
    aim = Aim("two workers against one", ratio, 1.8, "×", at_least=True)
    return Told(table, figures, [aim], _wrong(one) + _wrong(two))


def _wrong(done: Throughput) -> list[str]:
    left = done.mails - done.answered
    return [f"{left} mails were not answered"] if left else []


@dataclass(frozen=True, slots=True)
class _Shop:
    """A web process on a database of its own, and how long the model takes while it is measured."""

    ground: Ground
    url: str
    webhook: str
    latency_seconds: float

    def measure(self, workers: list[Process], mails: int) -> Throughput:
        """Let all mails come at once, once everything is warm."""
        providers = self.ground.providers
        # The first mail that a worker answers has it load what is needed but once.
        self._answer(_WARM_UP_MAILS * len(workers))
        providers.set_latency(self.latency_seconds)
        used, began_at = _cpu_seconds(workers), time.time()
        seconds = self._answer(mails)
        most_asked = providers.counts().most_at_once
        providers.set_latency(0)
        return Throughput(
            mails,
            read_records(self.url, began_at, time.time()).answered,
            seconds,
            mails / seconds,
            most_asked,
            (_cpu_seconds(workers) - used) * 1000 / mails,
            [read_memory(child) for child in workers],
        )

    def _answer(self, mails: int) -> float:
        """Return how long it takes from the first mail to the last reply, in seconds."""
        ground, sent = self.ground, self.ground.providers.counts().mails
        posted = post_all(self.webhook, prepare(QUESTION, mails, self.url, ground.stable.key))
        wait_for_mails(ground, self.url, sent + mails * QUESTION.mails_back)
        return time.monotonic() - posted.began_at


@contextmanager
def _worker(shop: _Shop, number: int, concurrency: int) -> Iterator[Process]:
    names = {"WORKER_ID": f"bench-{number}", "CONVERSATION_CONCURRENCY": str(concurrency)}
    with shop.ground.stable.worker(shop.url, None, **names) as child:
        yield child


def _cpu_seconds(children: list[Process]) -> float:
    return sum(map(cpu_seconds, children))
