"""SendGrid and managers, from a process of its own with several threads: posts mail as fast as it is taken, and
follows mailed links and presses approve."""

from __future__ import annotations

import http.client
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from urllib.parse import urlsplit

import httpx2

from mailagent.demo.story import find_csrf_token
from tests.processes import ProcessFailed, in_a_process

THREADS = 8


@dataclass(frozen=True, slots=True)
class Post:
    """A request as SendGrid would send it."""

    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Posted:
    """When the first request began and the last was answered (monotonic), and how long each took."""

    began_at: float
    ended_at: float
    latencies_ms: list[float]

    @property
    def per_second(self) -> float:
        return len(self.latencies_ms) / (self.ended_at - self.began_at)


class Poster:
    """One connection that is kept open."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._path = target.path
        self._connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)

    def post(self, post: Post) -> float:
        """Post one request and return how long the answer took, in ms. Raises ProcessFailed."""
        began = time.perf_counter()
        self._connection.request("POST", self._path, post.body, post.headers)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise ProcessFailed(f"the webhook answered {answer.status}: {said[:200]!r}")
        return (time.perf_counter() - began) * 1000


def post_all(url: str, posts: Sequence[Post]) -> Posted:
    """Post everything once. Raises ProcessFailed when any answer is not 200."""
    return in_a_process(_post_all, url, posts)


def _post_all(url: str, posts: Sequence[Post]) -> Posted:
    def work(number: int) -> list[float]:
        poster = Poster(url)
        return [poster.post(post) for post in posts[number::THREADS]]

    began_at = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        latencies = list(chain.from_iterable(pool.map(work, range(THREADS))))
    return Posted(began_at, time.monotonic(), latencies)


def approve_all(webhook: str, links: Sequence[str]) -> None:
    """Approve each once. Raises ProcessFailed when the app does not take a decision."""
    in_a_process(_approve_all, webhook, links)


def _approve_all(webhook: str, links: Sequence[str]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(partial(approve, webhook), links))


def approve(webhook: str, link: str) -> float:
    """Approve one; return when the button was pressed (monotonic). Mails have the app's public address."""
    served = urlsplit(webhook)
    link = urlsplit(link)._replace(scheme=served.scheme, netloc=served.netloc).geturl()
    with httpx2.Client(timeout=10, follow_redirects=True, trust_env=False) as browser:
        token = find_csrf_token(browser.get(link).text)
        if token is None:
            raise ProcessFailed("an approval's page has no form")
        pressed_at = time.monotonic()
        answer = browser.post(link, data={"decision": "approve", "csrf_token": token})
    if answer.status_code != 200:
        raise ProcessFailed(f"a decision was not taken: {answer.status_code}")
    return pressed_at
