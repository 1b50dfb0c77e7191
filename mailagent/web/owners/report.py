"""The report on the shop's support: charts, tables and a CSV file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from flask import Blueprint, Response, request
from sqlalchemy import Connection

from mailagent import services
from mailagent.adapters.csv_file import write_csv
from mailagent.domain.money import Money
from mailagent.domain.operations.access import Permission
from mailagent.domain.operations.model_cost import day_begins_at
from mailagent.domain.operations.report import (
    AGENT,
    DAY,
    DECISIONS,
    DID_NOT_HELP,
    HELPED,
    NONE,
    PEOPLE,
    WAITING,
    Figure,
    Key,
    Report,
    by_span,
    percentile,
    tell_cost,
    tell_time,
)
from mailagent.store.console import knowledge
from mailagent.store.operations import daily_figures
from mailagent.web.console.labels import money, state_label
from mailagent.web.console.page import page, parse_days, typed
from mailagent.web.guard import needs
from mailagent.web.language import _, translate, write_number, write_short_day
from mailagent.web.owners.charts import Chart, Series, make_chart
from mailagent.web.owners.settlements import csv_response

blueprint = Blueprint("ops_report", __name__)

SPANS = (7, 30, 90)
MOST_DAYS = 366
DAYS_SHOWN = 92  # more are shown week by week
QUESTIONS_SHOWN = 20
MOST_COUNTED_NOW = 500

BY = {
    AGENT: "answered by the agent",
    PEOPLE: "answered or closed by people",
    WAITING: "waiting",
    NONE: "needed no answer",
}


@dataclass(frozen=True, slots=True)
class Span:
    """The days that the URL asks for: the last `days`, or from `since` to before `until`."""

    since: datetime
    until: datetime
    days: int | None

    @property
    def last(self) -> datetime:
        """The last of the days."""
        return self.until - DAY


def _read_span() -> Span:
    tomorrow = day_begins_at(services.current().now()) + DAY
    since, until = parse_days({name: typed(name)[:10] for name in ("from", "to")})
    if since or until:
        until = min(until or tomorrow, tomorrow)
        earliest = until - timedelta(days=MOST_DAYS)
        since = max(since or earliest, earliest)
        if since < until:
            return Span(since, until, None)
    wanted = request.args.get("days", "")
    days = int(wanted) if wanted in map(str, SPANS) else SPANS[1]
    return Span(tomorrow - timedelta(days=days), tomorrow, days)


def _count_newest(connection: Connection, span: Span) -> daily_figures.Fresh:
    """Count today and yesterday as they are now. With many mails that is slow, and the hourly figures do."""
    live = services.current()
    today = day_begins_at(live.now())
    days = [day for day in (today - DAY, today) if span.since <= day < span.until]
    if not days or daily_figures.has_more_mails(connection, days[0], MOST_COUNTED_NOW):
        return {}
    return {day: daily_figures.figures_of(connection, day, live.token_prices) for day in days}


@blueprint.get("/ops/report")
@needs(Permission.REPORT)
def show() -> Response:
    """Show the report of some days."""
    span = _read_span()
    with services.current().database.snapshot() as connection:
        fresh = _count_newest(connection, span)
        report = daily_figures.read(connection, span.since, span.until, fresh)
        questions = knowledge.list_unanswered(
            connection, span.since, QUESTIONS_SHOWN, until=span.until
        )
    return page(
        "ops/report.html",
        span=span,
        spans=SPANS,
        is_fresh=bool(fresh),
        facts={"from": f"{span.since:%Y-%m-%d}", "to": f"{span.last:%Y-%m-%d}"},
        sentences=list(report.sentences(_)),
        has_prices=services.current().token_prices is not None,
        charts=list(_charts(report)),
        amounts=[
            (state_label(state), number, money(amount.minor, amount.currency))
            for state, number, amount in report.amounts()
        ],
        questions=questions,
    )


def _charts(report: Report) -> list[Chart]:
    charts = [
        _days(report, "mails", _("Mails of customers"), Figure.MAILS, BY),
        _times("answers", _("Time to the first answer"), report.of(Figure.ANSWER_SECONDS)),
        _refunds(report),
        _times("decisions", _("Time until a manager decided"), report.of(Figure.DECISION_SECONDS)),
        _labels(
            "approvals", _("What became of requests to managers"), _("requests"), _outcomes(report)
        ),
    ]
    if report.cost:
        cost = {"": _("US dollars")}
        charts.append(_days(report, "cost", _("Cost of the model"), Figure.COST, cost, tell_cost))
    if votes := report.of(Figure.VOTES):
        said = {
            _("it helped"): votes.get(HELPED, 0),
            _("it did not help"): votes.get(DID_NOT_HELP, 0),
        }
        charts.append(_labels("votes", _("Did our answer help?"), _("votes"), said))
    return charts


def _days(
    report: Report,
    name: str,
    title: str,
    figure: Figure,
    labels: Mapping[str, str],
    tell: Callable[[int], str] = write_number,
) -> Chart:
    unit, length = ("week", 7) if len(report.days) > DAYS_SHOWN else ("day", 1)
    begins, counted = report.days[::length], list[Counter[Key]]()
    for at in range(0, len(report.days), length):
        days = report.days[at : at + length]
        counted.append(sum((report.by_day.get(day, Counter()) for day in days), Counter()))
    series = [
        Series(translate(words), [each[figure, label] for each in counted])
        for label, words in labels.items()
    ]
    starts = [write_short_day(day) for day in begins]
    title = (
        _("%(title)s, week by week", title=title)
        if unit == "week"
        else _("%(title)s, day by day", title=title)
    )
    return make_chart(name, title, starts, series, tell, unit=unit)


def _times(name: str, title: str, times: dict[str, int]) -> Chart:
    half, most = (tell_time(percentile(times, share), _) for share in (0.5, 0.9))
    facts = ((_("Half within (median)"), half), (_("Nine of ten within (p90)"), most))
    spans = by_span(times)
    return make_chart(
        name,
        title,
        [translate(each) for each in spans],
        [Series(_("cases"), list(spans.values()))],
        facts=facts,
    )


def _refunds(report: Report) -> Chart:
    numbers: Counter[str] = Counter()
    for state, number, _amount in report.amounts():
        numbers[state_label(state)] += number
    return _labels("refunds", _("Refunds by state"), _("refunds"), numbers)


def _outcomes(report: Report) -> dict[str, int]:
    found = report.of(Figure.APPROVALS)
    return {
        translate(DECISIONS.get(each, "")) or state_label(each): number
        for each, number in found.items()
    }


def _labels(name: str, title: str, unit: str, numbers: dict[str, int]) -> Chart:
    return make_chart(name, title, list(numbers), [Series(unit, list(numbers.values()))])


@blueprint.get("/ops/report/export")
@needs(Permission.REPORT)
def export() -> Response:
    """Send the figures of these days as CSV."""
    span = _read_span()
    with services.current().database.snapshot() as connection:
        fresh = _count_newest(connection, span)
        rows = daily_figures.list_rows(connection, span.since, span.until, fresh)
    text = write_csv(("day", "figure", "label", "value"), map(_cells, rows))
    name = f"report-{span.since:%Y-%m-%d}-{span.last:%Y-%m-%d}.csv"
    return csv_response(text, name)


def _cells(row: Sequence[Any]) -> tuple[str, str, str, str]:
    day, figure, label, number = row  # a year has tens of thousands
    value = str(number)
    if figure in (Figure.AMOUNTS, Figure.CREDITS):
        value = Money(number, label.rpartition(" ")[2]).decimal()
    elif figure == Figure.COST:
        value = f"{Decimal(number).scaleb(-6):f}"
    return day.isoformat()[:10], figure, label, value
