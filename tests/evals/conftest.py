"""The small suite, played by each scripted model: once for a test process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mailagent.evals.episode import Agent
from mailagent.evals.pool import Pool, pool
from mailagent.evals.record import Record
from mailagent.evals.scripted import SCRIPTS
from mailagent.evals.task import Task, read_file

MEASURE = Path(__file__).with_name("measure.toml")
# Each plays every task once; `every_second` plays one task four times.
ONCE = sorted(set(SCRIPTS) - {"every_second"})
Played = Mapping[str, list[tuple[Task, int, Record]]]


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with pool(2, tmp_path_factory.mktemp("evals") / "worlds.log") as opened:
        yield opened


@pytest.fixture(scope="session")
def played(worlds: Pool) -> Played:
    """What is on record after each sample, by the script that played the agent."""
    tasks = list(read_file(MEASURE))
    plan = [(script, task, 1) for script in ONCE for task in tasks]
    plan += [("every_second", tasks[0], trial) for trial in (1, 2, 3, 4)]

    def play(script: str, task: Task, trial: int) -> Record:
        return worlds.play(task, Agent(f"scripted:{script}", {}), trial)

    with ThreadPoolExecutor(2) as threads:
        records = threads.map(lambda each: play(*each), plan)
        found: dict[str, list[tuple[Task, int, Record]]] = {}
        for (script, task, trial), record in zip(plan, records, strict=True):
            found.setdefault(script, []).append((task, trial, record))
    return found
