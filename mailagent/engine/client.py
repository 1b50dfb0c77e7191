"""The connection to DBOS that waking, looking and replaying share."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer
from sqlalchemy.dialects.postgresql import JSONB

from mailagent.domain.operations.run_about import RunAbout
from mailagent.engine.names import APPLICATION_NAME

# Returns what a row is about, so that its run can be found by it.
Describe = Callable[[sa.Connection, str], RunAbout]
# Readies rows for a run that is replayed.
BeforeReplay = Callable[[sa.Connection], None]


class Dbos:
    """DBOS's client, the database that it shares with us, and a description of its table of runs."""

    def __init__(
        self,
        engine: sa.Engine,
        describe: Describe | None = None,
        before_replay: BeforeReplay | None = None,
    ) -> None:
        """Connect to nothing yet. `describe` is asked about rows of which a caller says no more than the
        id; without it such runs can be found by that only. `before_replay` is called before a run is
        queued again."""
        self.is_sqlite = engine.dialect.name == "sqlite"
        self.runs = _table_of_runs(None if self.is_sqlite else "dbos")
        self.engine = engine
        self.describe = describe or (lambda _connection, _subject: RunAbout())
        self.before_replay = before_replay or (lambda _connection: None)
        self.client = DBOSClient(
            system_database_engine=engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION_NAME,
            lazy=True,
            retry_connection_errors=False,
        )

    def close(self) -> None:
        """Close the client's connections. The engine stays open: it belongs to the app."""
        self.client.destroy()


class Part:
    """One job of the workflow client, over the connection that all parts share."""

    def __init__(self, dbos: Dbos) -> None:
        self._is_sqlite = dbos.is_sqlite
        self._runs = dbos.runs
        self._engine = dbos.engine
        self._describe = dbos.describe
        self._before_replay = dbos.before_replay
        self._client = dbos.client


def _table_of_runs(schema: str | None) -> sa.TableClause:
    """Describe DBOS's documented table of runs, for questions that its client cannot be asked: within
    our transaction (it opens connections of its own), about all workers but some, about attributes on
    SQLite, and page by page."""
    names = (
        "workflow_uuid",
        "name",
        "status",
        "executor_id",
        "application_version",
        "created_at",
        "updated_at",
        "completed_at",
        "forked_from",
        "was_forked_from",
        "queue_name",
        "owner_xid",
        "started_at_epoch_ms",
    )
    attributes: sa.ColumnClause[object] = sa.column("attributes", JSONB if schema else sa.Text)
    return sa.table(
        "workflow_status", *(sa.column(name) for name in names), attributes, schema=schema
    )
