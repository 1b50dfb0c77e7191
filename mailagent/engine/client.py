"""The workflow client: enqueues and wakes workflows, and reads and replays their runs, from any process.

It knows workflows by name and imports none of their code. DBOS takes a quarter of a second to import: the
parts do that at first use, so that commands which need none of them are fast.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import sqlalchemy as sa

from mailagent.domain.operations.run_about import RunAbout
from mailagent.engine import APPLICATION_NAME
from mailagent.engine.tables import SystemTables

if TYPE_CHECKING:
    from dbos import DBOSClient

    from mailagent.engine.enqueue import Queue
    from mailagent.engine.replay import Replays
    from mailagent.engine.run import Run
    from mailagent.engine.runs import CountReplays, Runs


class WorkflowClient:
    """DBOS's client on the app's own engine, in four parts: `queue`, `runs`, `replays` and `tables`."""

    def __init__(
        self,
        engine: sa.Engine,
        describe: Callable[[sa.Connection, str], RunAbout] | None = None,
        before_replay: Callable[[sa.Connection, Run], None] | None = None,
        count_replays: CountReplays | None = None,
    ) -> None:
        """Connect at first use. `describe` finds out what a row is about, so that its run can be found by it.
        `before_replay` prepares rows for a run that is replayed. `count_replays` counts by run how often
        people have replayed it in place, which DBOS does not record."""
        self._engine, self._describe, self._before_replay = engine, describe, before_replay
        self._count_replays = count_replays
        self.tables = SystemTables(engine.dialect.name == "sqlite")

    @cached_property
    def _dbos(self) -> DBOSClient:
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        return DBOSClient(
            system_database_engine=self._engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION_NAME,
            lazy=True,
            retry_connection_errors=False,
        )

    @cached_property
    def queue(self) -> Queue:
        from mailagent.engine.enqueue import Queue

        return Queue(self._dbos, self.tables, self._describe)

    @cached_property
    def runs(self) -> Runs:
        from mailagent.engine.runs import Runs

        return Runs(self._dbos, self.tables, self._engine, self._count_replays)

    @cached_property
    def replays(self) -> Replays:
        from mailagent.engine.replay import Replays

        return Replays(self._dbos, self.runs, self._engine, self._before_replay)

    def close(self) -> None:
        """Close DBOS's client. The engine stays open: it belongs to the app."""
        self._dbos.destroy()
