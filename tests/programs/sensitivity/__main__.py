"""Worsen the agent in twenty ways, and change it in five that are no worse: does the gate tell them apart?

Each change is played on some of the tasks that it is about and some others, and compared with the perfect agent
on the same tasks, as `python -m mailagent.evals compare` does. Exits with 1 if a verdict is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mailagent.evals.episode import Agent
from mailagent.evals.figures import Result, compare_suites
from mailagent.evals.pool import Pool, pool
from mailagent.evals.score import Sample, score
from mailagent.evals.scripted import perfect
from mailagent.evals.task import SHOP, Task, load_tasks
from tests.programs import proof
from tests.programs.sensitivity.worse import CHANGES, Change

OTHERS = 4
PRICES = {"OPENAI_PRICES": "0.75,0.075,4.50"}


class Trials:
    """Plays changes. The perfect agent plays each task once."""

    def __init__(
        self, worlds: Pool, folder: Path, most: int, jobs: int, others: int = OTHERS
    ) -> None:
        self._worlds, self._folder, self._most, self._jobs = worlds, folder, most, jobs
        self._others = others
        self._tasks = load_tasks()
        self._perfect: dict[str, Result] = {}

    def try_change(self, change: Change) -> dict[str, object]:
        """Return the verdict of the gate on a change."""
        tasks = self._choose(change)
        untried = [task for task in tasks if task.id not in self._perfect]
        played = self._play(untried, Agent("scripted:perfect", PRICES))
        self._perfect |= {result.task_id: result for result in played}
        before = [self._perfect[task.id] for task in tasks]
        compared = compare_suites(before, self._play(tasks, self._agent(change)))
        found = (each.name for changes in compared.values() for each in changes if each.is_worse)
        worse = list(dict.fromkeys(found))
        return {
            "change": change.name,
            "tasks": len(tasks),
            "is_worse": change.is_worse,
            "noticed_by": worse,
            "outcome": "right" if bool(worse) == change.is_worse else "wrong",
        }

    def _choose(self, change: Change) -> list[Task]:
        about = [task for task in self._tasks if change.about(task)]
        step = max(1, len(about) // self._most)
        chosen = about[::step][: self._most]
        rest = [task for task in self._tasks if task not in about]
        return [*chosen, *rest[:: max(1, len(rest) // self._others)][: self._others]]

    def _agent(self, change: Change) -> Agent:
        script = change.script
        name = "perfect" if script is perfect else f"{script.__module__}:{script.__name__}"
        policy = (SHOP / "policy.toml").read_text("utf-8")
        for old, new in change.policy:
            assert old in policy, f"{change.name}: the policy has no {old!r}"
            policy = policy.replace(old, new)
        file = self._folder / f"policy-{CHANGES.index(change)}.toml"
        file.write_text(policy, "utf-8")
        return Agent(f"scripted:{name}", {**PRICES, "REFUND_POLICY": str(file)})

    def _play(self, tasks: Sequence[Task], agent: Agent) -> list[Result]:
        def play(task: Task) -> Result:
            record = self._worlds.play(task, agent)
            scores = score(Sample(task, record, task.state or ()))
            return Result(task.id, task.suite, 1, scores)

        with ThreadPoolExecutor(self._jobs) as threads:
            return list(threads.map(play, tasks))


def main() -> int:
    """Try the changes."""
    parser = argparse.ArgumentParser("python -m tests.programs.sensitivity", description=__doc__)
    parser.add_argument("--only", default="", help="only changes whose name contains this")
    parser.add_argument("--most", type=int, default=8, help="tasks that a change is about")
    parser.add_argument("--jobs", type=int, default=2, help="samples at the same time")
    proof.add_results(parser)
    options = parser.parse_args()
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        pool(options.jobs, Path(folder) / "log") as worlds,
    ):
        trials = Trials(worlds, Path(folder), options.most, options.jobs)
        for change in CHANGES:
            if options.only in change.name:
                rows.append(trials.try_change(change))
                print(
                    f"{rows[-1]['outcome']:6} {change.name}: {rows[-1]['noticed_by']}", flush=True
                )
    proof.write_results(options.json, rows)
    print(proof.count_outcomes(rows))
    return 0 if {row["outcome"] for row in rows} == {"right"} else 1


def table(rows: proof.Rows) -> str:
    """Return a row for each change."""
    lines = ["| change | tasks | noticed by |", "|---|---|---|"]
    for row in rows:
        wrong = "" if row["outcome"] == "right" else " **wrong**"
        said = ", ".join(f"`{name}`" for name in row["noticed_by"]) or "–"
        lines.append(f"| {row['change']} | {row['tasks']} | {said}{wrong} |")
    return "\n".join([*lines, "", f"Verdicts: {proof.count_outcomes(rows)}."])


if __name__ == "__main__":
    sys.exit(main())
