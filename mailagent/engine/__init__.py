"""The workflow client: workflow names, ids and queues; enqueue, wake, read and replay runs.

Messages only wake a workflow; it then reads its state from the database. The row and its wake-up are written
in one transaction. Nothing here runs a workflow.
"""

from __future__ import annotations

from mailagent.engine.client import WorkflowClient
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
from mailagent.engine.replay import Refusal, ReplayRefused
from mailagent.engine.run import (
    OldRun,
    RecordedStep,
    Run,
    RunFilter,
    first_step_to_repeat,
    no_such_run,
    parse_position,
    position_of,
    subject_of,
)
from mailagent.engine.tables import LATE_AFTER

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
    "LATE_AFTER",
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
