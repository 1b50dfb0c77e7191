"""The `look_up` workflow: refreshes one order from the order source, for a page or an open task.
Web processes do not call other systems themselves."""

from __future__ import annotations

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.order_source import look_up_order


@DBOS.workflow(name=engine.LOOK_UP)
def look_up(order_id: str) -> None:
    """Look an order up at its source, and save it."""
    look_up_order(order_id)
