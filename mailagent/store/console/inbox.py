"""The console's inbox: lists of what waits for people, each with pages, a count and its own index.

Failed runs come from DBOS; the caller passes the query for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import Progress
from mailagent.domain.money import Money
from mailagent.domain.operations.circuit_breaker import away_name
from mailagent.domain.operations.provider import Providers
from mailagent.store import schema
from mailagent.store.console import dismissals
from mailagent.store.database import Row, in_literals
from mailagent.store.operations import circuit_breakers, incidents
from mailagent.store.pagination import (
    Count,
    Cursor,
    Part,
    Source,
    Window,
    count,
    list_newest,
    moment_of,
    read_part,
)
from mailagent.store.refunds import remedies, settlements

_refunds, _approvals, _decisions = schema.refunds, schema.approvals, schema.decisions
_seconds = schema.countersignatures
_requests, _drafts, _conversations = schema.approval_requests, schema.drafts, schema.conversations
_inbound, _outbound, _dismissals = schema.inbound_mails, schema.outbound_mails, schema.dismissals


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a list. `row_id`: the id of a row of this `kind`: refund, draft, conversation, mail,
    outbound, or run. `state` and `what` are codes, to be labelled by pages, or text of strangers, to be
    escaped. `owner`, `decision` and `undo_until` of a refund: the last manager's decision."""

    kind: str
    row_id: str
    at: datetime
    who: str
    what: str
    state: str = ""
    amount: Money | None = None
    order_id: str | None = None
    conversation_id: str | None = None
    refund_id: str | None = None
    owner: str | None = None
    expires_at: datetime | None = None
    dismissed_by: str | None = None
    run_id: str | None = None  # the run that a mail without an answer was enqueued for
    topics: Sequence[str] = ()  # what a draft is about
    decision: str | None = None
    undo_until: datetime | None = None
    awaits_second: bool = False  # a refund needs a second manager, and one has approved it

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.at, self.row_id)


def select_entries(
    kind: str, row_id: sa.ColumnElement[str], at: sa.ColumnElement[Any], **columns: Any
) -> sa.Select[Any]:
    """Return a query with the columns of Entry; `columns` fill fields that have a default."""
    named = {"row_id": row_id, "at": at, **columns}
    return sa.select(
        sa.literal(kind).label("kind"), *(column.label(name) for name, column in named.items())
    )


def read_entry(row: Row) -> Entry:
    """Return the entry for a row of `select_entries`."""
    values = row._asdict() | {"at": moment_of(row.at)}
    minor, currency = values.pop("amount_minor", None), values.pop("currency", None)
    if minor is not None:
        values["amount"] = Money(minor, currency)
    return Entry(**values)


def select_refunds(**more: Any) -> sa.Select[Any]:
    """Return the query of refunds as entries, with their customers' addresses."""
    return (
        select_entries(
            "refund",
            _refunds.c.refund_id,
            _refunds.c.requested_at,
            who=sa.func.coalesce(_conversations.c.customer_email, ""),
            what=_refunds.c.reason,
            state=_refunds.c.status,
            amount_minor=_refunds.c.amount_minor,
            currency=_refunds.c.currency,
            order_id=_refunds.c.order_id,
            conversation_id=_refunds.c.conversation_id,
            refund_id=_refunds.c.refund_id,
            **more,
        )
        .select_from(_refunds)
        .outerjoin(_conversations, _conversations.c.conversation_id == _refunds.c.conversation_id)
    )


