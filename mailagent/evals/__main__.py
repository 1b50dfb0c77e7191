"""`python -m mailagent.evals run`, `compare` and `check`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from mailagent.adapters.openai.client import ChatModel
from mailagent.cli.installation.round_trip import ask_model
from mailagent.evals import tau2
from mailagent.evals.episode import Agent
from mailagent.evals.figures import Result, compare_suites, lacking, samples_needed
from mailagent.evals.players import find_player
from mailagent.evals.pool import pool
from mailagent.evals.record import Record
from mailagent.evals.runs import Run, read_results, replay
from mailagent.evals.scripted import PREFIX, SCRIPTS
from mailagent.evals.table import tell_comparison, tell_run
from mailagent.evals.task import NAMES, Task, TaskProblem, load_tasks

# What is passed on to the app that is measured; the rest of the environment is not the world's.
OF_THE_AGENT = ("OPENAI_", "REFUND_POLICY", "SHOP_KNOWLEDGE", "MAIL_TEMPLATES")
MODEL = "gpt-5.4-mini"

suites = click.option(
    "--suite", "names", multiple=True, help="A suite, or a file of tasks; all suites by default."
)
processes = click.option("--processes", default=2, show_default=True, help="Samples at a time.")


@click.group()
def main() -> None:
    """Measure the agent: play tasks on the real app, and score what is on record."""


@main.command()
@suites
@click.option("--model", help=f"A model, or {PREFIX} and one of {', '.join(SCRIPTS)}.")
@click.option(
    "--prompt", type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="A file to use instead of what `flask prompt show` prints.",
)  # fmt: skip
@click.option("--times", default=4, show_default=True, help="How often each task is played.")
@click.option("--max-cost", type=float, help="Begin no sample once so many USD are spent.")
@click.option("--customer", help="The model that plays customers and attackers; else scripts do.")
@click.option("--tau2", "tau2_file", type=Path, help="Play a tasks file in tau2's format, too.")
@click.option("--out", type=Path, help="The folder of the results.")
@click.option("--plain", is_flag=True, help="Without Inspect AI, even if it is installed.")
@processes
def run(  # noqa: PLR0913, PLR0917 - an argument for each option
    names: Sequence[str],
    model: str | None,
    prompt: str | None,
    times: int,
    max_cost: float | None,
    customer: str | None,
    tau2_file: Path | None,
    out: Path | None,
    plain: bool,
    processes: int,
) -> None:
    """Play the suites and print the table."""
    tasks = _load(names, tau2_file)
    agent = _agent(model or os.environ.get("OPENAI_MODEL") or MODEL, max_cost)
    if prompt:
        agent = replace(agent, settings={**agent.settings, "OPENAI_PROMPT": prompt})
    folder = out or Path("evals") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{_word(agent.model)}"
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise click.ClickException(f"{folder} exists; name another folder") from None
    ask = find_player(customer) if customer else None
    with pool(processes, folder / "worlds.log") as worlds:
        running = Run(worlds, agent, folder, max_cost, ask, _tell)
        results = _play(running, tasks, times, processes, plain)
    click.echo(f"\n{tell_run(results)}\n\n{folder}")
    if running.refused:
        refused = ", ".join(sorted(running.refused))
        click.echo(f"Not played, as the app does not do what they say should be done: {refused}")
    if running.halted_by:
        raise click.ClickException(
            f"{running.skipped} samples were not played: {running.halted_by}"
        )
    if running.skipped:
        click.echo(f"{running.skipped} samples were not played: {max_cost} USD are spent.")


def _play(
    running: Run, tasks: Sequence[Task], times: int, processes: int, plain: bool
) -> list[Result]:
    if plain or importlib.util.find_spec("inspect_ai") is None:
        return running.play_all(tasks, times, processes)
    from mailagent.evals.inspect_log import play_all

    return play_all(running, tasks, times, processes)


def _load(names: Sequence[str], tau2_file: Path | None = None) -> list[Task]:
    try:
        tasks = load_tasks(names or (() if tau2_file else NAMES))
        return [*tasks, *(tau2.read_file(tau2_file) if tau2_file else ())]
    except TaskProblem as problem:
        raise click.ClickException(str(problem)) from None


def _agent(model: str, max_cost: float | None) -> Agent:
    if model.startswith(PREFIX):
        if model.removeprefix(PREFIX) not in SCRIPTS:
            raise click.ClickException(f"{model} is no script; they are {', '.join(SCRIPTS)}")
        return Agent(model, {})
    settings = {name: os.environ[name] for name in os.environ if name.startswith(OF_THE_AGENT)}
    if not settings.get("OPENAI_API_KEY"):
        raise click.ClickException(
            "OPENAI_API_KEY is not set; it may be any word for a local server"
        )
    if max_cost is not None and not settings.get("OPENAI_PRICES"):
        raise click.ClickException(
            "--max-cost needs OPENAI_PRICES, such as 0.75,0.075,4.50: USD for a million tokens"
        )
    _ask(settings, model)
    return Agent(model, {**settings, "OPENAI_MODEL": model})


def _ask(settings: Mapping[str, str], model: str) -> None:
    """Raise ClickException if the model does not answer one small question."""
    url = settings.get("OPENAI_BASE_URL")
    try:
        problem = ask_model(ChatModel(settings["OPENAI_API_KEY"], url, model))
    except ValueError as wrong:
        problem = str(wrong)
    if problem:
        raise click.ClickException(problem)


def _tell(result: Result, record: Record) -> None:
    mark = "solved" if result.scores["solved"] else "FAILED"
    why = record.error or (
        "" if result.scores["solved"] else "; ".join(record.state) or "nothing done"
    )
    click.echo(f"{mark}  {result.suite} {result.task_id} #{result.trial}  {why}".rstrip())


def _word(model: str) -> str:
    return "".join(each if each.isalnum() or each in "-." else "-" for each in model)


@main.command("compare")
@click.argument("before", type=click.Path(exists=True, path_type=Path))
@click.argument("after", type=click.Path(exists=True, path_type=Path))
def compare_runs(before: Path, after: Path) -> None:
    """Compare two runs, task by task. Exits with 1 if the second one is worse, or lacks tasks of the first."""
    try:
        old, new = read_results(before), read_results(after)
        compared = compare_suites(old, new)
    except (ValueError, OSError) as problem:
        raise click.ClickException(str(problem)) from None
    for suite, changes in compared.items():
        click.echo(f"{suite}\n{tell_comparison(changes)}\n")
    needed = samples_needed(0.05, groups=len(compared))
    click.echo(f"To tell 5 points of `solved` apart takes about {needed} tasks.")
    missing = lacking(old, new)
    click.echo(
        f"{compared['all'][0].tasks} of {len({each.task_id for each in old})} tasks compared."
    )
    if missing:
        click.echo(f"{after} has no result of {len(missing)}: {', '.join(missing)}"[:500])
    sys.exit(
        bool(missing) or any(each.is_worse for changes in compared.values() for each in changes)
    )


@main.command()
@suites
@processes
def check(names: Sequence[str], processes: int) -> None:
    """Make each task's calls by the app itself, and say where the state is not the one that is written."""
    from concurrent.futures import ThreadPoolExecutor

    from mailagent.evals.score import Sample, is_flawless

    tasks, wrong = _load(names), 0
    with pool(processes, Path(os.devnull)) as worlds, ThreadPoolExecutor(processes) as threads:
        for task, record in zip(
            tasks, threads.map(lambda each: replay(worlds, each), tasks), strict=True
        ):
            expected = record.state if task.state is None else task.state
            if not is_flawless(Sample(task, record, expected)):
                wrong += 1
                click.echo(
                    f"{task.id}: {record.error or list(record.state)}, told {list(record.told)}"
                )
    click.echo(f"{len(tasks) - wrong} of {len(tasks)} tasks lead to what is written.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
