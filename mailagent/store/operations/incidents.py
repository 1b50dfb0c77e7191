"""Which matters are open: in the audit trail, as an opening that no closing followed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.operations.incident import Matter, OpenMatter
from mailagent.store import audit, schema

_audit = schema.audit.c
_OPENED, _CLOSED = "matter opened", "matter closed"


def list_open(connection: sa.Connection) -> tuple[OpenMatter, ...]:
    """Return the matters that are open, the oldest first. Fast: the inbox asks at every look."""
    latest = (
        sa.select(sa.func.max(_audit.audit_id))
        .where(_audit.subject.in_(list(Matter)), _audit.action.in_((_OPENED, _CLOSED)))
        .group_by(_audit.subject)
    )
    query = (
        sa.select(_audit.subject, _audit.at, _audit.details)
        .where(_audit.audit_id.in_(latest), _audit.action == _OPENED)
        .order_by(_audit.audit_id)
    )
    return tuple(
        OpenMatter(Matter(row.subject), row.at, row.details.get("why", ""))
        for row in connection.execute(query)
    )


def find_open(connection: sa.Connection, matter: Matter) -> OpenMatter | None:
    return next((each for each in list_open(connection) if each.matter is matter), None)


def list_closed_at(
    connection: sa.Connection, matter: Matter, since: datetime
) -> Sequence[datetime]:
    """Return when a matter was put right since a time, oldest first."""
    query = sa.select(_audit.at).where(
        _audit.subject == matter.value, _audit.action == _CLOSED, _audit.at >= since
    )
    return connection.scalars(query.order_by(_audit.at)).all()


def open_matter(connection: sa.Connection, now: datetime, matter: Matter, why: str) -> int | None:
    """Record that a matter has come up; return its number, or None when it is open already.

    `why` is a line without what a customer wrote. Of two processes at the same moment both may get the
    same number: a notice that is written under it is written once.
    """
    if find_open(connection, matter) is not None:
        return None
    number = _count(connection, matter, _CLOSED) + 1
    audit.record(connection, now, audit.CLOCK, _OPENED, matter.value, {"why": why})
    return number


def close_matter(connection: sa.Connection, now: datetime, matter: Matter) -> bool:
    """Record that a matter is put right; False when it was not open."""
    if find_open(connection, matter) is None:
        return False
    audit.record(connection, now, audit.CLOCK, _CLOSED, matter.value)
    return True


def _count(connection: sa.Connection, matter: Matter, action: str) -> int:
    query = sa.select(sa.func.count()).where(
        _audit.subject == matter.value, _audit.action == action
    )
    return connection.scalar(query) or 0
