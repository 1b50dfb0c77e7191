"""What a mail costs, in each kind of flow and in each of its parts, beside the least that it could cost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.processes import Process, in_a_process
from tests.programs.bench import floor_steps
from tests.programs.bench.answering import FLOWS, Answered, measure_mails, measure_worker
from tests.programs.bench.clients import Poster, post_all
from tests.programs.bench.flows import APPROVED, QUESTION, prepare
from tests.programs.bench.ground import Ground
from tests.programs.bench.measured import Aim, Measured, ratio_of, unanswered
from tests.programs.bench.meter import Usage, read_usage


@dataclass(frozen=True, slots=True)
class Figures:
    """What one mail costs. `per_second` is None where it cannot be told."""

    cpu_ms: float
    database_ms: float
    transactions: float
    wall_ms: float
    per_second: float | None = None

    def plus(self, other: Figures) -> Figures:
        """Return both, one after the other."""
        return Figures(
            self.cpu_ms + other.cpu_ms,
            self.database_ms + other.database_ms,
            self.transactions + other.transactions,
            self.wall_ms + other.wall_ms,
        )


@dataclass(frozen=True, slots=True)
class Received:
    """`p50_ms`, `p99_ms`: how long a request takes while others are posted beside it."""

    figures: Figures
    p50_ms: float
    p99_ms: float

    def times(self) -> str:
        return f"p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms"


@dataclass(frozen=True, slots=True)
class Row:
    """One part of the work, beside the least that it could cost."""

    name: str
    mail: Figures
    floor: Figures

    def ratio(self, column: str) -> float | None:
        return ratio_of(getattr(self.mail, column), getattr(self.floor, column))


def measure(ground: Ground) -> Measured:
    """Measure everything, one after the other."""
    webhook, bare_view = _measure_webhook(ground), _measure_bare_view(ground)
    flows, idle = measure_mails(ground)
    alone, idle_worker = measure_worker(ground)
    worker = alone[QUESTION.name]
    floors = _measure_steps(ground, [flows[flow.name].records.steps for flow in FLOWS])
    rows = []
    for flow, steps in zip(FLOWS, floors, strict=True):
        answered, floor = flows[flow.name], bare_view.figures.plus(steps)
        if flow is APPROVED:  # the decision comes by HTTP, too
            floor = floor.plus(bare_view.figures)
        rows.append(Row(flow.name, _figures_of(ground, answered, idle), floor))
    rows.append(Row("  receive", webhook.figures, bare_view.figures))
    run = _figures_of(ground, worker, idle_worker)
    # PostgreSQL counted the webhook's part with the worker's.
    run = replace(
        run,
        transactions=run.transactions - webhook.figures.transactions,
        database_ms=run.database_ms - webhook.figures.database_ms,
        wall_ms=worker.alone.after_200_ms,
    )
    rows.append(Row("  run", run, floors[0]))
    all_flows = {**flows, "worker alone": worker}
    left = sum(each.records.received - each.records.answered for each in all_flows.values())
    lines = [*_lines(ground, rows, all_flows, idle), _line_of_times(webhook, bare_view)]
    return Measured("\n".join(lines), _aims(rows), unanswered(left))


def _figures_of(ground: Ground, answered: Answered, idle: Usage) -> Figures:
    used = answered.used.without(idle)
    return _figures(ground, used, answered.alone.whole_ms, answered.per_second)


def _figures(ground: Ground, used: Usage, wall_ms: float, per_second: float) -> Figures:
    """Return what all mails used as the figures of one."""
    return Figures(
        cpu_ms=used.cpu_seconds * 1000 / ground.mails,
        database_ms=used.database_seconds * 1000 / ground.mails,
        transactions=used.transactions / ground.mails,
        wall_ms=wall_ms,
        per_second=per_second,
    )


# --- receiving ------------------------------------------------------------------------------------


def _measure_webhook(ground: Ground) -> Received:
    """Measure the webhook with no worker for its mail."""
    with ground.database() as url, ground.web(url, "web") as (app, webhook):
        return _receive(ground, url, app, webhook)


def _measure_bare_view(ground: Ground) -> Received:
    with ground.database() as url, ground.bare_view(url) as (view, webhook):
        return _receive(ground, url, view, webhook)


def _receive(ground: Ground, url: str, child: Process, webhook: str) -> Received:
    poster = Poster(webhook)
    alone_ms = [poster.post(post) for post in prepare(QUESTION, ground.alone, url, ground.key)]
    posts = prepare(QUESTION, ground.mails, url, ground.key)
    before = ground.read(url, child)
    posted = post_all(webhook, posts)
    used = ground.read(url, child).minus(before)  # nothing polls here: no rest to take off
    latencies = sorted(posted.latencies_ms)
    return Received(
        _figures(ground, used, statistics.median(alone_ms), posted.per_second),
        p50_ms=statistics.median(latencies),
        p99_ms=latencies[int(len(latencies) * 0.99)],
    )


# --- the floor of a run ---------------------------------------------------------------------------


def _measure_steps(ground: Ground, flows: Sequence[tuple[int, ...]]) -> list[Figures]:
    """Measure, for each flow, runs of so many steps that do nothing."""
    with ground.database() as url:
        started, _ = _run_steps(ground, url, (), 0, 0)  # only what starting takes
        ran = [_run_steps(ground, url, each, ground.alone, ground.mails) for each in flows]
    mails = ground.alone + ground.mails
    return [
        Figures(
            cpu_ms=done.cpu_seconds * 1000 / ground.mails,
            database_ms=(used.database_seconds - started.database_seconds) * 1000 / mails,
            transactions=(used.transactions - started.transactions) / mails,
            wall_ms=done.wall_ms,
            per_second=ground.mails / done.seconds,
        )
        for used, done in ran
    ]


def _run_steps(
    ground: Ground, url: str, steps: tuple[int, ...], alone: int, mails: int
) -> tuple[Usage, floor_steps.Done]:
    before = read_usage(ground.server_url, url, ())
    done = in_a_process(floor_steps.run, url, steps, alone, mails)
    return read_usage(ground.server_url, url, ()).minus(before), done


# --- the table ------------------------------------------------------------------------------------

_COLUMNS = {
    "CPU ms": "cpu_ms",
    "PostgreSQL's CPU ms": "database_ms",
    "SQL transactions": "transactions",
    "wall ms": "wall_ms",
    "mails/s": "per_second",
}


def _lines(
    ground: Ground, rows: Sequence[Row], flows: dict[str, Answered], idle: Usage
) -> list[str]:
    records = [flow.records for flow in flows.values()]
    answered, received = (
        sum(getattr(each, it) for each in records) for it in ("answered", "received")
    )
    steps = ", ".join(
        f"{name}: {' + '.join(map(str, flow.records.steps))}" for name, flow in flows.items()
    )
    requests = ", ".join(f"{name}: {flow.requests:.0f}" for name, flow in flows.items())
    return [
        f"{ground.mails} mails at once; {answered} of {received} mails answered",
        "",
        f"{'a mail costs':<24}" + "".join(f" | {title:^22}" for title in _COLUMNS),
        f"{'':<24}" + f" | {'mail':>7}{'floor':>8}{'ratio':>7}" * len(_COLUMNS),
        "-" * (24 + 25 * len(_COLUMNS)),
        *(f"{row.name:<24}" + "".join(_cells(row, it) for it in _COLUMNS.values()) for row in rows),
        "",
        f"steps of the runs of a mail: {steps}",
        f"calls of the model: {requests}",
        f"taken off, for each second of waiting: {idle.cpu_seconds * 1000 / idle.seconds:.1f} ms CPU, "
        f"{idle.transactions / idle.seconds:.1f} transactions, "
        f"{idle.database_seconds * 1000 / idle.seconds:.1f} ms of PostgreSQL's CPU",
    ]


def _cells(row: Row, column: str) -> str:
    ratio = row.ratio(column)
    numbers = [getattr(row.mail, column), getattr(row.floor, column)]
    mail, floor = ("–" if number is None else f"{number:.1f}" for number in numbers)
    return f" | {mail:>7}{floor:>8}{'–' if ratio is None else f'{ratio:.1f}×':>7}"


def _line_of_times(webhook: Received, bare_view: Received) -> str:
    return f"the webhook under load: {webhook.times()}; bare view: {bare_view.times()}"


def _aims(rows: Sequence[Row]) -> list[Aim]:
    found = {row.name.strip(): row for row in rows}
    received = found["receive"].ratio("per_second") or 0
    run = found["run"].mail.per_second or 0
    return [
        Aim("receive, mails/s against the bare view", received, 0.5, "×", at_least=True),
        Aim("a question, CPU", found[QUESTION.name].mail.cpu_ms, 25, "ms"),
        Aim("questions, one web and one worker", run, 50, "mails/s", at_least=True),
        *(
            Aim(
                f"{flow.name}, CPU against its floor", found[flow.name].ratio("cpu_ms") or 0, 2, "×"
            )
            for flow in FLOWS
        ),
    ]
