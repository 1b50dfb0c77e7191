"""A process that plays one sample at a time: `python -m mailagent.evals.worker`, driven by `pool`.

It reads jobs from standard input and writes to standard output, a JSON object a line. Where a model plays the
customer, it asks the process that drives it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from mailagent.evals import episode
from mailagent.evals.customer import Message
from mailagent.evals.episode import Agent
from mailagent.evals.record import Record
from mailagent.evals.task import Task
from mailagent.evals.world import make_template


class _Line:
    """The connection to the process that drives this one."""

    def __init__(self, written: TextIO) -> None:
        self._written = written

    def tell(self, what: Mapping[str, Any]) -> None:
        print(json.dumps(what), file=self._written, flush=True)

    def ask(self, role: str, messages: list[Message]) -> str:
        self.tell({"ask": role, "messages": messages})
        return str(json.loads(sys.stdin.readline())["text"])


def main() -> None:
    # Logs and prints of the app go elsewhere: standard output is the connection.
    line = _Line(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="mailagent-evals-") as folder:
        template = make_template(Path(folder))
        while job := sys.stdin.readline():
            line.tell({"record": _play(json.loads(job), template, line).plain()})


def _play(job: Mapping[str, Any], template: Path, line: _Line) -> Record:
    task, agent = Task.model_validate(job["task"]), Agent(**job["agent"])
    try:
        return episode.run(
            task, agent, template, job["trial"], line.ask if job["has_customer"] else None
        )
    except Exception as problem:  # noqa: BLE001 - one sample that breaks is one sample that failed
        return Record(error=f"{type(problem).__name__}: {problem}"[:500])


if __name__ == "__main__":
    main()