class Waiting(StrEnum):
    """The lists of the inbox, by what an entry waits for."""

    APPROVALS = "approvals"
    DRAFTS = "drafts"
    PEOPLE = "people"
    FAILED = "failed"
    UNDELIVERED = "undelivered"
    THROTTLED = "throttled"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which list to read, and which of its rows. `owner`: a mail address, or empty for rows without an owner.
    `everything`: include dismissed rows, and conversations that are answered, snoozed or closed."""

    waiting: Waiting
    manager: str | None = None
    owner: str | None = None
    everything: bool = False


class Lists:
    """The lists of the inbox. `failed_runs`: a query with the columns run_id, workflow, subject, status and
    failed_ms (milliseconds since 1970)."""

    def __init__(
        self, connection: sa.Connection, failed_runs: sa.Select[Any], now: datetime
    ) -> None:
        self._connection = connection
        self._failed_runs = failed_runs
        self._now = now
        self._sources: dict[Asked, list[Source[Entry]]] = {}  # a list is read and counted

    def read(self, asked: Asked, window: Window) -> Part[Entry]:
        """Return one page of a list."""
        return read_part(self._connection, self.sources(asked), window, lambda each: each.cursor)

    def count(self, asked: Asked) -> Count:
        """Count the rows of a list, up to a bound: see `pagination.count`."""
        return count(self._connection, self.sources(asked))

    def sources(self, asked: Asked) -> list[Source[Entry]]:
        """Return where the rows of a list come from."""
        if asked not in self._sources:
            self._sources[asked] = self._find_sources(asked)
        return self._sources[asked]

    def _find_sources(self, asked: Asked) -> list[Source[Entry]]:
        match asked.waiting:
            case Waiting.APPROVALS:
                return _approvals_sources(asked.manager)
            case Waiting.DRAFTS:
                return [_drafts_source()]
            case Waiting.PEOPLE:
                return [_people_source(asked, self._now)]
            case Waiting.FAILED:
                return [_failed_refunds(asked), self._runs(asked)]
            case Waiting.UNDELIVERED:
                return [_undelivered_source(asked)]
            case Waiting.THROTTLED | Waiting.UNANSWERED:
                return [_inbound_source(asked.waiting)]

    def _runs(self, asked: Asked) -> Source[Entry]:
        runs = self._failed_runs.subquery()
        failed_at = sa.cast(runs.c.failed_ms, sa.BigInteger) * 1000
        query = (
            select_entries(
                "run",
                runs.c.run_id,
                failed_at,
                who=sa.literal(""),
                what=runs.c.workflow,
                state=runs.c.status,
                dismissed_by=_dismissals.c.dismissed_by,
            )
            .select_from(runs)
            .outerjoin(_dismissals, _dismissals.c.subject == runs.c.run_id)
        )
        if not asked.everything:
            query = query.where(dismissals.where_open(self._connection, runs))
        return Source(query, failed_at, runs.c.run_id, read_entry)


def _approvals_sources(manager: str | None) -> list[Source[Entry]]:
    no_second = _seconds.c.approval_id.is_(None)
    query = (
        select_refunds(
            expires_at=_approvals.c.expires_at,
            owner=sa.func.coalesce(_seconds.c.decided_by, _decisions.c.decided_by),
            decision=sa.func.coalesce(_seconds.c.decision, _decisions.c.decision),
            undo_until=sa.case((no_second, _decisions.c.undo_until), else_=_seconds.c.undo_until),
            awaits_second=sa.and_(
                _refunds.c.four_eyes, _decisions.c.decision == "approve", no_second
            ),
        )
        .outerjoin(_approvals, _approvals.c.refund_id == _refunds.c.refund_id)
        .outerjoin(_decisions, _decisions.c.approval_id == _approvals.c.approval_id)
        .outerjoin(_seconds, _seconds.c.approval_id == _approvals.c.approval_id)
        .where(in_literals(_refunds.c.status, "awaiting_approval"))
    )
    queries = [query]
    if manager is not None:
        # Two queries: in one query for both questions, PostgreSQL's planner misjudges the number of rows.
        asked = query.join(
            _requests,
            sa.and_(
                _requests.c.approval_id == _approvals.c.approval_id,
                _requests.c.manager_email == manager,
                _requests.c.skipped_at.is_(None),
            ),
        )
        first = _decisions.c.approval_id
        queries = [
            asked.where(_requests.c.question == "approve", first.is_(None)),
            asked.where(_requests.c.question == "countersign", first.is_not(None)),
        ]
    at, row_id = _refunds.c.requested_at, _refunds.c.refund_id
    return [Source(each, at, row_id, read_entry) for each in queries]


def _failed_refunds(asked: Asked) -> Source[Entry]:
    query = select_refunds(dismissed_by=_dismissals.c.dismissed_by).where(
        in_literals(_refunds.c.status, "failed")
    )
    query = _without_dismissed(query, _refunds.c.refund_id, asked)
    return Source(query, _refunds.c.requested_at, _refunds.c.refund_id, read_entry)


def _without_dismissed(
    query: sa.Select[Any], subject: sa.ColumnElement[str], asked: Asked
) -> sa.Select[Any]:
    query = query.outerjoin(_dismissals, _dismissals.c.subject == subject)
    return query if asked.everything else query.where(_dismissals.c.subject.is_(None))


def _drafts_source() -> Source[Entry]:
    query = (
        select_entries(
            "draft",
            _drafts.c.draft_id,
            _drafts.c.created_at,
            who=sa.func.coalesce(_conversations.c.customer_email, ""),
            what=sa.func.coalesce(_conversations.c.subject, ""),
            state=_drafts.c.state,
            conversation_id=_drafts.c.conversation_id,
            topics=_drafts.c.topics,
        )
        .select_from(_drafts)
        .outerjoin(_conversations, _conversations.c.conversation_id == _drafts.c.conversation_id)
        .where(in_literals(_drafts.c.state, "waiting"))
    )
    return Source(query, _drafts.c.created_at, _drafts.c.draft_id, read_entry)


def _people_source(asked: Asked, now: datetime) -> Source[Entry]:
    thread = _conversations.c
    answered = thread.progress != Progress.OPEN.value
    snoozed = sa.and_(thread.snoozed_until.is_not(None), thread.snoozed_until > now)
    query = select_entries(
        "conversation",
        thread.conversation_id,
        thread.handed_over_at,
        who=thread.customer_email,
        what=thread.subject,
        state=sa.case(
            (thread.progress == Progress.CLOSED.value, Progress.CLOSED.value),
            (answered, "answered"),
            (snoozed, "snoozed"),
            else_=sa.func.coalesce(thread.handed_over_reason, ""),
        ),
        conversation_id=thread.conversation_id,
        owner=thread.owner_email,
    ).where(in_literals(thread.status, "handed_over"), thread.handed_over_at.is_not(None))
    if not asked.everything:
        query = query.where(in_literals(thread.progress, Progress.OPEN), ~snoozed)
    if asked.owner is not None:
        is_owner = (
            thread.owner_email == asked.owner if asked.owner else thread.owner_email.is_(None)
        )
        query = query.where(is_owner)
    return Source(query, thread.handed_over_at, thread.conversation_id, read_entry)


def _inbound_source(waiting: Waiting) -> Source[Entry]:
    mail, is_unanswered = _inbound.c, waiting is Waiting.UNANSWERED
    query = select_entries(
        "mail",
        mail.mail_id,
        mail.received_at,
        who=mail.from_address,
        what=mail.subject,
        state=sa.func.coalesce(mail.no_answer_reason, ""),
        conversation_id=mail.conversation_id,
        **({"run_id": mail.run_id} if is_unanswered else {}),
    ).where(in_literals(mail.status, waiting.value))
    if is_unanswered:
        # The list of drafts has the mail whose answer waits as a draft.
        query = query.where(mail.draft_id.is_(None))
    return Source(query, mail.received_at, mail.mail_id, read_entry)


def _undelivered_source(asked: Asked) -> Source[Entry]:
    # Without subject and text: some mails are only for their recipient.
    mail = _outbound.c
    query = (
        select_entries(
            "outbound",
            mail.outbound_id,
            mail.created_at,
            who=mail.to_address,
            what=mail.purpose,
            state=mail.status,
            conversation_id=mail.conversation_id,
            refund_id=mail.refund_id,
            dismissed_by=_dismissals.c.dismissed_by,
        )
        .select_from(_outbound)
        .where(in_literals(mail.status, "failed", "unknown", "undelivered"))
    )
    query = _without_dismissed(query, mail.outbound_id, asked)
    return Source(query, mail.created_at, mail.outbound_id, read_entry)


def list_asked(connection: sa.Connection, refund_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return for each refund the managers whose decision we wait for, in the order in which we asked them."""
    query = (
        sa.select(_approvals.c.refund_id, _requests.c.manager_email)
        .join(_requests, _requests.c.approval_id == _approvals.c.approval_id)
        .where(_approvals.c.refund_id.in_(refund_ids), _requests.c.skipped_at.is_(None))
        .order_by(_requests.c.asked_at, _requests.c.manager_email)
    )
    asked: dict[str, list[str]] = {}
    for row in connection.execute(query) if refund_ids else ():
        people = asked.setdefault(row.refund_id, [])
        if row.manager_email not in people:
            people.append(row.manager_email)
    return asked


