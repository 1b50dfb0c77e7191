"""The inbox: lists of what waits for people, each with pages, a count and its own index.

Failed runs come from DBOS; the caller passes the query for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.message import Purpose
from mailagent.domain.operations.circuit_breaker import away_name
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store import schema
from mailagent.store.console import entries
from mailagent.store.console.entries import Entry
from mailagent.store.mail.outbound import LOST
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.pagination import Count, Part, Source, Window, count, list_newest, read_part

_refunds, _approvals, _decisions = schema.refunds, schema.approvals, schema.decisions
_requests, _drafts = schema.approval_requests, schema.drafts
_conversations, _inbound, _outbound = (
    schema.conversations,
    schema.inbound_mails,
    schema.outbound_mails,
)
_dismissals = schema.dismissals


class Waiting(StrEnum):
    """What something waits for."""

    APPROVALS = "approvals"
    DRAFTS = "drafts"
    PEOPLE = "people"
    FAILED = "failed"
    UNDELIVERED = "undelivered"
    THROTTLED = "throttled"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which list, and what of it. `owner` is an address, or empty for nobody's; `everything` brings
    back what was dismissed, and conversations in which a person has answered since the last mail."""

    waiting: Waiting
    manager: str | None = None
    owner: str | None = None
    everything: bool = False


class Lists:
    """The lists of the inbox. `failed_runs` has the columns run_id, workflow, status and failed_ms."""

    def __init__(self, connection: sa.Connection, failed_runs: sa.Select[Any]) -> None:
        self._connection = connection
        self._failed_runs = failed_runs

    def read(self, asked: Asked, window: Window) -> Part[Entry]:
        """Return one page of a list."""
        sources = self.sources(asked)
        return read_part(self._connection, sources, window, lambda entry: entry.cursor)

    def count(self, asked: Asked) -> Count:
        """Count a list, up to a bound."""
        return count(self._connection, self.sources(asked))

    def sources(self, asked: Asked) -> list[Source[Entry]]:
        """Return where the rows of a list come from."""
        if asked.waiting is Waiting.FAILED:
            return [_failed_refunds(asked), self._runs(asked)]
        if asked.waiting is Waiting.APPROVALS and asked.manager is not None:
            return [_asked_source(asked.manager, each) for each in ("approve", "countersign")]
        return [_SOURCES[asked.waiting](asked)]

    def _runs(self, asked: Asked) -> Source[Entry]:
        runs = self._failed_runs.subquery()
        failed_at = sa.cast(runs.c.failed_ms, sa.BigInteger) * 1000
        query = (
            sa.select(failed_at.label("at"), runs, _dismissals.c.dismissed_by)
            .select_from(runs)
            .outerjoin(_dismissals, _dismissals.c.subject == runs.c.run_id)
        )
        if not asked.everything:
            # One that was run again, and failed again after that, is news.
            dismissed_ms = _milliseconds(self._connection, _dismissals.c.at)
            query = query.where(
                sa.or_(_dismissals.c.subject.is_(None), dismissed_ms < runs.c.failed_ms)
            )
        return Source(query, failed_at, runs.c.run_id, entries.run_entry)


def _milliseconds(connection: sa.Connection, moment: sa.ColumnElement[Any]) -> Any:
    if connection.dialect.name == "postgresql":
        return sa.extract("epoch", moment) * 1000
    return (sa.func.julianday(moment) - 2440587.5) * 86_400_000  # the Julian day of 1970


def is_constant(column: sa.ColumnElement[Any], *values: str) -> sa.ColumnElement[bool]:
    """Compare with constants that stand in the statement: a partial index is found by them only, also
    when the plan was made once for all parameters."""
    if len(values) == 1:
        return column == sa.literal_column(f"'{values[0]}'")
    return column.in_([sa.literal_column(f"'{value}'") for value in values])


