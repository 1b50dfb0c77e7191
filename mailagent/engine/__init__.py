"""The doorbell of the workflows: their names, ids and queues, and how to make one look at its row.

A bell carries nothing of value. It is rung in the transaction that writes the row (so both exist or
neither does), and whoever hears it looks at the row. Nothing here runs a workflow.
"""

from __future__ import annotations

from mailagent.engine.enqueue import Rings
from mailagent.engine.garbage_collection import Histories, OldHistories, OldRun
from mailagent.engine.names import (
    ACTIVE,
    APPLICATION_NAME,
    APPLICATION_VERSION,
    CONVERSATION,
    CONVERSATIONS,
    DELIVERIES,
    DELIVERY,
    FAILED,
    HOUSEKEEPING,
    LOOK,
    PREVIEWS,
    QUEUE_OF,
    REFUND,
    REFUNDS,
    SCHEDULED,
    STATUSES,
    SWEEP,
    run_id_of,
)
from mailagent.engine.recovery import Orphans, Sweeps, Versions
from mailagent.engine.replay import Refusal, ReplayRefused, Replays, Unheard
from mailagent.engine.run import RecordedStep, Run, first_step_to_repeat, matter_of, no_such_run
from mailagent.engine.runs import Depths, RunFilter, Runs, parse_position, position_of

__all__ = [
    "ACTIVE",
    "APPLICATION_NAME",
    "APPLICATION_VERSION",
    "CONVERSATION",
    "CONVERSATIONS",
    "DELIVERIES",
    "DELIVERY",
    "FAILED",
    "HOUSEKEEPING",
    "LOOK",
    "PREVIEWS",
    "QUEUE_OF",
    "REFUND",
    "REFUNDS",
    "SCHEDULED",
    "STATUSES",
    "SWEEP",
    "Doorbell",
    "OldRun",
    "RecordedStep",
    "Refusal",
    "ReplayRefused",
    "Run",
    "RunFilter",
    "first_step_to_repeat",
    "matter_of",
    "no_such_run",
    "parse_position",
    "position_of",
    "run_id_of",
]


class Doorbell(
    Rings, Sweeps, Unheard, Replays, Runs, Orphans, Versions, Histories, OldHistories, Depths
):
    """Rings workflows, looks at their runs and replays them, from any process and by name: no workflow
    code is imported for it."""
