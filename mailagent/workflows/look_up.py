"""The `look_up` workflow: looks an order up for a page, because web processes call no other system, or for an
open task."""

from __future__ import annotations

from dbos import DBOS

from mailagent import engine
from mailagent.workflows.steps.order_source import look_up_order


@DBOS.workflow(name=engine.LOOK_UP)
def look_up(order_id: str) -> None:
    """Look an order up at its source, and save it."""
    look_up_order(order_id)
