"""Plays a run by Inspect AI, with its epochs, reducers, roles and log. The samples and scores are the same."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from typing import Any

from inspect_ai import Epochs, eval
from inspect_ai import Task as InspectTask
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    get_model,
)
from inspect_ai.scorer import Score, mean, scorer, stderr
from inspect_ai.solver import Generate, TaskState, solver

from mailagent.evals.customer import Ask, Message, role_of
from mailagent.evals.figures import Result
from mailagent.evals.players import LONGEST_MAIL_TOKENS, named_roles
from mailagent.evals.record import Record
from mailagent.evals.runs import Run
from mailagent.evals.score import SCORES
from mailagent.evals.task import Task

_METRICS = {name: [mean(), stderr()] for name in SCORES}
_MESSAGES = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def play_all(running: Run, tasks: Sequence[Task], times: int, threads: int) -> list[Result]:
    """Play each task so many times; return the results. Inspect's log goes beside the results file."""
    results: list[Result] = []
    known = {task.id: task for task in tasks}
    dataset = [Sample(id=task.id, input=task.turns[0].mail, target="") for task in tasks]
    reducers = ["mean", *(f"pass_k_{k}" for k in range(2, times + 1))]
    measured = InspectTask(
        name=f"mailagent-{running.agent.model}",
        dataset=dataset,
        solver=_play(running, known, results),
        scorer=_read(),
        epochs=Epochs(times, reducers),
    )
    eval(
        measured,
        model=None,
        model_roles=named_roles(os.environ),
        log_dir=str(running.folder),
        max_samples=threads,
        display="none" if os.environ.get("CI") else "plain",
        fail_on_error=False,
    )
    places = {task.id: place for place, task in enumerate(tasks)}
    return sorted(results, key=lambda each: (each.trial, places[each.task_id]))


@solver  # type: ignore[untyped-decorator]  # Inspect AI need not be installed
def _play(running: Run, known: dict[str, Task], results: list[Result]) -> Any:
    async def solve(state: TaskState, _generate: Generate) -> TaskState:
        task = known[str(state.sample_id)]
        found: list[Record] = []
        ask: Ask | None = None
        if role_of(task) in named_roles(os.environ):
            ask = _ask_of(asyncio.get_running_loop())
        result = await asyncio.to_thread(running.play, task, state.epoch, ask, found.append)
        if result is None:
            state.completed = True
            return state
        results.append(result)
        state.metadata.update(scores=dict(result.scores), record=found[0].plain())
        state.messages = [ChatMessageUser(content=text) for text in found[0].letters]
        state.messages += [ChatMessageAssistant(content=mail.text) for mail in found[0].mails]
        state.output.completion = "\n".join(found[0].state) or "nothing changed"
        return state

    return solve


def _ask_of(loop: asyncio.AbstractEventLoop) -> Ask:
    """Return who asks a role's model from the thread that plays the sample."""

    def ask(role: str, messages: list[Message]) -> str:
        told = [_MESSAGES[each["role"]](content=each["content"]) for each in messages]
        config = GenerateConfig(max_tokens=LONGEST_MAIL_TOKENS)
        asked = get_model(role=role).generate(told, config=config)
        return str(asyncio.run_coroutine_threadsafe(asked, loop).result().completion)

    return ask


@scorer(metrics=_METRICS)  # type: ignore[untyped-decorator]
def _read() -> Any:
    async def read(state: TaskState, _target: object) -> Score:
        if "scores" not in state.metadata:
            # Inspect AI's word for a sample without a score.
            return Score(value=math.nan, explanation="was not played")
        return Score(value=state.metadata["scores"], explanation=state.output.completion)

    return read
