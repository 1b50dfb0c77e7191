"""One loaded run: starts shop and Prometheus, sends the load, waits for rest, and asks everything."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from mailagent.store.database import Database, open_database
from tests.processes import ProcessFailed
from tests.programs.bench.ground import Ground
from tests.programs.watched import board, prometheus
from tests.programs.watched.compare import COMPARISONS, Compared, told_rows, true_rows
from tests.programs.watched.load import MoodyModel, Sent, send
from tests.programs.watched.prometheus import Prometheus, QueryFailed, Series
from tests.programs.watched.results import Alert, Line, Result, Shown

WORKERS = ("w1", "w2")
TOKEN = "the-token-of-those-that-watch-a-loaded-run"
SETTINGS = {"METRICS_TOKEN": TOKEN, "OPENAI_PRICES": "0.75,0.075,4.50"}
# After the last row has changed: figures are kept for five seconds, then scraped, then recorded.
SETTLE_SECONDS = 15.0
_REST_SECONDS = 420.0
_POINTS = 200

# Alerts that are pending for a while in a run like this, and why. None may fire.
EXPECTED: Mapping[str, str] = {"MailagentProviderAway": "while the model is left alone"}

_NOT_AT_REST = sa.text(
    "SELECT (SELECT count(*) FROM inbound_mails WHERE status IN ('unanswered', 'throttled'))"
    " + (SELECT count(*) FROM outbound_mails WHERE status IN ('queued', 'sending'))"
    " + (SELECT count(*) FROM refunds WHERE status = 'approved')"
    " + abs((SELECT count(*) FROM dbos.workflow_status WHERE name IN ('conversation', 'refund', 'delivery')"
    " AND status IN ('ENQUEUED', 'PENDING', 'DELAYED'))"
    " - (SELECT count(*) FROM refunds WHERE status = 'awaiting_approval'))"
)


def watch(ground: Ground, program: str, minutes: float, per_second: float) -> Result:
    """Load a shop that is watched; return what was seen of it. Raises ProcessFailed."""
    model = MoodyModel()
    model.start()
    settings = {**SETTINGS, "OPENAI_BASE_URL": f"{model.url}/v1"}
    with ExitStack() as stack:
        url = stack.enter_context(ground.database())
        _, webhook = stack.enter_context(ground.web(url, "web", **settings))
        for name in WORKERS:
            stack.enter_context(ground.worker(url, None, **{**settings, "WORKER_ID": name}))
        port = urlsplit(webhook).port or 0
        folder = ground.folder / "prometheus"
        server = stack.enter_context(prometheus.run(program, folder, port, TOKEN))
        database = open_database(url)
        stack.callback(database.close)
        time.sleep(SETTLE_SECONDS)  # so that figures begin at zero
        sent = send(ground, url, webhook, model, minutes, per_second)
        _wait_for_rest(database)
        return _look(server, database, model, sent, _versions(database, program))


def _wait_for_rest(database: Database) -> None:
    """Wait until nothing is under way but what a manager was left to decide. Raises ProcessFailed."""
    deadline = time.monotonic() + _REST_SECONDS
    while (left := _count_left(database)) > 0:
        if time.monotonic() > deadline:
            raise ProcessFailed(f"{left} rows are still under way after {_REST_SECONDS:g} s")
        time.sleep(1)
    time.sleep(SETTLE_SECONDS)


def _count_left(database: Database) -> int:
    with database.snapshot() as connection:
        return int(connection.scalar(_NOT_AT_REST) or 0)


def _look(
    server: Prometheus,
    database: Database,
    model: MoodyModel,
    sent: Sent,
    facts: dict[str, str],
) -> Result:
    view = _View(server, sent.began, time.time())
    compared = [*_compare(server, database), *_counted_by_model(server, model)]
    load = {
        "mails": sent.mails,
        "decided": sent.decided,
        "requests": model.requests,
        "refused": model.refused,
    }
    minutes = tuple((at - sent.began) / 60 for at in (sent.ended, *sent.away))
    panels = list(view.panels())
    recorded = {name: len(view.now(name)) for name in board.recorded()}
    alerts = list(view.alerts())
    wrong = [*view.wrong, *_find_wrong(server, panels, recorded, alerts, compared)]
    return Result(facts, load, minutes, panels, recorded, alerts, compared, wrong)


class _View:
    """The run as Prometheus tells it; `wrong` has what it did not take."""

    def __init__(self, server: Prometheus, began: float, ended: float) -> None:
        self.ended = ended
        self.wrong: list[str] = []
        self._server, self._began = server, began
        self._step = max((ended - began) / _POINTS, prometheus.SCRAPE_SECONDS)

    def now(self, query: str) -> list[Series]:
        try:
            return self._server.ask(query)
        except QueryFailed as failed:
            self.wrong.append(f"{query}: {failed}")
            return []

    def over(self, query: str) -> list[Series]:
        began = self.ended - (self.ended - self._began) // self._step * self._step
        try:
            return self._server.ask_over(query, began, self.ended, self._step)
        except QueryFailed as failed:
            self.wrong.append(f"{query}: {failed}")
            return []

    def panels(self) -> Iterator[Shown]:
        for each in board.targets():
            found = self.over(each.query)
            lines = [self._line(each.name_of(series.labels), series) for series in found]
            yield Shown(each, lines)

    def _line(self, name: str, series: Series) -> Line:
        values = [value for _, value in series.points]
        return Line(name, values, series.points[-1][0] < self.ended - self._step)

    def alerts(self) -> Iterator[Alert]:
        states = self.over("ALERTS")
        for name, expression in board.alerts().items():
            was: dict[str, float] = {}
            for each in states:
                if each.labels["alertname"] == name:
                    state, at = each.labels["alertstate"], round(each.points[0][0] - self._began, 1)
                    was[state] = min(at, was.get(state, at))
            looks_at = len(self.now(board.watched(expression)))
            yield Alert(name, looks_at, was, EXPECTED.get(name, ""))


def _compare(server: Prometheus, database: Database) -> Iterator[Compared]:
    for each in COMPARISONS:
        told = told_rows(server.ask(each.query), each.labels)
        truth = true_rows(database, each.statement, each.labels)
        yield Compared(each.query, each.statement, each.near, told, truth)


def _counted_by_model(server: Prometheus, model: MoodyModel) -> Iterator[Compared]:
    """Yield what the model's own server has counted beside the same in Prometheus."""
    errors = 'max by (provider) (mailagent_provider_errors_total{provider="openai"})'
    calls = "sum(max by (model, outcome) (mailagent_model_calls_total))"
    counts = {errors: model.refused, calls: model.refused + model.requests}
    for query, number in counts.items():
        told = told_rows(server.ask(query), ())
        yield Compared(query, "counted by the model's own server", 0.0, told, {"": float(number)})


