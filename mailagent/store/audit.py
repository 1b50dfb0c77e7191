"""The audit log: who did what to which row, and when. Append-only, enforced by a trigger.

Details hold ids, amounts and states, never a customer's words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

import sqlalchemy as sa

from mailagent.store import schema
from mailagent.store.database import Database, Row, count_rows
from mailagent.store.pagination import Cursor, Part, Source, Window, read_part

_audit = schema.audit
_recorded: ContextVar[int] = ContextVar("acts recorded", default=0)

AGENT = "agent"
POLICY = "policy"
CLOCK = "clock"
CUSTOMER = "customer"
# The actors that are no person. Gateways and the mail provider act under their own names.
ACTORS = (AGENT, POLICY, CLOCK, CUSTOMER)

# All actions. Pages translate each.
Action = Literal[
    "app killed", "audit exported", "bounce disregarded", "breaker closed", "brought back",
    "chargeback ended", "conversation assigned", "conversation closed", "conversation given back",
    "conversation handed over", "conversation reopened", "conversation snoozed",
    "conversation taken over", "customer answered", "customer erased", "decision taken back",
    "dismissed", "draft discarded", "draft sent", "draft sent with changes", "draft superseded",
    "draft written", "goods back too late", "goodwill given", "goodwill told", "incident closed",
    "incident opened", "logged in", "logged out", "login link printed", "loop detected",
    "loop guard reset", "mail allowed again", "mail answered", "mail doubted after a restore",
    "mail given up", "mail refused", "mail sent again", "mail settled", "mail suppressed",
    "mail written after a restore", "mail written again", "manager asked", "manager passed over",
    "manager reminded", "money chosen", "nobody could be told", "note written", "offer accepted",
    "offer declined", "offer expired", "offer lapsed", "offer told", "operators told",
    "part of the price offered", "payment charged back", "payment failed",
    "payment reported again", "payment settled", "refund approved",
    "refund approved, second approval awaited", "refund awaiting_approval",
    "refund declined", "refund expired", "refund failed", "refund given to people",
    "refund not made", "refund paid", "refund rejected", "refund returned", "refund withdrawn",
    "refunded elsewhere", "refunded elsewhere, returned",
    "request approved, second approval awaited", "request done", "request expired", "request made",
    "request not possible", "request reported again", "request withdrawn", "run forked",
    "run rewound", "run stopped", "runs replayed together", "saved reply deleted",
    "saved reply written", "second factor enrolled", "second factor refused", "second factor reset",
    "store credit asked for", "store credit chosen", "store credit offered", "tag added",
    "tag removed", "team reply held", "test mail reported", "withdrawal asked for",
]  # fmt: skip
ACTIONS: tuple[Action, ...] = get_args(Action)

# Actions that code searches for.
TOLD: Final = "operators told"
GIVEN_BACK: Final = "conversation given back"
WRITTEN_AGAIN: Final = "mail written again"
SENT_AGAIN: Final = "mail sent again"
WITHDRAWN: Final = "refund withdrawn"
WITHDRAWAL_ASKED_FOR: Final = "withdrawal asked for"  # of an order, also if nothing waited
REQUEST_WITHDRAWN: Final = "request withdrawn"
DECLINED: Final = "refund declined"
CREDIT_ASKED_FOR: Final = "store credit asked for"  # before it was offered: for units, or a refund
CREDIT_OFFERED: Final = "store credit offered"
TEST_REPORTED: Final = "test mail reported"  # by the event webhook
GOODWILL_TOLD: Final = "goodwill told"
BACK_TOO_LATE: Final = "goods back too late"
FIRST_APPROVED: Final = "request approved, second approval awaited"  # of a task
PAID_AGAIN: Final = "payment reported again"  # by another person, or with another reference
DONE_AGAIN: Final = "request reported again"  # a task
OFFER_TOLD: Final = "offer told"
MANAGER_ASKED: Final = "manager asked"  # about a refund, or a task that is stopped
MANAGER_REMINDED: Final = "manager reminded"
CLOSED: Final = "breaker closed"
TAKEN_BACK: Final = "decision taken back"  # the triggers look for it
# What happens to a refund that its customer must be told.
OUTCOMES: Final[tuple[Action, ...]] = (
    "refund expired",
    "refund failed",
    "refund paid",
    "refund rejected",
    "refund returned",
)


def record(
    connection: sa.Connection,
    now: datetime,
    actor: str,
    action: Action,
    subject: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record that `actor` (a mail address, a provider or one of ACTORS) did `action` to the row with the id
    `subject`. `details` are JSON: ids, amounts and states."""
    values = {"at": now, "actor": actor, "action": action, "subject": subject}
    # `inline` saves asking for the new row's number.
    connection.execute(_audit.insert().inline(), {**values, "details": dict(details or {})})
    _recorded.set(_recorded.get() + 1)


def count_recorded() -> int:
    """Return how many acts this thread or task has recorded so far. If a form's request records none, it has
    changed nothing."""
    return _recorded.get()


def told(connection: sa.Connection, subjects: Sequence[str]) -> set[str]:
    """Return those of these rows about which operators have had a mail."""
    query = sa.select(_audit.c.subject).where(
        _audit.c.subject.in_(subjects), _audit.c.action == TOLD
    )
    return set(connection.scalars(query))


