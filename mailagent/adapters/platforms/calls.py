"""Calls of a shop platform's API. This module never retries; the workflow does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mailagent.adapters.http import retry_after_seconds
from mailagent.adapters.order_sources.json_client import (
    DEADLINE_SECONDS,
    MOST_BYTES,
    Answer,
    JsonClient,
)
from mailagent.domain.orders.source import OutOfTime, SourceProblem
from mailagent.domain.refunds.payment import NotDone, OutcomeUnknown

# For refunds, which the platform answers only after its payment provider has. A look-up has less time.
REFUND_SECONDS = 45.0
OPERATOR_SECONDS = 600.0

_ERRORS = range(400, 600)
_OUR_KEY = frozenset({401, 403, 407})


class CallProblem(Exception):
    """The platform gave no usable answer. `not_done`: the request certainly had no effect. `operator`: the
    platform refuses our key, or our URL is wrong. `answered`: the platform works, but refuses this request or
    fails on it."""

    def __init__(
        self,
        why: str,
        retry_after_seconds: float = 0.0,
        *,
        not_done: bool = False,
        operator: bool = False,
        answered: bool = False,
    ) -> None:
        super().__init__(why)
        self.retry_after_seconds = retry_after_seconds
        self.not_done, self.operator, self.answered = not_done, operator, answered

    def as_source_problem(self) -> SourceProblem:
        """Return the same problem for a request about an order."""
        return SourceProblem(
            str(self), self.retry_after_seconds, operator=self.operator, not_done=self.not_done
        )

    def as_outcome(self) -> NotDone | OutcomeUnknown:
        """Return what the problem means for a refund that we asked for."""
        if self.not_done:
            wait = OPERATOR_SECONDS if self.operator else self.retry_after_seconds
            people = self.answered and not self.operator
            return NotDone(str(self), wait, operator=self.operator, for_people=people)
        return OutcomeUnknown(str(self), operator=self.operator, answered=self.answered)


class Caller:
    """Calls one platform. Threads may share it."""

    def __init__(
        self,
        title: str,
        url: str,
        headers: Mapping[str, str],
        deadline_seconds: float = DEADLINE_SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.title = title
        self._client = JsonClient(title, url, headers, deadline_seconds, most_bytes)

    def send(self, method: str, path: str, **content: Any) -> Answer:
        """Send one request and return its JSON answer, also if that is a refusal. Raises CallProblem; and
        OutOfTime, for look-ups only, which have a time limit."""
        try:
            return self._client.ask(method, path, accept=_ERRORS, **content)
        except OutOfTime:
            raise
        except SourceProblem as problem:
            raise CallProblem(
                str(problem),
                problem.retry_after_seconds,
                not_done=problem.not_done,
                operator=problem.operator,
            ) from problem

    def refusal(self, answer: Answer, why: str = "") -> CallProblem:
        """Return the problem for an answer that refuses, by its status. `why`: the answer's own reason."""
        status, wait = answer.status, retry_after_seconds(answer.headers)
        words = f"{self.title} answered {status} {why}".strip()[:300]
        if status in _OUR_KEY:
            return CallProblem(f"{words}: check our token", not_done=True, operator=True)
        if status == 429:
            return CallProblem(words, 1.0 if wait is None else wait, not_done=True)
        if 400 <= status < 500 and why:
            return CallProblem(words, not_done=True, answered=True)
        return CallProblem(words, wait or 0.0)
