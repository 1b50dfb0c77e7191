"""The audit trail: who did what to which row, and when. It only grows; a trigger sees to that.

Details hold ids, amounts and states, never what a customer wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.store import schema

AGENT = "agent"
POLICY = "policy"
CLOCK = "clock"


def record(
    connection: sa.Connection,
    now: datetime,
    actor: str,
    action: str,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record that `actor` did `action` (a past participle) to the row with the id `subject`."""
    connection.execute(
        schema.audit.insert().values(
            at=now, actor=actor, action=action, subject=subject, details=dict(details or {})
        )
    )


def list_of(connection: sa.Connection, subject: str) -> list[dict[str, Any]]:
    """Return what happened to one row, oldest first."""
    query = (
        sa.select(schema.audit)
        .where(schema.audit.c.subject == subject)
        .order_by(schema.audit.c.audit_id)
    )
    return [dict(row._mapping) for row in connection.execute(query)]
