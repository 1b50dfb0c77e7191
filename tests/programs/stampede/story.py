"""The story: many write while the model is away, it is tried now and then, it comes back, all are answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mailagent import services
from mailagent.demo.fakes.http_server import Answer, Request
from mailagent.demo.fakes.openai import OpenAIServer
from mailagent.domain.mail.conversation import Limits
from mailagent.domain.operations.circuit_breaker import FAILURES_TO_OPEN
from mailagent.engine import CONVERSATION
from mailagent.workflows.steps.maintenance import sweep
from tests.harness import Harness, open_shop, running, wait_until
from tests.workflows.trouble import table_of_runs

QUESTION = "Which orders of mine do you have? I forgot the number."
# Far above any flood: what is tried here is not how floods are throttled.
NO_LIMITS = Limits(mails_per_hour=10**6)


class AbsentOpenAI(OpenAIServer):
    """The scripted model. `says`: what it answers instead while it is away; `asked`: how often it was
    asked; `most_at_once`: by how many at the same moment."""

    def __init__(self, latency_seconds: float = 0.0) -> None:
        self.says: Answer | None = None
        self.asked = 0
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        super().__init__(latency_seconds)

    def goes_away(self, status: int = 503, code: str = "server_is_overloaded") -> None:
        error = {"message": code, "type": "error", "param": None, "code": code}
        self.says = Answer(status, {"error": error})

    def comes_back(self) -> None:
        self.says = None

    def _create(self, request: Request) -> Answer:
        with self._lock:
            self.asked += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return self.says or super()._create(request)
        finally:
            with self._lock:
                self._at_once -= 1


@dataclass
class Clock:
    """The app's clock, which can be put forward."""

    ahead: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def put_forward(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Figures:
    """What came of it. `while_away`: calls of the model until it was back, `probes` of them meant to try
    it; `most_at_once`: calls at the same moment after that."""

    mails: int
    while_away: int
    probes: int
    answered: int
    twice: int
    most_at_once: int
    seconds: float


@contextmanager
def open_busy_shop(
    folder: Path,
    database_url: str,
    openai: AbsentOpenAI,
    concurrency: int,
    more: Mapping[str, str] | None = None,
) -> Iterator[tuple[Harness, Clock]]:
    """Run a shop that asks `openai`, by a clock that can be put forward; `more` settings are its own."""
    settings = {
        **(more or {}),
        "OPENAI_BASE_URL": f"{openai.url}/v1",
        "CONVERSATION_CONCURRENCY": str(concurrency),
    }
    clock = Clock()
    with open_shop(folder, database_url, settings) as shop:
        services.bind(replace(shop.live, now=clock.now, limits=NO_LIMITS))
        with running(shop):
            yield shop, clock


def address(number: int) -> str:
    return f"customer{number}@example.com"


def play(shop: Harness, clock: Clock, openai: AbsentOpenAI, mails: int, probes: int) -> Figures:
    """Play the story. Raises AssertionError when something does not come."""
    begun = time.monotonic()
    openai.goes_away()
    for number in range(mails):
        shop.write(QUESTION, from_address=address(number))
    patience = 60 + mails / 5
    wait_until(lambda: is_put_off(shop, mails), patience, "all mail to be put off")
    for _ in range(probes):
        _try(shop, clock, openai)
    while_away = openai.asked
    openai.comes_back()
    openai.most_at_once = 0
    _try(shop, clock, openai)
    wait_until(lambda: _is_at_rest(shop), patience, "all to be answered")
    counts = [len(shop.mails_to(address(number))) for number in range(mails)]
    return Figures(
        mails=mails,
        while_away=while_away,
        probes=probes,
        answered=sum(1 for count in counts if count),
        twice=sum(1 for count in counts if count > 1),
        most_at_once=openai.most_at_once,
        seconds=time.monotonic() - begun,
    )


def is_put_off(shop: Harness, mails: int) -> bool:
    """Whether so many mails wait, and no run holds any of them."""
    (waiting,) = shop.rows("SELECT count(*) AS mails FROM inbound_mails WHERE put_off > 0")
    return waiting.mails >= mails and not at_work(shop)


def at_work(shop: Harness) -> bool:
    """Whether any conversation has a run that has yet to end."""
    active = "status IN ('ENQUEUED', 'PENDING', 'DELAYED')"
    query = f"SELECT 1 FROM {table_of_runs(shop)} WHERE name = :name AND {active} LIMIT 1"
    return bool(shop.rows(query, name=CONVERSATION))


def _try(shop: Harness, clock: Clock, openai: AbsentOpenAI) -> None:
    """Let the longest pause pass; one mail is the probe, whoever wakes for it: this or the real sweep."""
    before = openai.asked
    clock.put_forward(61)
    sweep.enqueue_mail()
    wait_until(lambda: openai.asked > before and not at_work(shop), 60, "the model to be tried")


def _is_at_rest(shop: Harness) -> bool:
    """Whether all is answered; lets the sweep enqueue again what has no run."""
    if not at_work(shop):
        sweep.enqueue_mail()
    return shop.at_rest()


def is_calm(figures: Figures, concurrency: int) -> bool:
    """Whether the model was spared while it was away, and nobody was forgotten or written to twice."""
    most = FAILURES_TO_OPEN + concurrency + figures.probes
    return (
        figures.while_away <= most
        and figures.most_at_once <= concurrency
        and (figures.answered, figures.twice) == (figures.mails, 0)
    )
