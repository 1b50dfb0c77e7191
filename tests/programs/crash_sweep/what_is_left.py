"""What stands in the rows of a shop whose promise was broken: its log rarely tells what was waited for."""

from __future__ import annotations

import sqlalchemy as sa

from tests.programs.crash_sweep.shop import SweptShop

# Ids, states and times. What steps returned is cut: it has words of mails in it.
_OURS = (
    "SELECT conversation_id, status FROM conversations",
    "SELECT mail_id, status, no_answer_reason, answered_by, received_at FROM inbound_mails",
    "SELECT refund_id, status, requested_at, failure FROM refunds",
    "SELECT idempotency_key, state, attempts, problem FROM refund_payments",
    "SELECT outbound_id, purpose, status, attempts, error, created_at, sending_at, next_attempt_at"
    " FROM outbound_mails",
    "SELECT * FROM breakers",
    "SELECT * FROM workers",
)
_RUNS = (
    "SELECT workflow_uuid, name, status, queue_name, executor_id, created_at, updated_at"
    " FROM {runs} ORDER BY created_at",
    "SELECT workflow_uuid, function_id, function_name, output, error, completed_at_epoch_ms"
    " FROM {steps} ORDER BY completed_at_epoch_ms",
)
MOST_LETTERS = 300


def describe(shop: SweptShop) -> str:
    """Return the rows that something may still be done about, a line each."""
    schema = "dbos." if shop.database.engine.dialect.name == "postgresql" else ""
    tables = {"runs": f"{schema}workflow_status", "steps": f"{schema}operation_outputs"}
    lines = []
    for query in (*_OURS, *(each.format(**tables) for each in _RUNS)):
        lines.append(query.partition(" FROM ")[2])
        try:
            found = shop.rows(query)
        except sa.exc.DBAPIError as problem:
            lines.append(f"    cannot be read: {problem.orig}")
            continue
        lines += [f"    {dict(row._mapping)}"[:MOST_LETTERS] for row in found]
    return "\n".join(lines)
