"""What a loaded shop gets: a steady stream of all three flows, managers who decide on two of three refunds,
and a model that is away for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from mailagent.demo.fakes.http_server import Answer, Request
from tests.programs.bench.clients import Post, Poster, approve
from tests.programs.bench.flows import APPROVED, QUESTION, REFUND, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.model_server import ModelServer

MIX = (QUESTION, REFUND, QUESTION, APPROVED, QUESTION, REFUND, QUESTION)
AWAY_FROM, AWAY_UNTIL = 0.4, 0.5  # of the run
LEFT_WAITING = 3  # every third refund that a manager was asked about
_ROUNDS_AT_ONCE = 4
_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent. `began`, `ended` and `away` (from and until) are seconds since 1970."""

    mails: int
    decided: int
    began: float
    ended: float
    away: tuple[float, float]


class MoodyModel(ModelServer):
    """The benchmarks' model, which tells that half of its input came from its cache. While `away` it answers
    503 and 429 by turns, and counts how often."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.refused = 0

    async def _answer(self, request: Request) -> Answer:
        if not self.away:
            answer = await super()._answer(request)
            _tell_of_cache(answer)
            return answer
        self.refused += 1
        status = 503 if self.refused % 2 else 429
        return Answer(status, {"error": {"message": "away", "type": "server_error"}})


def _tell_of_cache(answer: Answer) -> None:
    if isinstance(answer.value, dict) and "usage" in answer.value:
        usage = answer.value["usage"]
        usage["input_tokens_details"] = {"cached_tokens": usage["input_tokens"] // 2}


def send(
    ground: Ground, url: str, webhook: str, model: MoodyModel, minutes: float, per_second: float
) -> Sent:
    """Load the shop for so long. Raises ProcessFailed when a mail or a decision is not taken."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        decided = pool.submit(_decide, ground, webhook, over)
        try:
            return _stream(ground, url, webhook, model, (minutes * 60, per_second), over, decided)
        finally:
            over.set()
            model.away = False


def _stream(
    ground: Ground,
    url: str,
    webhook: str,
    model: MoodyModel,
    length_and_rate: tuple[float, float],
    over: threading.Event,
    decided: Future[int],
) -> Sent:
    seconds, per_second = length_and_rate
    poster, posts, mails = Poster(webhook), _posts(ground, url), 0
    began, away = time.time(), (seconds * AWAY_FROM, seconds * AWAY_UNTIL)
    while (passed := time.time() - began) < seconds:
        model.away = away[0] <= passed < away[1]
        poster.post(next(posts))
        mails += 1
        time.sleep(max(began + mails / per_second - time.time(), 0))
    ended = time.time()
    over.set()
    return Sent(mails, decided.result(), began, ended, (began + away[0], began + away[1]))


def _posts(ground: Ground, url: str) -> Iterator[Post]:
    """Yield mails without end, each about a new order."""
    while True:
        flows = {
            flow.name: iter(prepare(flow, MIX.count(flow) * _ROUNDS_AT_ONCE, url, ground.key))
            for flow in (QUESTION, REFUND, APPROVED)
        }
        for flow in MIX * _ROUNDS_AT_ONCE:
            yield next(flows[flow.name])


def _decide(ground: Ground, webhook: str, over: threading.Event) -> int:
    """Approve what managers are asked, and leave some, until the load is over; return how many."""
    seen = decided = 0
    while not over.wait(_LOOK_SECONDS):
        links = ground.providers.list_links(0)
        for number, link in enumerate(links[seen:], seen + 1):
            if number % LEFT_WAITING:
                approve(webhook, link)
                decided += 1
        seen = len(links)
    return decided