def details_of_mails(
    connection: sa.Connection, subjects: Sequence[str], action: Action, mail_ids: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the details of the last `action` on each of these rows, by row id; only acts in answer to one of
    these mails count."""
    if not subjects:
        return {}
    query = sa.select(_audit.c.subject, _audit.c.details).where(
        _audit.c.subject.in_(subjects), _audit.c.action == action
    )
    rows = connection.execute(query.order_by(_audit.c.audit_id))
    return {row.subject: row.details for row in rows if row.details.get("mail_id") in mail_ids}


def list_of_mails(
    connection: sa.Connection, subject: str, action: Action, mail_ids: Sequence[str]
) -> list[Row]:
    """Return when each `action` on a row was done in answer to these mails, and its details, oldest first."""
    rows = list_with_details(connection, subject, action)
    return [row for row in rows if row.details.get("mail_id") in mail_ids]


def list_with_details(connection: sa.Connection, subject: str, action: Action) -> Sequence[Row]:
    """Return when each `action` on a row was done, and its details, oldest first."""
    query = sa.select(_audit.c.at, _audit.c.details).where(
        _audit.c.subject == subject, _audit.c.action == action
    )
    return connection.execute(query.order_by(_audit.c.audit_id)).all()


def list_details(
    connection: sa.Connection, subject: str, *actions: Action
) -> Sequence[dict[str, Any]]:
    """Return the details of each of these `actions` on a row, oldest first."""
    query = sa.select(_audit.c.details).where(
        _audit.c.subject == subject, _audit.c.action.in_(actions)
    )
    return connection.scalars(query.order_by(_audit.c.audit_id)).all()


def count_of(connection: sa.Connection, subject: str) -> int:
    """Return how many acts on a row are on record."""
    return count_rows(connection, _audit.c.subject == subject)


def count_each(connection: sa.Connection, subjects: Sequence[str]) -> Counter[str]:
    """Return how many acts on each of these rows are on record."""
    query = sa.select(_audit.c.subject, sa.func.count()).where(_audit.c.subject.in_(subjects))
    rows = connection.execute(query.group_by(_audit.c.subject))
    return Counter({row.subject: row[1] for row in rows})


def count_replays(connection: sa.Connection, run_ids: Sequence[str]) -> Counter[str]:
    """Return how often each of these runs was replayed in place."""
    query = sa.select(_audit.c.subject, sa.func.count()).where(
        _audit.c.subject.in_(run_ids), _audit.c.action == "run rewound"
    )
    rows = connection.execute(query.group_by(_audit.c.subject))
    return Counter({row.subject: row[1] for row in rows})


def list_acts(
    connection: sa.Connection, subjects: Collection[str], action: Action
) -> Sequence[Row]:
    """Return who did `action` to which of these rows, and when, oldest first."""
    query = sa.select(_audit.c.subject, _audit.c.actor, _audit.c.at).where(
        _audit.c.subject.in_(subjects), _audit.c.action == action
    )
    return connection.execute(query.order_by(_audit.c.audit_id)).all()


def latest_at(connection: sa.Connection, subject: str, action: Action) -> datetime | None:
    """Return when `action` was last done to a row, or None."""
    query = sa.select(_audit.c.at).where(_audit.c.subject == subject, _audit.c.action == action)
    return connection.scalar(query.order_by(_audit.c.audit_id.desc()).limit(1))


def list_of(connection: sa.Connection, subject: str, actions: Sequence[Action]) -> Sequence[Row]:
    """Return which of these actions were done to a row, and when, oldest first."""
    query = sa.select(_audit.c.action, _audit.c.at).where(
        _audit.c.subject == subject, _audit.c.action.in_(actions)
    )
    return connection.execute(query.order_by(_audit.c.audit_id)).all()


# --- read -----------------------------------------------------------------------------------------

BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Act:
    """One entry of the audit log."""

    audit_id: int
    at: datetime
    actor: str
    action: str
    subject: str
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which acts to read: those that match all fields that are set."""

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def read(connection: sa.Connection, wanted: Wanted, window: Window) -> Part[Act]:
    """Return one page of the audit log."""
    source = Source(_query(wanted), _audit.c.at, _audit.c.audit_id, _act)
    return read_part(
        connection, [source], window, lambda act: Cursor(act.at, f"{act.audit_id:018}")
    )


def stream(database: Database, wanted: Wanted, batch: int = BATCH) -> Iterator[Act]:
    """Yield all acts up to now, oldest first. Each batch has a transaction of its own, so that a slow reader
    keeps none open."""
    with database.snapshot() as connection:
        last = connection.scalar(sa.select(sa.func.max(_audit.c.audit_id))) or 0
    behind = 0
    while True:
        query = _query(wanted).where(_audit.c.audit_id > behind, _audit.c.audit_id <= last)
        with database.snapshot() as connection:
            rows = connection.execute(query.order_by(_audit.c.audit_id).limit(batch)).all()
        yield from (_act(row) for row in rows)
        if len(rows) < batch:
            return
        behind = rows[-1].audit_id


def _query(wanted: Wanted) -> sa.Select[Any]:
    query: sa.Select[Any] = sa.select(_audit)
    named = {"actor": wanted.actor, "action": wanted.action, "subject": wanted.subject}
    for column, value in named.items():
        if value is not None:
            query = query.where(_audit.c[column] == value)
    if wanted.since is not None:
        query = query.where(_audit.c.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(_audit.c.at < wanted.until)
    return query


def _act(row: Row) -> Act:
    return Act(row.audit_id, row.at, row.actor, row.action, row.subject, dict(row.details))
