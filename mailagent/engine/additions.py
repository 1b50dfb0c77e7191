"""What we add to DBOS's table of runs.

Triggers keep each run in its own queue, and a conversation in the partition of its customer, even if another
tool enqueues it.

`dbos workflow fork` and `resume`, the DBOS console and a plain `DBOSClient` put a run into DBOS's internal
queue, and a fork or rewind into no partition. There it would run beside another run of the same customer
(docs/decisions/0001).

On PostgreSQL, an index has the successful runs by the row that they are about. Without it, PostgreSQL would
read all runs to find whether a later one replaces a failed one. SQLite has no such index: a shop on SQLite is
small.
"""

from __future__ import annotations

from textwrap import dedent

import sqlalchemy as sa

from mailagent.engine import CONVERSATION, CONVERSATIONS, INTERNAL_QUEUE, QUEUE_OF

_NAME = "mailagent_own_queue"
_OURS = ", ".join(f"'{workflow}'" for workflow in QUEUE_OF)
_QUEUE = " ".join(f"WHEN '{workflow}' THEN '{queue}'" for workflow, queue in QUEUE_OF.items())
# DBOS never starts a run of the partitioned queue that has no partition.
_IS_MISPLACED = (
    f"NEW.name IN ({_OURS}) AND (NEW.queue_name = '{INTERNAL_QUEUE}'"
    f" OR (NEW.queue_name = '{CONVERSATIONS}' AND NEW.queue_partition_key IS NULL))"
)


def add_ours(connection: sa.Connection) -> None:
    """Create the triggers and the index if they are missing. DBOS's tables must exist."""
    is_postgresql = connection.dialect.name == "postgresql"
    for statement in _POSTGRESQL if is_postgresql else _SQLITE:
        connection.exec_driver_sql(statement)


_FUNCTION = dedent(f"""
    CREATE OR REPLACE FUNCTION {_NAME}() RETURNS TRIGGER LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        NEW.queue_name := CASE NEW.name {_QUEUE} END;
        IF NEW.name <> '{CONVERSATION}' THEN
            NEW.queue_partition_key := NULL;
        ELSIF NEW.queue_partition_key IS NULL AND TG_OP = 'UPDATE' THEN
            NEW.queue_partition_key := OLD.queue_partition_key;
        ELSIF NEW.queue_partition_key IS NULL THEN
            SELECT queue_partition_key INTO NEW.queue_partition_key
            FROM dbos.workflow_status WHERE workflow_uuid = NEW.forked_from;
        END IF;
        IF NEW.name = '{CONVERSATION}' AND NEW.queue_partition_key IS NULL THEN
            NEW.queue_partition_key := coalesce(NEW.attributes ->> 'subject', NEW.workflow_uuid);
        END IF;
        RETURN NEW;
    END
    $$
""")  # noqa: S608 - names of ours, no input
# Each is created only where it is missing: creating it waits for every transaction that writes to the table.
_TRIGGER = dedent(f"""
    DO $do$ BEGIN
        IF NOT EXISTS (
            SELECT 1 FROM pg_trigger
            WHERE tgname = '{_NAME}' AND tgrelid = 'dbos.workflow_status'::regclass
        ) THEN
            CREATE TRIGGER {_NAME} BEFORE INSERT OR UPDATE OF queue_name ON dbos.workflow_status
            FOR EACH ROW WHEN ({_IS_MISPLACED}) EXECUTE FUNCTION {_NAME}();
        END IF;
    END $do$
""")  # noqa: S608 - names of ours, no input
_INDEX = dedent("""
    DO $do$ BEGIN
        IF to_regclass('dbos.mailagent_succeeded') IS NULL THEN
            CREATE INDEX mailagent_succeeded
            ON dbos.workflow_status ((attributes ->> 'subject'), created_at)
            WHERE status = 'SUCCESS';
        END IF;
    END $do$
""")
_POSTGRESQL = (_FUNCTION, _TRIGGER, _INDEX)


def _on_sqlite(event: str, former_key: str) -> str:
    return dedent(f"""
        CREATE TRIGGER IF NOT EXISTS {_NAME}_{event.split(maxsplit=1)[0].lower()}
        AFTER {event} ON workflow_status WHEN {_IS_MISPLACED}
        BEGIN
            UPDATE workflow_status SET
                queue_name = CASE NEW.name {_QUEUE} END,
                queue_partition_key = CASE WHEN NEW.name = '{CONVERSATION}' THEN coalesce(
                    NEW.queue_partition_key, {former_key},
                    json_extract(NEW.attributes, '$.subject'), NEW.workflow_uuid
                ) END
            WHERE workflow_uuid = NEW.workflow_uuid;
        END
    """)  # noqa: S608 - names of ours, no input


_OF_ORIGIN = (
    "(SELECT queue_partition_key FROM workflow_status WHERE workflow_uuid = NEW.forked_from)"
)
_SQLITE = (
    _on_sqlite("INSERT", _OF_ORIGIN),
    _on_sqlite("UPDATE OF queue_name", "OLD.queue_partition_key"),
)
