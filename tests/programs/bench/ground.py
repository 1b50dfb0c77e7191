"""What every measurement stands on: the server, fresh databases, the providers, how many mails.

A measurement first has a few mails one after the other (for the wall time, and to warm up), then many
at once (for everything else), then as long a rest, whose use is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.databases import postgres_copy
from tests.processes import Process
from tests.programs.bench.apps import Stable
from tests.programs.bench.meter import SETTLE_SECONDS, Meter, Used
from tests.programs.bench.providers import Providers
from tests.programs.bench.table import Figures

_MOST_ALONE = 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything. `mails`: at once; `slow_mails`: for the slow model; `pair_mails`: for one
    worker and for two; `waiting`: refunds; `stock`: mails that are in the database already; `thread`: in
    the customer's thread; `starts`: of each role; `idle_seconds`: until memory is read."""

    mails: int = 600
    slow_mails: int = 4000
    pair_mails: int = 320
    waiting: int = 10_000
    decisions: int = 10
    stock: int = 1_000_000
    thread: int = 50
    starts: int = 5
    idle_seconds: float = 10.0
    settle_seconds: float = SETTLE_SECONDS


# So few that the figures mean nothing: it is only seen whether everything works.
HANDFUL = Sizes(3, 4, 4, 5, 2, 600, 6, 1, 0.1, 0.1)


@dataclass(frozen=True)
class Ground:
    """`template`: the migrated database to copy. `folder`: for files of the measurements."""

    server_url: str
    template: str
    providers: Providers
    stable: Stable
    sizes: Sizes
    folder: Path

    @property
    def mails(self) -> int:
        return self.sizes.mails

    @property
    def alone(self) -> int:
        """How many mails come one after the other."""
        return min(self.mails, _MOST_ALONE)

    @contextmanager
    def database(self) -> Iterator[str]:
        """Give the URL of a fresh database."""
        with postgres_copy(self.server_url, self.template) as url:
            yield url

    def meter(self, database_url: str, *children: Process) -> Meter:
        return Meter(self.server_url, database_url, children, self.sizes.settle_seconds)

    def figures(self, used: Used, wall_ms: float, per_second: float) -> Figures:
        """Return what all mails used as the figures of one."""
        return Figures(
            cpu_ms=used.cpu_seconds * 1000 / self.mails,
            database_ms=used.database_seconds * 1000 / self.mails,
            transactions=used.transactions / self.mails,
            wall_ms=wall_ms,
            per_second=per_second,
        )
