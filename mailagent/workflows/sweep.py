"""The safety net: once a minute, ring again for rows that nobody looks after, and purge old raw mail."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.maintenance.neglected import ring_for_outbox, ring_for_refunds
from mailagent.workflows.steps.maintenance.sweep import (
    purge_raw_mail,
    release_parked_mail,
    ring_for_mail,
    take_over_runs,
)
from mailagent.workflows.steps.operators import report_failed_runs

EVERY_MINUTE = "* * * * *"


@DBOS.workflow(name=engine.SWEEP)
def sweep(_scheduled_at: datetime, _context: Any) -> None:
    """Ring for every row that waits without a run, then purge; each step records how many it saw to.

    Failures are told first: of a sweep that fails further down, the next one tells.
    """
    report_failed_runs()
    take_over_runs()
    ring_for_mail()
    ring_for_refunds()
    ring_for_outbox()
    release_parked_mail()
    purge_raw_mail()
