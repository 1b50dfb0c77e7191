"""Once an hour: what is old enough goes. Apart from the sweep, which must not wait for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.maintenance.housekeeping import (
    purge_histories,
    purge_short_lived,
    purge_words,
)

# Not on the hour, when everybody's clocks strike.
EVERY_HOUR = "17 * * * *"


@DBOS.workflow(name=engine.HOUSEKEEPING)
def housekeeping(_scheduled_at: datetime, _context: Any) -> None:
    """Delete what is old enough; each step records how much."""
    purge_short_lived()
    purge_words()
    purge_histories()
