"""Counts each day's figures for the report, and mails the owners the report of each week."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mailagent import mailers, services
from mailagent.domain.operations.model_cost import day_begins_at
from mailagent.domain.operations.report import DAY, Figure, last_week
from mailagent.store.mail import outbound
from mailagent.store.operations import daily_figures
from mailagent.workflows.steps.maintenance.housekeeping import LOOKS_AT_ALL_IN_HOUR, Deadline
from mailagent.workflows.steps.recording import step

# A day's mail may be answered, and its refunds paid, weeks later. So once a day this many days are counted
# again; in the other hours only the two newest.
DAYS_AGAIN = 35
DAYS_BACK = 366
COUNT_SECONDS = 300.0


@step
def report_to_owners() -> int:
    """Count the days that may have changed, and write the report of the last week to each owner, once. Returns
    how many days were counted."""
    counted = count_days(Deadline(COUNT_SECONDS))
    write_weekly()
    return counted


def count_days(deadline: Deadline) -> int:
    """Count the newest days, and those that were never counted, until the deadline; return how many."""
    live = services.current()
    today = day_begins_at(live.now())
    newest = DAYS_AGAIN if live.now().hour == LOOKS_AT_ALL_IN_HOUR else 2
    with live.database.snapshot() as connection:
        missing = daily_figures.list_uncounted(connection, today, DAYS_BACK)
    days = dict.fromkeys([*(today - DAY * number for number in range(newest)), *missing])
    return _count(days, deadline)


def _count(days: Iterable[datetime], deadline: Deadline) -> int:
    live, counted = services.current(), 0
    for day in days:
        if deadline.has_passed():
            break
        with live.database.transaction() as connection:
            daily_figures.count(connection, day, live.token_prices)
        counted += 1
    return counted


def write_weekly() -> None:
    """Write the report of the last whole week to each owner who has not got it, with its days counted anew."""
    live = services.current()
    since, until = last_week(live.now())
    week = f"{since:%G-W%V}"
    keys = {address: f"report:{week}:{address}" for address in live.shop.report_emails}
    with live.database.snapshot() as connection:
        told = outbound.list_recorded(connection, keys.values()) if keys else frozenset[str]()
    addresses = [address for address, key in keys.items() if key not in told]
    days = [since + DAY * number for number in range((until - since) // DAY)]
    if not addresses or _count(days, Deadline(None)) < len(days):
        return  # all have it; or the worker shuts down, and a later run writes it
    with live.database.transaction() as connection:
        report = daily_figures.read(connection, since, until)
        page = f"{live.shop.public_url}/ops/report?from={since:%Y-%m-%d}&to={until - DAY:%Y-%m-%d}"
        has_questions = report.totals[Figure.QUESTIONS, ""]
        notice = mailers.Notice(
            f"report:{week}",
            f"Your week from {since:%-d %B} to {until - DAY:%-d %B %Y}",
            [*report.sentences(), "Days are UTC days."],
            ("See the report", page),
            ("See what was asked", f"{page}#questions") if has_questions else None,
            list(report.tables()),
        )
        written = mailers.write_notice(connection, notice, addresses)
        live.workflow_client.queue.enqueue_deliveries(connection, written)