def _find_wrong(
    server: Prometheus,
    panels: list[Shown],
    recorded: Mapping[str, int],
    alerts: list[Alert],
    compared: list[Compared],
) -> Iterator[str]:
    found = {each.target.query: len(each.lines) for each in panels} | dict(recorded)
    yield from (f"{query} has no series" for query, number in found.items() if not number)
    for alert in alerts:
        yield from _find_wrong_alert(alert)
    yield from _find_unwell(server.rules())
    for each in compared:
        yield from (f"{each.query}: {line}" for line in each.wrong)


def _find_unwell(rules: list[dict[str, Any]]) -> Iterator[str]:
    """Yield which rules Prometheus could not evaluate, and what it says."""
    for rule in rules:
        if rule["health"] != "ok":
            yield f"{rule['name']} is {rule['health']}: {rule.get('lastError', 'not evaluated')}"


def _find_wrong_alert(alert: Alert) -> Iterator[str]:
    """Yield what an alert should not have done in a run like this."""
    if not alert.looks_at:
        yield f"{alert.name} looks at nothing that is there"
    if "firing" in alert.was or (alert.was and not alert.expected):
        yield f"{alert.name} was {' and '.join(alert.was)}"


def _versions(database: Database, program: str) -> dict[str, str]:
    with database.snapshot() as connection:
        server = str(connection.scalar(sa.text("SHOW server_version")))
    return {
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        "PostgreSQL": server,
        "Prometheus": prometheus.version_of(program),
    }