# --- inbox figures --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """The counts of all lists at one moment. `newest`: for some lists, the times of the newest lines, oldest
    first."""

    at: datetime
    counts: Mapping[str, str]
    newest: Mapping[str, tuple[datetime, ...]]
    outages: tuple[str, ...]

    def newer(self, since: datetime) -> dict[str, int]:
        """Return how many lines of each list in `newest` came since a time, at most 101."""
        each = self.newest.items()
        return {name: len(moments) - bisect_right(moments, since) for name, moments in each}


def read(
    connection: sa.Connection, failed_runs: sa.Select[Any], providers: Providers, now: datetime
) -> Figures:
    """Count all lists."""
    lists = Lists(connection, failed_runs, now)
    people = [each for each in Waiting if each is not Waiting.UNANSWERED]
    return Figures(
        at=now,
        counts={
            **{each.value: lists.count(Asked(each)).words for each in Waiting},
            settlements.FIGURE: settlements.count_open(connection, now)[0].words,
            remedies.FIGURE: remedies.count_tasks(connection, now)[0].words,
        },
        newest={each.value: list_newest(connection, lists.sources(Asked(each))) for each in people},
        outages=(
            *(each.incident.value for each in incidents.list_open(connection) if each.is_outage),
            *(away_name(each) for each in circuit_breakers.list_open(connection, providers)),
        ),
    )
