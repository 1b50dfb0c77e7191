"""A database that has been in use for long: mails, conversations, refunds and ended runs, none of which waits
for anybody. Only PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.store.database import open_database
from tests.programs.console.fill import Size, fill

# Where DBOS keeps what belongs to a run; all of them name the run in this column.
_OF_A_RUN = ("workflow_status", "workflow_input", "workflow_output", "operation_outputs")
_RUN = "workflow_uuid"
# A run is kept for thirty days; those of the stock ended within so many.
_DAYS_MS = 25 * 24 * 3600 * 1000
_OLDER = f"{{column}} - number * {_DAYS_MS} / {{{{count}}}}"
# What tells one copy from another; all else is the same.
_OF_A_COPY = {
    _RUN: f"'stock-' || number || '-' || {_RUN}",
    "queue_partition_key": "'conversation_' || number",
    "attributes": "attributes || jsonb_build_object('subject', 'conversation_' || number,"
    " 'conversation', 'conversation_' || number, 'customer_hash', md5(number::text))",
    **{
        column: _OLDER.format(column=column)
        for column in ("created_at", "updated_at", "completed_at", "retention_timestamp")
    },
}

# What waits would be worked on meanwhile: reminders, expiries, hand-overs.
_WAITS = ("INSERT INTO approvals", "approval_requests", "INSERT INTO drafts", "dismissals", "dbos.")
_SETTLE = (
    "UPDATE refunds SET status = 'expired' WHERE status = 'awaiting_approval'",
    "UPDATE inbound_mails SET status = 'no_answer', no_answer_reason = 'made for a benchmark'"
    " WHERE status IN ('unanswered', 'throttled')",
    "UPDATE conversations SET status = 'open', handed_over_reason = NULL, handed_over_at = NULL,"
    " owner_email = NULL WHERE status = 'handed_over'",
    "UPDATE outbound_mails SET status = 'sent' WHERE status = 'undelivered'",
)
_MODEL_CALLS = (
    "INSERT INTO model_calls (conversation_id, at, model, outcome, input_tokens, cached_tokens,"
    " output_tokens) SELECT conversation_id, received_at, 'scripted-demo-model', 'done', 2000, 0, 100"
    " FROM inbound_mails, generate_series(1, 2)"
)


def fill_stock(database_url: str, mails: int) -> None:
    """Fill a migrated database with so many mails in a tenth as many conversations, all dealt with."""
    database = open_database(database_url)
    fill(database.engine, Size(mails, mails // 10, mails // 100), without=_WAITS)
    with database.transaction() as connection:
        for statement in (*_SETTLE, _MODEL_CALLS):
            connection.execute(sa.text(statement))
    database.close()


def copy_runs(database_url: str, count: int) -> dict[str, int]:
    """Copy one ended run of a conversation so often, all that DBOS keeps of it; return how many rows each
    of DBOS's tables has then."""
    database = open_database(database_url)
    with database.transaction() as connection:
        run_id = connection.scalar(
            sa.text(
                f"SELECT {_RUN} FROM dbos.workflow_status"
                " WHERE name = 'conversation' AND status = 'SUCCESS' ORDER BY created_at LIMIT 1"
            )
        )
        for table in _OF_A_RUN:
            connection.execute(sa.text(_copying(connection, table, count)), {"run_id": run_id})
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
        rows = {
            table: int(connection.scalar(sa.text(f"SELECT count(*) FROM dbos.{table}")) or 0)
            for table in _OF_A_RUN
        }
    database.close()
    return rows


def _copying(connection: sa.Connection, table: str, count: int) -> str:
    """Return the statement that copies one run's rows of a table, each copy a little older."""
    columns = [each["name"] for each in sa.inspect(connection).get_columns(table, schema="dbos")]
    values = ", ".join(_OF_A_COPY.get(column, column).format(count=count) for column in columns)
    return (
        f"INSERT INTO dbos.{table} ({', '.join(columns)}) SELECT {values}"
        f" FROM dbos.{table}, generate_series(1, {count}) number WHERE {_RUN} = :run_id"
    )
