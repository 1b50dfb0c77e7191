"""The workflow client: workflow names, ids and queues; enqueue, wake, read and replay runs.

Messages only wake a workflow; it then reads its state from the database. The row and its wake-up are written
in one transaction. Nothing here runs a workflow.
"""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.engine.client import BeforeReplay, Dbos, Describe
from mailagent.engine.enqueue import Queue
from mailagent.engine.garbage_collection import Histories, OldRun
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
from mailagent.engine.recovery import Recovery
from mailagent.engine.replay import Refusal, ReplayRefused, Replays
from mailagent.engine.run import RecordedStep, Run, first_step_to_repeat, no_such_run, subject_of
from mailagent.engine.runs import RunFilter, Runs, parse_position, position_of

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


class WorkflowClient:
    """Enqueues and wakes workflows, reads and replays their runs, from any process and by name: it imports no
    workflow code."""

    def __init__(
        self,
        engine: sa.Engine,
        describe: Describe | None = None,
        before_replay: BeforeReplay | None = None,
    ) -> None:
        """Connect to nothing yet; arguments as for `Dbos`."""
        self._dbos = Dbos(engine, describe, before_replay)
        self.queue = Queue(self._dbos)
        self.runs = Runs(self._dbos)
        self.replays = Replays(self._dbos, self.runs)
        self.recovery = Recovery(self._dbos)
        self.histories = Histories(self._dbos)

    def close(self) -> None:
        """Close DBOS's client."""
        self._dbos.close()
