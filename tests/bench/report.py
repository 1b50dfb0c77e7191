"""All measurements put together: the rows of the table, and what is told beside it."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import click
import sqlalchemy as sa

from tests.bench.answering import Answered, Idle, measure_mails, measure_worker
from tests.bench.floors import measure_bare_steps, measure_clients
from tests.bench.flows import QUESTION, REFUND
from tests.bench.ground import Ground
from tests.bench.receiving import Received, measure_bare_view, measure_webhook
from tests.bench.table import Row, as_data, render

_PACKAGES = ("dbos", "sqlalchemy", "psycopg", "flask", "gunicorn", "openai", "sendgrid")


@dataclass(frozen=True)
class Report:
    mails: int
    versions: dict[str, str]
    rows: list[Row]
    flows: dict[str, Answered]
    webhook: Received
    bare_view: Received
    idle: Idle

    @property
    def received(self) -> int:
        return sum(flow.records.received for flow in self.flows.values())

    @property
    def answered(self) -> int:
        return sum(flow.records.answered for flow in self.flows.values())

    def text(self) -> str:
        asks = ", ".join(f"{name}: {flow.asks:.0f}" for name, flow in self.flows.items())
        steps = ", ".join(
            f"{name}: {' + '.join(map(str, flow.records.steps))}"
            for name, flow in self.flows.items()
        )
        return "\n".join(
            [
                ", ".join(f"{name} {number}" for name, number in self.versions.items()),
                f"{self.mails} mails at once; {self.answered} of {self.received} mails answered",
                "",
                render(self.rows),
                "",
                f"steps of the runs of a mail: {steps}; asks of the model: {asks}",
                f"the webhook under load: {_times(self.webhook)}; bare view: {_times(self.bare_view)}",
                f"taken off, for each second of waiting: {self.idle.cpu_ms:.1f} ms CPU, "
                f"{self.idle.transactions:.1f} transactions",
            ]
        )

    def data(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return {
            "mails": self.mails,
            "received": self.received,
            "answered": self.answered,
            "versions": self.versions,
            "rows": as_data(self.rows),
            "flows": {name: asdict(flow) for name, flow in self.flows.items()},
            "webhook": asdict(self.webhook),
            "bare_view": asdict(self.bare_view),
            "idle_second": asdict(self.idle),
        }


def _times(received: Received) -> str:
    return f"p50 {received.p50_ms:.1f} ms, p99 {received.p99_ms:.1f} ms"


def measure(ground: Ground) -> Report:
    """Measure everything, one after the other."""
    _say("receiving")
    webhook, bare_view = measure_webhook(ground), measure_bare_view(ground)
    _say("whole mails")
    flows, idle = measure_mails(ground)
    _say("the worker")
    worker = measure_worker(ground)[0][QUESTION.name]
    _say("clients and bare steps")
    steps = [
        measure_bare_steps(ground, flows[flow.name].records.steps) for flow in (QUESTION, REFUND)
    ]
    rows = [
        *(
            Row(name, flow.figures, bare_view.figures.plus(floor))
            for (name, flow), floor in zip(flows.items(), steps, strict=True)
        ),
        Row("  receive", webhook.figures, bare_view.figures),
        _run_row(worker, webhook, Row("  run", worker.figures, steps[0])),
        *measure_clients(ground),
    ]
    found = {**flows, "worker alone": worker}
    return Report(ground.mails, _versions(ground), rows, found, webhook, bare_view, idle)


def _run_row(worker: Answered, webhook: Received, row: Row) -> Row:
    """Take the webhook's part, which PostgreSQL counted with the worker's, out of the row."""
    whole, received = row.mail.transactions or 0, webhook.figures.transactions or 0
    run = replace(row.mail, transactions=whole - received, wall_ms=worker.alone.after_200_ms)
    return replace(row, mail=run)


def _versions(ground: Ground) -> dict[str, str]:
    engine = sa.create_engine(ground.server_url)
    with engine.connect() as connection:
        server = str(connection.scalar(sa.text("SHOW server_version")))
    engine.dispose()
    return {
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        "PostgreSQL": server,
        **{name: version(name) for name in _PACKAGES},
    }


def _say(what: str) -> None:
    click.echo(f"measuring {what} …", err=True)
