"""Answers of providers that fail."""

from __future__ import annotations

import time
from collections.abc import Callable

from mailagent.demo.fakes.http_server import Answer, LineCut

Accept = Callable[[], Answer]
QUESTION = "Which orders of mine do you have? I forgot the number."


def lost_before(_accept: Accept) -> Answer:
    raise LineCut


def lost_after(accept: Accept) -> Answer:
    accept()
    raise LineCut


def limited(_accept: Accept) -> Answer:
    return Answer(429, None, {"X-RateLimit-Reset": str(int(time.time()) + 1)})


def no_key(_accept: Accept) -> Answer:
    return Answer(401, {"errors": [{"message": "revoked", "field": None, "help": None}]})


def model_says(
    status: int, code: str, headers: dict[str, str] | None = None
) -> Callable[[], Answer]:
    error = {"error": {"message": code, "type": "error", "param": None, "code": code}}
    return lambda: Answer(status, error, headers or {})
