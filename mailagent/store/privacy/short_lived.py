"""Rows that serve for a while only: logins, who was alive, who was away, what the model cost long ago."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.domain.retention import LOGIN_DAYS, MODEL_CALL_DAYS, PRESENCE_DAYS
from mailagent.store import schema


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows of one sort go so many `days` after `moment`. `what` is what a person calls them."""

    what: str
    key: sa.Column[Any]
    moment: sa.Column[datetime]
    days: int

    def is_due(self, now: datetime) -> sa.ColumnElement[bool]:
        return self.moment < now - timedelta(days=self.days)


RULES = (
    Rule(
        "login links", schema.login_links.c.token_hash, schema.login_links.c.expires_at, LOGIN_DAYS
    ),
    Rule(
        "attempts to log in",
        schema.login_attempts.c.attempt_id,
        schema.login_attempts.c.at,
        LOGIN_DAYS,
    ),
    Rule("sessions", schema.sessions.c.session_hash, schema.sessions.c.expires_at, LOGIN_DAYS),
    Rule(
        "workers that are gone",
        schema.workers.c.worker_id,
        schema.workers.c.seen_at,
        PRESENCE_DAYS,
    ),
    Rule(
        "absences of managers",
        schema.manager_absences.c.manager_email,
        schema.manager_absences.c.until,
        PRESENCE_DAYS,
    ),
    Rule(
        "calls of the model", schema.model_calls.c.call_id, schema.model_calls.c.at, MODEL_CALL_DAYS
    ),
)


def count(connection: sa.Connection, rule: Rule, now: datetime) -> int:
    """Return how many rows of a sort are to go."""
    query = sa.select(sa.func.count()).select_from(rule.key.table).where(rule.is_due(now))
    return connection.scalar(query) or 0


def purge(connection: sa.Connection, rule: Rule, now: datetime, limit: int) -> int:
    """Delete the oldest rows of a sort that are to go; return how many. Rows that another purge is at
    are left to it."""
    due = connection.scalars(
        sa.select(rule.key)
        .where(rule.is_due(now))
        .order_by(rule.moment)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    if due:
        connection.execute(sa.delete(rule.key.table).where(rule.key.in_(due), rule.is_due(now)))
    return len(due)


def forget_put_away(connection: sa.Connection, run_ids: Sequence[str]) -> None:
    """Forget that somebody had seen to runs which are gone."""
    table = schema.put_away
    connection.execute(table.delete().where(table.c.subject.in_(run_ids)))
