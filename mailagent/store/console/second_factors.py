"""The secrets of the shop's people for one-time codes, encrypted, and which codes were used.

Wrong codes are counted in the audit trail, so all web processes agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent.store import audit, schema
from mailagent.store.console import sessions

ENROLLED = "second factor enrolled"
REFUSED = "second factor refused"
RESET = "second factor reset"

WRONG_CODES = 5
COUNTED_FOR = timedelta(minutes=15)

_factors = schema.second_factors


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """`last_step` is the time step of the last code that was used (RFC 6238 section 5.2)."""

    encrypted_secret: str
    last_step: int


def find(connection: sa.Connection, email: str, *, for_update: bool = False) -> SecondFactor | None:
    """Return the secret that somebody has enrolled, or None. With `for_update` its row stays locked, so
    that codes of one person are checked one after the other."""
    query = sa.select(_factors).where(_factors.c.email == email)
    if for_update:
        query = query.with_for_update()
    row = connection.execute(query).one_or_none()
    return SecondFactor(row.encrypted_secret, row.last_step) if row else None


def enrol(
    connection: sa.Connection, email: str, encrypted_secret: str, step: int, now: datetime
) -> bool:
    """Record a secret whose code for `step` was typed; False if the person has one by now."""
    values = {
        "email": email,
        "encrypted_secret": encrypted_secret,
        "last_step": step,
        "enrolled_at": now,
    }
    try:
        with connection.begin_nested():
            connection.execute(_factors.insert().values(values))
    except sa.exc.IntegrityError:
        return False
    audit.record(connection, now, email, ENROLLED, email)
    return True


def use_step(connection: sa.Connection, email: str, step: int) -> bool:
    """Use the code of a time step up; False if it, or a later one, was used before."""
    used = connection.execute(
        _factors.update()
        .where(_factors.c.email == email, _factors.c.last_step < step)
        .values(last_step=step)
    )
    return used.rowcount == 1


def refuse(connection: sa.Connection, email: str, now: datetime) -> None:
    """Record that a code was wrong."""
    audit.record(connection, now, email, REFUSED, email)


def is_locked(connection: sa.Connection, email: str, now: datetime) -> bool:
    """Whether somebody has typed so many wrong codes that no further one is checked for now."""
    table = schema.audit
    wrong = sa.select(sa.func.count()).where(
        table.c.subject == email, table.c.action == REFUSED, table.c.at > now - COUNTED_FOR
    )
    return (connection.scalar(wrong) or 0) >= WRONG_CODES


def reset(connection: sa.Connection, email: str, actor: str, now: datetime) -> bool:
    """Remove somebody's secret and end their sessions; False if they had no secret."""
    removed = connection.execute(_factors.delete().where(_factors.c.email == email)).rowcount == 1
    ended = sessions.end_all_of(connection, email, now)
    if removed or ended:
        audit.record(connection, now, actor, RESET, email, {"sessions_ended": ended})
    return removed
