"""Scheduled workflows: the sweep, which enqueues runs for rows that wait without one; housekeeping; and
previews of photos. Beside them the look-up of an order, which pages and the sweep enqueue."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.maintenance.flood import release_throttled_mail
from mailagent.workflows.steps.maintenance.housekeeping import (
    make_previews,
    purge_content,
    purge_histories,
    purge_short_lived,
)
from mailagent.workflows.steps.maintenance.report import report_to_owners
from mailagent.workflows.steps.maintenance.sweep import enqueue_mail, purge_raw_mail, take_over_runs
from mailagent.workflows.steps.maintenance.tasks import tell_overdue_settlements
from mailagent.workflows.steps.maintenance.unfinished import enqueue_deliveries, enqueue_refunds
from mailagent.workflows.steps.operators import report_failed_runs
from mailagent.workflows.steps.order_source import look_up_order

EVERY_MINUTE = "* * * * *"
EVERY_HOUR = "17 * * * *"  # not on the hour, when many other jobs start


@DBOS.workflow(name=engine.SWEEP)
def sweep(_scheduled_at: datetime, _context: Any) -> None:
    """Report failed workflows, enqueue rows that wait without one, delete raw mail.

    Reporting comes first, so that the next sweep reports a sweep that fails further down.
    """
    report_failed_runs()
    take_over_runs()
    enqueue_mail()
    enqueue_refunds()
    enqueue_deliveries()
    release_throttled_mail()
    purge_raw_mail()


@DBOS.workflow(name=engine.HOUSEKEEPING)
def housekeeping(_scheduled_at: datetime, _context: Any) -> None:
    """Tell operators of overdue settlements, report to the owners, and delete what is old enough."""
    tell_overdue_settlements()
    report_to_owners()
    purge_short_lived()
    purge_content()
    purge_histories()


@DBOS.workflow(name=engine.PREVIEWS)
def previews(_scheduled_at: datetime, _context: Any) -> None:
    """Make previews of new photos."""
    make_previews()


@DBOS.workflow(name=engine.LOOK_UP)
def look_up(order_id: str) -> None:
    """Look an order up at its source, and save it. Web processes do not call other systems themselves."""
    look_up_order(order_id)
