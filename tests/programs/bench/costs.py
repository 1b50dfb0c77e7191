"""What a mail costs, in each kind of flow and in each of its parts, beside the least that it could cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from tests.programs.bench.answering import FLOWS, Answered, Idle, measure_mails, measure_worker
from tests.programs.bench.floors import measure_bare_steps
from tests.programs.bench.flows import APPROVED, QUESTION
from tests.programs.bench.ground import Ground
from tests.programs.bench.receiving import Received, measure_bare_view, measure_webhook
from tests.programs.bench.table import Figures, Row, as_data, ratio_of, render
from tests.programs.bench.told import Aim, Told


def measure(ground: Ground) -> Told:
    """Measure everything, one after the other."""
    webhook, bare_view = measure_webhook(ground), measure_bare_view(ground)
    flows, idle = measure_mails(ground)
    worker = measure_worker(ground)[0][QUESTION.name]
    steps = measure_bare_steps(ground, [flows[flow.name].records.steps for flow in FLOWS])
    run = Row("  run", worker.figures, steps[0])
    rows = [
        *(
            Row(flow.name, flows[flow.name].figures, _floor(flow.name, bare_view, floor))
            for flow, floor in zip(FLOWS, steps, strict=True)
        ),
        Row("  receive", webhook.figures, bare_view.figures),
        _run_row(worker, webhook, run),
    ]
    return _told(ground, rows, {**flows, "worker alone": worker}, (webhook, bare_view), idle)


def _floor(name: str, bare_view: Received, steps: Figures) -> Figures:
    """Return the floor of a whole mail: what came by HTTP is stored, then so many steps."""
    stored = bare_view.figures.plus(steps)
    return stored.plus(bare_view.figures) if name == APPROVED.name else stored


def _run_row(worker: Answered, webhook: Received, row: Row) -> Row:
    """Take the webhook's part, which PostgreSQL counted with the worker's, out of the row."""
    whole, received = row.mail, webhook.figures
    run = replace(
        whole,
        transactions=(whole.transactions or 0) - (received.transactions or 0),
        database_ms=(whole.database_ms or 0) - (received.database_ms or 0),
        wall_ms=worker.alone.after_200_ms,
    )
    return replace(row, mail=run)


def _told(
    ground: Ground,
    rows: Sequence[Row],
    flows: dict[str, Answered],
    received: tuple[Received, Received],
    idle: Idle,
) -> Told:
    came = sum(flow.records.received for flow in flows.values())
    answered = sum(flow.records.answered for flow in flows.values())
    steps = ", ".join(
        f"{name}: {' + '.join(map(str, flow.records.steps))}" for name, flow in flows.items()
    )
    requests = ", ".join(f"{name}: {flow.requests:.0f}" for name, flow in flows.items())
    webhook, bare_view = received
    lines = [
        f"{ground.mails} mails at once; {answered} of {came} mails answered",
        "",
        render(rows),
        "",
        f"steps of the runs of a mail: {steps}",
        f"asks of the model: {requests}",
        f"the webhook under load: {_times(webhook)}; bare view: {_times(bare_view)}",
        f"taken off, for each second of waiting: {idle.cpu_ms:.1f} ms CPU, "
        f"{idle.transactions:.1f} transactions, {idle.database_ms:.1f} ms of PostgreSQL's CPU",
    ]
    figures = {
        "mails": ground.mails,
        "received": came,
        "answered": answered,
        "rows": as_data(rows),
        "flows": {name: asdict(flow) for name, flow in flows.items()},
        "webhook": asdict(webhook),
        "bare_view": asdict(bare_view),
        "idle_second": asdict(idle),
    }
    wrong = [f"{came - answered} mails were not answered"] if answered != came else []
    return Told("\n".join(lines), figures, _aims(rows), wrong)


def _times(received: Received) -> str:
    return f"p50 {received.p50_ms:.1f} ms, p99 {received.p99_ms:.1f} ms"


def _aims(rows: Sequence[Row]) -> list[Aim]:
    found = {row.name.strip(): row for row in rows}
    question, receive, run = found[QUESTION.name], found["receive"], found["run"]
    aims = [
        Aim("receive, mails/s against the bare view", _rate(receive), 0.5, "×", at_least=True),
        Aim("a question, CPU", question.mail.cpu_ms, 25, "ms"),
        Aim(
            "questions, one web and one worker",
            run.mail.per_second or 0,
            50,
            "mails/s",
            at_least=True,
        ),
    ]
    for flow in FLOWS:
        row = found[flow.name]
        ratio = ratio_of(row.mail.cpu_ms, row.floor.cpu_ms) or 0
        aims.append(Aim(f"{flow.name}, CPU against its floor", ratio, 2, "×"))
    return aims


def _rate(row: Row) -> float:
    return ratio_of(row.mail.per_second, row.floor.per_second) or 0
