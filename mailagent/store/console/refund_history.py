"""What happened to one refund: who was asked, who decided what, and what we wrote about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mailagent.domain.refunds.refund import Refund
from mailagent.store import schema
from mailagent.store.console import timeline_entries
from mailagent.store.console.timeline_entries import Entry, EntryKind
from mailagent.store.database import Row

MAILS_MAX = 50
ACTS_MAX = 200


def policy_facts(connection: sa.Connection, refund: Refund) -> Mapping[str, Any]:
    """Return what the policy knew when it decided."""
    facts: Mapping[str, Any] | None = connection.scalar(
        sa.select(schema.refunds.c.policy_facts).where(
            schema.refunds.c.refund_id == refund.refund_id
        )
    )
    return facts or {}


def list_steps(connection: sa.Connection, refund: Refund) -> list[Entry]:
    """Return who was asked, what they decided and what they noted, oldest first."""
    found = timeline_entries.read_approvals(connection, refund.refund_id)
    return sorted(found, key=lambda entry: (entry.at, entry.key))


def list_mails(connection: sa.Connection, refund_id: str) -> Sequence[Row]:
    """Return our newest mails about a refund, oldest of them first."""
    mails = schema.outbound_mails
    query = timeline_entries.mails_out(
        sa.or_(
            mails.c.refund_id == refund_id,
            mails.c.outbound_id
            == sa.select(schema.refunds.c.receipt_id)
            .where(schema.refunds.c.refund_id == refund_id)
            .scalar_subquery(),
        )
    )
    rows = connection.execute(
        query.order_by(mails.c.created_at.desc(), mails.c.outbound_id).limit(MAILS_MAX)
    ).all()
    return rows[::-1]


def list_audit(connection: sa.Connection, refund_id: str) -> list[Entry]:
    """Return what the audit trail says was done to a refund, oldest first."""
    rows = connection.execute(
        sa.select(schema.audit)
        .where(schema.audit.c.subject == refund_id)
        .order_by(schema.audit.c.audit_id)
        .limit(ACTS_MAX)
    )
    return [Entry(row.at, f"audit:{row.audit_id}", EntryKind.AUDIT, row._asdict()) for row in rows]
