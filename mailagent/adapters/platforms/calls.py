"""Calls of a shop platform's API. This module never retries; the workflow does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mailagent.adapters.http import retry_after_seconds
from mailagent.adapters.order_sources.json_client import DEADLINE_SECONDS, Answer, JsonClient
from mailagent.domain.orders.source import SourceProblem
from mailagent.domain.refunds.payment import NotDone, OutcomeUnknown

# For refunds, which the platform answers only after its payment provider has. A look-up has less time.
REFUND_SECONDS = 45.0
OPERATOR_SECONDS = 600.0

_ERRORS = range(400, 600)
_OUR_KEY = frozenset({401, 403, 407})


def outcome_of(problem: SourceProblem) -> NotDone | OutcomeUnknown:
    """Return what the problem means for a refund that we asked for."""
    if problem.not_done:
        wait = OPERATOR_SECONDS if problem.operator else problem.retry_after_seconds
        people = problem.answered and not problem.operator
        return NotDone(str(problem), wait, operator=problem.operator, for_people=people)
    return OutcomeUnknown(str(problem), operator=problem.operator, answered=problem.answered)


class Caller:
    """Calls one platform. Threads may share it."""

    def __init__(
        self,
        title: str,
        url: str,
        headers: Mapping[str, str],
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self.title = title
        self._client = JsonClient(title, url, headers, deadline_seconds)

    def send(self, method: str, path: str, **content: Any) -> Answer:
        """Send one request and return its JSON answer, also if that is a refusal. Raises SourceProblem."""
        return self._client.ask(method, path, accept=_ERRORS, **content)

    def refusal(self, answer: Answer, why: str = "") -> SourceProblem:
        """Return the problem for an answer that refuses, by its status. `why`: the answer's own reason."""
        status, wait = answer.status, retry_after_seconds(answer.headers)
        words = f"{self.title} answered {status} {why}".strip()[:300]
        if status in _OUR_KEY:
            return SourceProblem(f"{words}: check our token", not_done=True, operator=True)
        if status == 429:
            return SourceProblem(words, 1.0 if wait is None else wait, not_done=True)
        if 400 <= status < 500 and why:
            return SourceProblem(words, not_done=True, answered=True)
        return SourceProblem(words, wait or 0.0)