def _refund_query(*more: Any) -> sa.Select[Any]:
    return (
        sa.select(_refunds, _conversations.c.customer_email, *more)
        .select_from(_refunds)
        .outerjoin(
            _conversations, _conversations.c.conversation_id == _refunds.c.conversation_id
        )
    )  # fmt: skip


def _approvals_source(_asked: Asked) -> Source[Entry]:
    query = (
        _refund_query(_approvals.c.expires_at, _decisions.c.decided_by.label("first"))
        .outerjoin(_approvals, _approvals.c.refund_id == _refunds.c.refund_id)
        .outerjoin(_decisions, _decisions.c.approval_id == _approvals.c.approval_id)
        .where(is_constant(_refunds.c.status, "awaiting_approval"))
    )
    return Source(query, _refunds.c.requested_at, _refunds.c.refund_id, entries.approval_entry)


def _asked_source(manager: str, question: str) -> Source[Entry]:
    """Return the refunds on which a manager is asked to approve, or to countersign. One list each,
    because the planner cannot guess how many rows the two together leave."""
    source = _approvals_source(Asked(Waiting.APPROVALS))
    decided_first = _decisions.c.approval_id.is_not(None)
    query = source.query.join(
        _requests,
        sa.and_(
            _requests.c.approval_id == _approvals.c.approval_id,
            _requests.c.manager_email == manager,
            _requests.c.question == question,
            _requests.c.skipped_at.is_(None),
        ),
    ).where(decided_first if question == "countersign" else ~decided_first)
    return Source(query, source.at, source.row_id, source.read)


def _failed_refunds(asked: Asked) -> Source[Entry]:
    query = _refund_query(_dismissals.c.dismissed_by).where(
        is_constant(_refunds.c.status, "failed")
    )
    query = _without_dismissed(query, _refunds.c.refund_id, asked)
    return Source(query, _refunds.c.requested_at, _refunds.c.refund_id, entries.failed_refund_entry)


def _without_dismissed(
    query: sa.Select[Any], subject: sa.ColumnElement[str], asked: Asked
) -> sa.Select[Any]:
    query = query.outerjoin(_dismissals, _dismissals.c.subject == subject)
    return query if asked.everything else query.where(_dismissals.c.subject.is_(None))


def _drafts_source(_asked: Asked) -> Source[Entry]:
    query = (
        sa.select(_drafts, _conversations.c.customer_email, _conversations.c.subject)
        .select_from(_drafts)
        .outerjoin(_conversations, _conversations.c.conversation_id == _drafts.c.conversation_id)
        .where(is_constant(_drafts.c.state, "waiting"))
    )
    return Source(query, _drafts.c.created_at, _drafts.c.draft_id, entries.draft_entry)


def _people_source(asked: Asked) -> Source[Entry]:
    conversations = _conversations.c
    answered = sa.exists().where(
        _outbound.c.conversation_id == conversations.conversation_id,
        _outbound.c.created_at >= conversations.last_mail_at,
        _outbound.c.purpose == Purpose.TEAM_REPLY.value,
    )
    query = sa.select(_conversations, answered.label("answered")).where(
        is_constant(conversations.status, "handed_over"), conversations.handed_over_at.is_not(None)
    )
    if not asked.everything:
        query = query.where(~answered)
    if asked.owner is not None:
        query = query.where(
            conversations.owner_email == asked.owner
            if asked.owner
            else conversations.owner_email.is_(None)
        )
    return Source(
        query, conversations.handed_over_at, conversations.conversation_id, entries.people_entry
    )


def _inbound_query(status: str) -> sa.Select[Any]:
    return sa.select(
        _inbound.c.mail_id, _inbound.c.received_at, _inbound.c.from_address, _inbound.c.subject,
        _inbound.c.no_answer_reason, _inbound.c.conversation_id, _inbound.c.run_id,
    ).where(is_constant(_inbound.c.status, status))  # fmt: skip


