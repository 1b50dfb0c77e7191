"""Which failed runs need no person any more: conditions of queries in `tables`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import MailStatus
from mailagent.engine import FAILED

# A table of ours, which is in the same database.
_mails = sa.table(
    "inbound_mails",
    *(sa.column(name) for name in ("conversation_id", "run_id", "status", "draft_id")),
).c


def is_replaced(
    table: sa.TableClause, subject_of: Callable[[Any], sa.ColumnElement[str]]
) -> sa.ColumnElement[bool]:
    """Return whether another run counts instead of a failed one: a fork that was made after it failed, or a
    later run of the same workflow about the same row that succeeded. But a later run of a conversation may take
    other mail, or put it off: the failed one counts while the mail that it was enqueued for waits."""
    runs, forks, later = table.c, table.alias("forks").c, table.alias("later").c
    failed_at = sa.func.coalesce(runs.completed_at, runs.updated_at)
    forked_since = sa.exists().where(
        forks.forked_from == runs.workflow_uuid, forks.created_at >= failed_at
    )
    succeeded_since = sa.exists().where(
        subject_of(later) == subject_of(runs),
        later.name == runs.name,
        is_one_of(later.status, ("SUCCESS",)),
        later.created_at >= failed_at,
    )
    mail_waits = sa.exists().where(
        _mails.conversation_id == subject_of(runs),
        sa.or_(
            _mails.run_id.in_([runs.workflow_uuid, runs.forked_from]),
            runs.workflow_uuid.startswith(_mails.run_id + "-fork-"),  # a fork of a fork of ours
        ),
        is_one_of(_mails.status, (MailStatus.UNANSWERED.value,)),
        _mails.draft_id.is_(None),
    )
    was_forked = sa.and_(runs.was_forked_from.is_(sa.true()), forked_since)
    return sa.and_(
        has_failed(runs.status), sa.or_(was_forked, sa.and_(succeeded_since, ~mail_waits))
    )


def has_failed(status: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    return is_one_of(status, sorted(FAILED))


def is_one_of(status: sa.ColumnElement[Any], statuses: Iterable[str]) -> sa.ColumnElement[bool]:
    # Constants, not parameters: PostgreSQL finds partial indexes by them only.
    return status.in_([sa.literal_column(f"'{each}'") for each in statuses])
