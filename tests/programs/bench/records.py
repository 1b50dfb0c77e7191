"""What the rows say after a measurement: whether every mail was answered, and how many steps it took."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from mailagent.engine import CONVERSATION, DELIVERY, REFUND
from mailagent.store.database import open_database


@dataclass(frozen=True, slots=True)
class Records:
    """`steps`: how many each run recorded that one mail needs, in the median."""

    received: int
    answered: int
    steps: tuple[int, ...]


_MAILS = sa.text(
    "SELECT count(*) AS received, count(*) FILTER (WHERE status = 'answered') AS answered"
    " FROM inbound_mails WHERE received_at BETWEEN :began_at AND :ended_at"
)
_STEPS = sa.text(
    "SELECT name, percentile_disc(0.5) WITHIN GROUP (ORDER BY steps) AS steps FROM ("
    " SELECT run.name, count(step.function_id) AS steps FROM dbos.workflow_status run"
    " LEFT JOIN dbos.operation_outputs step USING (workflow_uuid)"
    " WHERE run.created_at BETWEEN :began_ms AND :ended_ms GROUP BY run.workflow_uuid, run.name"
    ") runs WHERE name IN :names GROUP BY name ORDER BY name"
).bindparams(sa.bindparam("names", expanding=True))

_LEFT = sa.text(
    "SELECT 'mail ' || mail_id || ' is ' || status || ', ' || coalesce(no_answer_reason, 'no reason')"
    " AS line FROM inbound_mails WHERE status <> 'answered'"
    " UNION ALL SELECT purpose || ' ' || outbound_id || ' is ' || status || ', '"
    " || coalesce(error, 'no error') FROM outbound_mails WHERE status <> 'sent'"
    " UNION ALL SELECT 'run ' || workflow_uuid || ' is ' || status"
    " FROM dbos.workflow_status WHERE status <> 'SUCCESS'"
)


def list_left(database_url: str) -> list[str]:
    """Return what is not done yet, a line for each row."""
    database = open_database(database_url)
    with database.snapshot() as connection:
        lines = list(connection.scalars(_LEFT))
    database.close()
    return lines


def read_records(database_url: str, began_at: float, ended_at: float) -> Records:
    """Read the rows of the mails that came between two times, in seconds since 1970."""
    times = {
        "began_at": datetime.fromtimestamp(began_at, UTC),
        "ended_at": datetime.fromtimestamp(ended_at, UTC),
    }
    names = {"names": [CONVERSATION, REFUND, DELIVERY]}
    milliseconds = {"began_ms": began_at * 1000, "ended_ms": ended_at * 1000}
    database = open_database(database_url)
    with database.snapshot() as connection:
        mails = connection.execute(_MAILS, times).one()
        runs = connection.execute(_STEPS, {**milliseconds, **names}).all()
    database.close()
    return Records(mails.received, mails.answered, tuple(run.steps for run in runs))
