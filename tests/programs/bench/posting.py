"""Posts requests as fast as they are taken, from a process of its own with several threads.

`python -m tests.programs.bench.posting` reads the job on standard input; `post_all` is how its parent asks.
"""

from __future__ import annotations

import base64
import http.client
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from tests.processes import ProcessFailed, run_script

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
    latencies_ms: tuple[float, ...]

    @property
    def per_second(self) -> float:
        return len(self.latencies_ms) / (self.ended_at - self.began_at)


def post_all(url: str, posts: Sequence[Post]) -> Posted:
    """Post everything once. Raises ProcessFailed when any answer is not 200."""
    requests = [
        {"body": base64.b64encode(post.body).decode(), "headers": post.headers} for post in posts
    ]
    done = run_script("tests.programs.bench.posting", {"url": url, "posts": requests})
    return Posted(done["began_at"], done["ended_at"], tuple(done["latencies_ms"]))


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


def _run(job: Mapping[str, Any]) -> dict[str, Any]:
    posts = [Post(base64.b64decode(post["body"]), post["headers"]) for post in job["posts"]]

    def work(number: int) -> list[float]:
        poster = Poster(job["url"])
        return [poster.post(post) for post in posts[number::THREADS]]

    began_at = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        latencies = list(chain.from_iterable(pool.map(work, range(THREADS))))
    return {"began_at": began_at, "ended_at": time.monotonic(), "latencies_ms": latencies}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_run(json.load(sys.stdin))) + "\n")
