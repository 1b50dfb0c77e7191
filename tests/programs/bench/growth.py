"""What mail costs in a database with much in it, and in long threads, against an empty database and new
threads: a web process receives, a worker answers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.store.database import open_database
from tests.processes import Process
from tests.programs.bench.answering import Alone, one_by_one, wait_for_mails
from tests.programs.bench.clients import Post, post_all
from tests.programs.bench.fill import prepare_threads
from tests.programs.bench.flows import QUESTION, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.measured import Aim, Measured, ratio_of, unanswered
from tests.programs.bench.meter import Usage, read_usage
from tests.programs.bench.records import read_records
from tests.programs.bench.stock import copy_runs, fill_stock

_LIMIT = 1.3
# Nothing is deleted meanwhile because it is old.
_KEEP = {"RUN_DAYS": "3650", "RAW_MAIL_DAYS": "3650"}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a question costs, in ms: CPU of the web process, of the worker, and of PostgreSQL for both; the
    webhook's p50 under load; one mail by itself, where it was measured. `tokens`: read by the model in each
    call."""

    receive_ms: float
    answer_ms: float
    database_ms: float
    webhook_p50_ms: float
    alone_ms: float | None
    tokens: float
    answered: int


@dataclass(frozen=True)
class _Shop:
    """A shop at work on one database."""

    ground: Ground
    url: str
    webhook: str
    web: Process
    worker: Process

    def measure(self, posts: Sequence[Post], rest: Sequence[Usage], alone: Alone | None) -> Cost:
        """Let all mails come at once. What waiting uses, `rest`, is taken off."""
        count = len(posts)
        sent, began_at = self.ground.providers.counts().mails, time.time()
        before = self._read()
        posted = post_all(self.webhook, posts)
        wait_for_mails(self.ground, self.url, sent + count)
        used = _between(before, self._read())
        web, worker = (one.without(idle) for one, idle in zip(used, rest, strict=True))
        return Cost(
            receive_ms=web.cpu_seconds * 1000 / count,
            answer_ms=worker.cpu_seconds * 1000 / count,
            database_ms=worker.database_seconds * 1000 / count,
            webhook_p50_ms=statistics.median(posted.latencies_ms),
            alone_ms=alone.whole_ms if alone else None,
            tokens=_tokens(self.url, began_at),
            answered=read_records(self.url, began_at, time.time()).answered,
        )

    def rest(self) -> list[Usage]:
        """Return what the web process and the worker use with nothing to do."""
        before = self._read()
        time.sleep(self.ground.sizes.idle_seconds)
        return _between(before, self._read())

    def _read(self) -> list[Usage]:
        time.sleep(self.ground.sizes.settle_seconds)  # once for both
        server = self.ground.server_url
        return [read_usage(server, self.url, [child]) for child in (self.web, self.worker)]


def _between(before: Sequence[Usage], after: Sequence[Usage]) -> list[Usage]:
    return [other.minus(one) for one, other in zip(before, after, strict=True)]


def measure(ground: Ground) -> Measured:
    length = ground.sizes.thread
    with ground.database() as url, _open(ground, url) as shop:
        alone, rest = one_by_one(ground, url, shop.webhook, QUESTION), shop.rest()
        empty = shop.measure(prepare(QUESTION, ground.mails, url, ground.key), rest, alone)
        long, longer = (
            shop.measure(prepare_threads(QUESTION, ground.mails, each, url, ground.key), rest, None)
            for each in (length, 2 * length)
        )
    with ground.database() as url:
        fill_stock(url, ground.sizes.stock)
        with _open(ground, url) as shop:
            one_by_one(ground, url, shop.webhook, QUESTION)  # makes the run that is copied
            rows = copy_runs(url, ground.sizes.stock)
            alone, rest = one_by_one(ground, url, shop.webhook, QUESTION), shop.rest()
            full = shop.measure(prepare(QUESTION, ground.mails, url, ground.key), rest, alone)
    left = sum(ground.mails - cost.answered for cost in (empty, full, long, longer))
    table = _table(ground, [empty, full, long, longer], rows)
    return Measured(table, _aims(empty, full, long, longer), unanswered(left))


@contextmanager
def _open(ground: Ground, url: str) -> Iterator[_Shop]:
    with (
        ground.web(url, "web", **_KEEP) as (web, webhook),
        ground.worker(url, None, **_KEEP) as worker,
    ):
        yield _Shop(ground, url, webhook, web, worker)


def _tokens(url: str, began_at: float) -> float:
    database = open_database(url)
    query = "SELECT avg(input_tokens) FROM model_calls WHERE at >= to_timestamp(:began_at)"
    with database.snapshot() as connection:
        tokens = connection.scalar(sa.text(query), {"began_at": began_at})
    database.close()
    return float(tokens or 0)


_NAMES = {
    "receive_ms": "receive: CPU of the web process, ms",
    "answer_ms": "answer: CPU of the worker, ms",
    "database_ms": "both: CPU of PostgreSQL, ms",
    "webhook_p50_ms": "the webhook under load, p50, ms",
    "alone_ms": "one mail by itself, ms",
    "tokens": "tokens of a call",
}


def _table(ground: Ground, costs: Sequence[Cost], rows: dict[str, int]) -> str:
    sizes = ground.sizes
    heads = ("empty", "full", "ratio", "long", "ratio", "longer", "ratio")
    stored = ", ".join(f"{count:,} rows in {table}" for table, count in rows.items())
    return "\n".join(
        [
            f"{'a question costs':<38}" + "".join(f"{head:>9}" for head in heads),
            *(_line(name, costs) for name in _NAMES),
            f"full: {sizes.stock:,} mails in {sizes.stock // 10:,} conversations; {stored}",
            f"long: {sizes.thread} mails in the thread; longer: {2 * sizes.thread}",
        ]
    )


def _line(name: str, costs: Sequence[Cost]) -> str:
    first, *others = (getattr(cost, name) for cost in costs)
    cells = "".join(
        f"{'–':>9}{'–':>9}"
        if other is None
        else f"{other:>9.1f}{ratio_of(other, first) or 0:>8.2f}×"
        for other in others
    )
    return f"{_NAMES[name]:<38}{first:>9.1f}{cells}"


def _aims(empty: Cost, full: Cost, long: Cost, longer: Cost) -> list[Aim]:
    long_ms, empty_ms = (each.receive_ms + each.answer_ms for each in (long, empty))
    pairs = [
        ("full database, receive, CPU", full.receive_ms, empty.receive_ms, _LIMIT),
        ("full database, answer, CPU", full.answer_ms, empty.answer_ms, _LIMIT),
        ("full database, CPU of PostgreSQL", full.database_ms, empty.database_ms, _LIMIT),
        ("long thread, answer, CPU", long.answer_ms, empty.answer_ms, _LIMIT),
        ("long thread, receive and answer, CPU", long_ms, empty_ms, _LIMIT),
        ("long thread, CPU of PostgreSQL", long.database_ms, empty.database_ms, _LIMIT),
        ("tokens of a call, longer thread against long", longer.tokens, long.tokens, 1.1),
    ]
    return [Aim(what, ratio_of(one, other) or 0, limit, "×") for what, one, other, limit in pairs]
