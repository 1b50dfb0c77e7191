"""The workflow client: enqueues and wakes workflows, and reads and replays their runs, from any process.

It knows workflows by name and imports none of their code.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer

from mailagent.domain.operations.run_about import RunAbout
from mailagent.engine import APPLICATION_NAME
from mailagent.engine.enqueue import Queue
from mailagent.engine.replay import Replays
from mailagent.engine.runs import Runs
from mailagent.engine.tables import SystemTables


class WorkflowClient:
    """DBOS's client on the app's own engine, in four parts: `queue`, `runs`, `replays` and `tables`."""

    def __init__(
        self,
        engine: sa.Engine,
        describe: Callable[[sa.Connection, str], RunAbout] | None = None,
        before_replay: Callable[[sa.Connection], None] | None = None,
    ) -> None:
        """Connect lazily. `describe` finds out what a row is about, so that its run can be found by it.
        `before_replay` prepares rows for a run that is replayed."""
        self._dbos = DBOSClient(
            system_database_engine=engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION_NAME,
            lazy=True,
            retry_connection_errors=False,
        )
        self.tables = SystemTables(engine.dialect.name == "sqlite")
        self.queue = Queue(self._dbos, self.tables, describe)
        self.runs = Runs(self._dbos, self.tables, engine)
        self.replays = Replays(self._dbos, self.runs, engine, before_replay)

    def close(self) -> None:
        """Close DBOS's client. The engine stays open: it belongs to the app."""
        self._dbos.destroy()
