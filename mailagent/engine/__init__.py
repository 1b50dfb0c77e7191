"""The workflow client of the workflows: their names, ids and queues, and how to make one look at its row.

A wake-up carries nothing of value. It is sent in the transaction that writes the row (so both exist or
neither does), and whoever hears it looks at the row. Nothing here runs a workflow.
"""

from __future__ import annotations

from mailagent.engine.enqueue import Enqueue
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
    PREVIEWS,
    QUEUE_OF,
    REFUND,
    REFUNDS,
    SCHEDULED,
    STATUSES,
    SWEEP,
    WAKE_TOPIC,
    run_id_of,
)
from mailagent.engine.recovery import Orphans, Sweeps, Versions
from mailagent.engine.replay import Refusal, ReplayRefused, Replays, Unheard
from mailagent.engine.run import RecordedStep, Run, first_step_to_repeat, no_such_run, subject_of
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
    "PREVIEWS",
    "QUEUE_OF",
    "REFUND",
    "REFUNDS",
    "SCHEDULED",
    "STATUSES",
    "SWEEP",
    "WAKE_TOPIC",
    "OldRun",
    "RecordedStep",
    "Refusal",
    "ReplayRefused",
    "Run",
    "RunFilter",
    "WorkflowClient",
    "first_step_to_repeat",
    "no_such_run",
    "parse_position",
    "position_of",
    "run_id_of",
    "subject_of",
]


class WorkflowClient(
    Enqueue, Sweeps, Unheard, Replays, Runs, Orphans, Versions, Histories, OldHistories, Depths
):
    """Wakes workflows, looks at their runs and replays them, from any process and by name: no workflow
    code is imported for it."""