def _throttled_source(_asked: Asked) -> Source[Entry]:
    query = _inbound_query("throttled")
    return Source(query, _inbound.c.received_at, _inbound.c.mail_id, entries.inbound_entry)


def _unanswered_source(_asked: Asked) -> Source[Entry]:
    # Where a draft waits, a person has to do something: those are among the drafts.
    query = _inbound_query("unanswered").where(_inbound.c.draft_id.is_(None))
    return Source(query, _inbound.c.received_at, _inbound.c.mail_id, entries.unanswered_entry)


def _undelivered_source(asked: Asked) -> Source[Entry]:
    query: sa.Select[Any] = (
        sa.select(
            _outbound.c.outbound_id, _outbound.c.created_at, _outbound.c.to_address,
            _outbound.c.purpose, _outbound.c.status, _outbound.c.conversation_id,
            _outbound.c.refund_id, _dismissals.c.dismissed_by,
        )
        .select_from(_outbound)
        .where(is_constant(_outbound.c.status, "failed", "unknown", "undelivered"))
    )  # fmt: skip
    query = _without_dismissed(query, _outbound.c.outbound_id, asked)
    return Source(query, _outbound.c.created_at, _outbound.c.outbound_id, entries.undelivered_entry)


_SOURCES: Mapping[Waiting, Callable[[Asked], Source[Entry]]] = {
    Waiting.APPROVALS: _approvals_source,
    Waiting.DRAFTS: _drafts_source,
    Waiting.PEOPLE: _people_source,
    Waiting.UNDELIVERED: _undelivered_source,
    Waiting.THROTTLED: _throttled_source,
    Waiting.UNANSWERED: _unanswered_source,
}


# --- inbox figures --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted at a moment. `newest` holds the times of the newest lines, oldest first; not of
    the mail that waits for the agent, which is no person's."""

    at: datetime
    counts: Mapping[str, str]
    newest: Mapping[str, tuple[datetime, ...]]
    outages: tuple[str, ...]

    def newer(self, since: datetime) -> dict[str, int]:
        """Return how many lines of each list came since a time; no further than a bit beyond 100."""
        return {
            name: len(moments) - bisect_right(moments, since)
            for name, moments in self.newest.items()
        }


def read(connection: sa.Connection, failed_runs: sa.Select[Any], now: datetime) -> Figures:
    """Count all lists."""
    lists = Lists(connection, failed_runs)
    people = [each for each in Waiting if each is not Waiting.UNANSWERED]
    return Figures(
        at=now,
        counts={each.value: lists.count(Asked(each)).words for each in Waiting},
        newest={each.value: list_newest(connection, lists.sources(Asked(each))) for each in people},
        outages=(
            *(each.incident.value for each in incidents.list_open(connection) if each.is_outage),
            *(away_name(each) for each in circuit_breakers.list_open(connection)),
        ),
    )


# --- dismissed ------------------------------------------------------------------------------------


_table = schema.dismissals


def record(connection: sa.Connection, subject: str, email: str, now: datetime) -> None:
    """Record that somebody has seen to a row or a run; of two, the later one counts."""
    forget(connection, subject)
    connection.execute(_table.insert().values(subject=subject, dismissed_by=email, at=now))


def forget(connection: sa.Connection, subject: str) -> bool:
    """Put it back; return whether it had been dismissed."""
    return connection.execute(_table.delete().where(_table.c.subject == subject)).rowcount > 0


def may_be(connection: sa.Connection, subject: str) -> bool:
    """Return whether this is a mail of ours that was lost, or a refund that failed."""
    mails, refunds = schema.outbound_mails.c, schema.refunds.c
    lost = sa.select(sa.literal(1)).where(mails.outbound_id == subject, mails.status.in_(LOST))
    failed = sa.select(sa.literal(1)).where(
        refunds.refund_id == subject, refunds.status == RefundStatus.FAILED.value
    )
    return connection.scalar(lost) is not None or connection.scalar(failed) is not None
