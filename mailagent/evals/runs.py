"""A run (not a workflow's): plays and scores every sample, and writes each result to a file as it ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mailagent.evals.customer import Ask
from mailagent.evals.episode import Agent
from mailagent.evals.figures import Result
from mailagent.evals.players import Player
from mailagent.evals.pool import Pool
from mailagent.evals.record import Record
from mailagent.evals.score import Sample, score
from mailagent.evals.task import Task, TaskProblem
from mailagent.workflows.tools import registry

RESULTS = "results.jsonl"


@dataclass
class Run:
    """`max_cost_usd`: no sample begins once this is spent. `tell` hears of each sample that ended.
    `halted_by`: what an operator must put right before any sample can be played. `refused`: the tasks whose
    own calls do not lead to a state, which nothing can be compared with."""

    pool: Pool
    agent: Agent
    folder: Path
    max_cost_usd: float | None = None
    ask: Ask | None = None
    tell: Callable[[Result, Record], None] = lambda _result, _record: None
    spent_usd: float = 0.0
    skipped: int = 0
    halted_by: str = ""
    refused: set[str] = field(default_factory=set)
    _dearest_usd: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _expected: dict[str, tuple[str, ...] | None] = field(default_factory=dict)

    def play_all(self, tasks: Sequence[Task], times: int, threads: int) -> list[Result]:
        """Play each task so many times. Returns the results of those that were played."""
        plan = [(task, trial) for trial in range(1, times + 1) for task in tasks]
        with ThreadPoolExecutor(threads) as workers:
            done = workers.map(lambda each: self.play(*each), plan)
            return [result for result in done if result is not None]

    def play(
        self,
        task: Task,
        trial: int,
        ask: Ask | None = None,
        note: Callable[[Record], None] = lambda _record: None,
    ) -> Result | None:
        """Play and score one sample; None if the run is at its end, or the task has no
        state to compare with. `note` gets what is on record."""
        with self._lock:
            if self.halted_by or self._is_spent():
                self.skipped += 1
                return None
        try:
            expected = self.expected_of(task)
        except TaskProblem:
            with self._lock:
                self.refused.add(task.id)
            return None
        record = self.pool.play(task, self.agent, trial, ask or self.ask)
        note(record)
        result = Result(task.id, task.suite, trial, score(Sample(task, record, expected)))
        with self._lock:
            if record.ends_run:
                self.halted_by = record.error
            self._count_cost(result)
            self._write(result, record, expected)
        self.tell(result, record)
        return result

    def _count_cost(self, result: Result) -> None:
        """Add the cost of a sample. One that broke has no rows with its cost, so it counts as much as the
        dearest so far."""
        cost = result.scores["cost_usd"]
        self._dearest_usd = max(cost, self._dearest_usd)
        self.spent_usd += cost if cost or not result.scores["broken"] else self._dearest_usd

    def _is_spent(self) -> bool:
        others = self.ask.spent_usd if isinstance(self.ask, Player) else 0.0
        return self.max_cost_usd is not None and self.spent_usd + others >= self.max_cost_usd

    def expected_of(self, task: Task) -> tuple[str, ...]:
        """Return the state that must be: what the task says, or what its calls lead to
        by the app's own steps. Raises TaskProblem if they lead nowhere: then doing nothing would solve it."""
        if task.state is not None:
            return task.state
        if task.id not in self._expected:
            record, changing = replay(self.pool, task), registry.changing()
            acts = [act for turn in task.turns for act in turn.acts if act.tool in changing]
            self._expected[task.id] = (
                None if record.error or (acts and not record.state) else record.state
            )
        expected = self._expected[task.id]
        if expected is None:
            raise TaskProblem(f"{task.id}: its calls lead to no state")
        return expected

    def _write(self, result: Result, record: Record, expected: Sequence[str]) -> None:
        line = {
            "task_id": result.task_id,
            "suite": result.suite,
            "trial": result.trial,
            "model": self.agent.model,
            "scores": dict(result.scores),
            "expected": list(expected),
            "record": record.plain(),
        }
        with (self.folder / RESULTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def replay(pool: Pool, task: Task) -> Record:
    """Make the task's calls through the app's own tools and workflows, and return the record."""
    return pool.play(task, Agent("scripted:perfect", {}))


def read_results(path: Path) -> list[Result]:
    """Return the results of a run: of its folder, or of the file in it."""
    return [
        Result(line["task_id"], line["suite"], line["trial"], line["scores"])
        for line in read_lines(path)
    ]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    file = path / RESULTS if path.is_dir() else path
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
