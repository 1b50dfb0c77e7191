"""Plays samples in processes of their own, several at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from mailagent.app import ROOT
from mailagent.evals.customer import Ask
from mailagent.evals.episode import Agent
from mailagent.evals.record import Record, read_plain
from mailagent.evals.task import Task


class Pool:
    """Processes that play samples. Threads may share it: each waits for a free process."""

    def __init__(self, size: int, log: Path) -> None:
        self._log = log
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._all = [self._start() for _ in range(size)]
        for process in self._all:
            self._free.put(process)

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "mailagent.evals.worker"],
                cwd=ROOT,
                env={**os.environ, "FLASK_SKIP_DOTENV": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def play(self, task: Task, agent: Agent, trial: int = 1, ask: Ask | None = None) -> Record:
        """Play a sample in a free process and return its record. After a failure, the record has the error."""
        process = self._free.get()
        try:
            return self._drive(process, _job(task, agent, trial, ask is not None), ask)
        except Exception as problem:  # noqa: BLE001 - its process, or the model that plays the customer
            # The process may wait for an answer, so it can play no other sample.
            process.kill()
            self._all.append(process := self._start())
            return Record(error=f"the sample broke: {type(problem).__name__}: {problem}"[:500])
        finally:
            self._free.put(process)

    def _drive(
        self, process: subprocess.Popen[str], job: dict[str, Any], ask: Ask | None
    ) -> Record:
        said = _exchange(process, job)
        while "record" not in said:
            text = ask(said["ask"], said["messages"]) if ask else ""
            said = _exchange(process, {"text": text})
        return read_plain(said["record"])

    def close(self) -> None:
        for process in self._all:
            if process.stdin:
                process.stdin.close()
        for process in self._all:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _job(task: Task, agent: Agent, trial: int, has_customer: bool) -> dict[str, Any]:
    return {
        "task": _plain(task),
        "agent": {**asdict(agent), "settings": dict(agent.settings)},
        "trial": trial,
        "has_customer": has_customer,
    }


def _plain(task: Task) -> dict[str, Any]:
    plain = task.model_dump(mode="json")
    for turn in plain["turns"]:
        for name in ("acts", "lure"):
            turn[name] = [{"tool": act["tool"], **act["arguments"]} for act in turn[name]]
    return plain


def _exchange(process: subprocess.Popen[str], said: dict[str, Any]) -> dict[str, Any]:
    """Write a line and read the next. Raises ValueError if the process has ended."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the process has no pipes")
    print(json.dumps(said), file=process.stdin, flush=True)
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


@contextmanager
def pool(size: int, log: Path) -> Iterator[Pool]:
    """Run so many processes; what they log goes into a file."""
    opened = Pool(size, log)
    try:
        yield opened
    finally:
        opened.close()
