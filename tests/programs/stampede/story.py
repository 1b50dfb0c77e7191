"""The story: many write while the model is away, it is tried now and then, it comes back, all are answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mailagent import services
from mailagent.domain.mail.conversation import Limits
from mailagent.engine import CONVERSATION
from mailagent.workflows.steps.maintenance import sweep
from tests.harness import Harness, open_shop, running, wait_until
from tests.programs.stampede.provider import AbsentOpenAI
from tests.workflows.trouble import table_of_runs

QUESTION = "Which orders of mine do you have? I forgot the number."
# Far above any flood: what is tried here is not how floods are throttled.
NO_LIMITS = Limits(mails_per_hour=10**6)


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
    wait_until(lambda: _ring_until(shop, shop.at_rest), patience, "all to be answered")
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


def _ring_until(shop: Harness, is_over: Callable[[], bool]) -> bool:
    if not at_work(shop):
        sweep.enqueue_mail()
    return is_over()
