"""What every measurement stands on: the server, fresh databases, the providers, how many mails.

A measurement first has a few mails one after the other (for the wall time, and to warm up), then many
at once (for everything else), then as long a rest, whose use is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.apps import Stable
from tests.bench.child import Child
from tests.bench.meter import Meter, Used
from tests.bench.providers import Providers
from tests.bench.table import Figures
from tests.databases import postgres_copy

_MOST_ALONE = 20


@dataclass(frozen=True)
class Ground:
    """`template`: the migrated database to copy. `mails`: how many at once."""

    server_url: str
    template: str
    providers: Providers
    stable: Stable
    mails: int
    settle_seconds: float

    @property
    def alone(self) -> int:
        """How many mails come one after the other."""
        return min(self.mails, _MOST_ALONE)

    @contextmanager
    def database(self) -> Iterator[str]:
        """Give the URL of a fresh database."""
        with postgres_copy(self.server_url, self.template) as url:
            yield url

    def meter(self, database_url: str, child: Child) -> Meter:
        return Meter(self.server_url, database_url, child, self.settle_seconds)

    def figures(self, used: Used, wall_ms: float, per_second: float) -> Figures:
        """Return what all mails used as the figures of one."""
        cpu_ms = used.cpu_seconds * 1000 / self.mails
        return Figures(cpu_ms, used.transactions / self.mails, wall_ms, per_second)
