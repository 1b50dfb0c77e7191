"""Scheduled workflows: the sweep that enqueues again for waiting rows, housekeeping, and previews."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.maintenance.housekeeping import (
    purge_content,
    purge_histories,
    purge_short_lived,
)
from mailagent.workflows.steps.maintenance.neglected import enqueue_deliveries, enqueue_refunds
from mailagent.workflows.steps.maintenance.photo_previews import make_previews
from mailagent.workflows.steps.maintenance.sweep import (
    enqueue_mail,
    purge_raw_mail,
    release_throttled_mail,
    take_over_runs,
)
from mailagent.workflows.steps.operators import report_failed_runs

EVERY_MINUTE = "* * * * *"


@DBOS.workflow(name=engine.SWEEP)
def sweep(_scheduled_at: datetime, _context: Any) -> None:
    """Report failed workflows, enqueue rows that wait without one, purge. Each step records a count.

    Reporting comes first, so that the next sweep reports a sweep that fails further down.
    """
    report_failed_runs()
    take_over_runs()
    enqueue_mail()
    enqueue_refunds()
    enqueue_deliveries()
    release_throttled_mail()
    purge_raw_mail()


# --- housekeeping ---------------------------------------------------------------------------------


# Not on the hour, when many other jobs start.
EVERY_HOUR = "17 * * * *"


@DBOS.workflow(name=engine.HOUSEKEEPING)
def housekeeping(_scheduled_at: datetime, _context: Any) -> None:
    """Delete what is old enough; each step records how much."""
    purge_short_lived()
    purge_content()
    purge_histories()


# --- previews -------------------------------------------------------------------------------------


@DBOS.workflow(name=engine.PREVIEWS)
def previews(_scheduled_at: datetime, _context: Any) -> None:
    """Make previews of new photos; the step records how many."""
    make_previews()
