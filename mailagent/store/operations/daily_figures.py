"""The figures of each day, counted from rows and stored in a small table: so the report is fast, and stays when
rows are purged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HandOverReason, Progress
from mailagent.domain.mail.message import MailKind, MailStatus, Purpose
from mailagent.domain.operations.model_cost import TokenPrices, cost_of
from mailagent.domain.operations.report import (
    AGENT,
    DAY,
    DID_NOT_HELP,
    HELPED,
    NONE,
    PEOPLE,
    WAITING,
    Figure,
    Key,
    Report,
    coarse,
)
from mailagent.store import schema
from mailagent.store.console import knowledge
from mailagent.store.database import Row, insert_once
from mailagent.store.mail import assignments
from mailagent.store.operations import model_calls
from mailagent.store.refunds.credits import CREDIT_MINOR, IS_CREDIT

_days = schema.daily_figures
_mails, _ours, _votes = schema.inbound_mails, schema.outbound_mails, schema.votes
_refunds, _approvals, _decisions = schema.refunds, schema.approvals, schema.decisions
_countersignatures = schema.countersignatures
_conversations = schema.conversations
# The newest days, counted now: they replace the stored ones.
Fresh = Mapping[datetime, Counter[Key]]
_NONE_FRESH: Fresh = {}
# A chart shows these day by day.
_BY_DAY = (Figure.MAILS, Figure.COST)

_team, _earlier = _ours.alias("by_people"), _mails.alias("earlier")
_BY_PERSON = sa.or_(_ours.c.purpose == Purpose.TEAM_REPLY.value, _ours.c.auto_submitted == "no")
_ANSWERED = _mails.c.status == MailStatus.ANSWERED.value
_ANSWERED_BY_PEOPLE_AT = (
    sa.select(sa.func.min(_team.c.created_at))
    .where(
        _team.c.conversation_id == _mails.c.conversation_id,
        sa.or_(_team.c.purpose == Purpose.TEAM_REPLY.value, _team.c.auto_submitted == "no"),
        _team.c.created_at >= _mails.c.received_at,
    )
    .correlate(_mails)
    .scalar_subquery()
)
_IS_CLOSED = (
    sa.exists()
    .where(
        _conversations.c.conversation_id == _mails.c.conversation_id,
        _conversations.c.progress == Progress.CLOSED.value,
    )
    .correlate(_mails)
)
_LEFT_TO_PEOPLE = sa.or_(
    sa.and_(_ANSWERED, assignments.TELLS_OF_PERSON),
    _mails.c.no_answer_reason.in_(
        [assignments.PEOPLE_ANSWER, HandOverReason.LEFT_UNANSWERED.value]
    ),
)
_OPEN = _mails.c.status.in_([MailStatus.UNANSWERED.value, MailStatus.THROTTLED.value])
_BY = sa.case(
    (sa.and_(_ANSWERED, _BY_PERSON), PEOPLE),
    (sa.and_(_LEFT_TO_PEOPLE, sa.or_(_ANSWERED_BY_PEOPLE_AT.is_not(None), _IS_CLOSED)), PEOPLE),
    (sa.or_(_LEFT_TO_PEOPLE, _OPEN), WAITING),
    (_ANSWERED, AGENT),
    else_=NONE,
)
_IS_FIRST = ~sa.exists().where(
    _earlier.c.conversation_id == _mails.c.conversation_id,
    _earlier.c.kind == MailKind.CUSTOMER.value,
    _earlier.c.received_at < _mails.c.received_at,
)


def count(connection: sa.Connection, day: datetime, prices: TokenPrices | None) -> None:
    """Count a day from the rows, and replace its stored figures. `prices`: for calls without a recorded
    cost."""
    found = figures_of(connection, day, prices)
    connection.execute(_days.delete().where(_days.c.day == day))
    for (figure, label), value in found.items():
        row = {"day": day, "figure": figure.value, "label": label, "value": value}
        insert_once(connection, _days, row, "day", "figure", "label")


def figures_of(
    connection: sa.Connection, day: datetime, prices: TokenPrices | None
) -> Counter[Key]:
    """Return what `count` would store."""
    found = _of_mails(connection, day) + _of_refunds(connection, day)
    found.update(_of_approvals(connection, day))
    found.update(_of_others(connection, day, prices))
    return found


def has_more_mails(connection: sa.Connection, since: datetime, most: int) -> bool:
    """Whether more than `most` mails came since then."""
    newest = sa.select(_mails.c.received_at).where(_mails.c.received_at >= since).limit(most + 1)
    return (
        connection.scalar(sa.select(sa.func.count()).select_from(newest.subquery())) or 0
    ) > most


def _within(moment: sa.Column[datetime], day: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return moment >= day, moment < day + DAY


def _of_mails(connection: sa.Connection, day: datetime) -> Counter[Key]:
    of_day = (*_within(_mails.c.received_at, day), _mails.c.kind == MailKind.CUSTOMER.value)
    joined = sa.outerjoin(_mails, _ours, _ours.c.outbound_id == _mails.c.answered_by)
    query = (
        sa.select(_BY.label("by"), sa.func.count().label("number"))
        .select_from(joined)
        .where(*of_day)
    )
    # A counted day always has this figure, even if it is zero: see `list_uncounted`.
    found: Counter[Key] = Counter({(Figure.MAILS, AGENT): 0})
    for row in connection.execute(query.group_by("by")):
        found[Figure.MAILS, row.by] = row.number
    at = sa.case((_BY == AGENT, _ours.c.created_at), else_=_ANSWERED_BY_PEOPLE_AT)
    times = sa.select(_mails.c.received_at, at.label("at")).select_from(joined)
    rows = connection.execute(times.where(*of_day, _IS_FIRST))
    found.update(_times(rows, Figure.ANSWER_SECONDS))
    return found


def _times(rows: Iterable[Row], figure: Figure) -> Iterator[Key]:
    for began, ended in rows:
        if ended is not None:
            yield figure, str(coarse(ended - began))


def _of_refunds(connection: sa.Connection, day: datetime) -> Counter[Key]:
    query = sa.select(
        _refunds.c.status,
        _refunds.c.currency,
        sa.func.count(),
        sa.func.coalesce(sa.func.sum(_refunds.c.amount_minor).filter(~IS_CREDIT), 0),
        sa.func.sum(CREDIT_MINOR).filter(IS_CREDIT),
    ).where(*_within(_refunds.c.requested_at, day))
    found: Counter[Key] = Counter()
    for status, currency, number, minor, credit in connection.execute(
        query.group_by(_refunds.c.status, _refunds.c.currency)
    ):
        found[Figure.REFUNDS, f"{status} {currency}"] = number
        found[Figure.AMOUNTS, f"{status} {currency}"] = int(minor)
        if credit:
            found[Figure.CREDITS, f"{status} {currency}"] = int(credit)
    return found


def _of_approvals(connection: sa.Connection, day: datetime) -> Counter[Key]:
    joined = sa.join(_refunds, _approvals, _approvals.c.refund_id == _refunds.c.refund_id)
    first, second, approval_id = _decisions.c, _countersignatures.c, _approvals.c.approval_id
    # Of a refund that needs two managers, the first one's approval decides nothing.
    decides = sa.or_(~_refunds.c.four_eyes, first.decision != "approve")
    joined = joined.outerjoin(_decisions, sa.and_(first.approval_id == approval_id, decides))
    joined = joined.outerjoin(_countersignatures, second.approval_id == approval_id)
    outcome = sa.func.coalesce(first.decision, second.decision, _refunds.c.status)
    decided_at = sa.func.coalesce(first.decided_at, second.decided_at)
    query = (
        sa.select(
            outcome.label("outcome"), _approvals.c.requested_at, decided_at.label("decided_at")
        )
        .select_from(joined)
        .where(*_within(_refunds.c.requested_at, day))
    )
    found: Counter[Key] = Counter()
    for row in connection.execute(query):
        found[Figure.APPROVALS, row.outcome] += 1
        if row.decided_at is not None:
            seconds = coarse(row.decided_at - row.requested_at)
            found[Figure.DECISION_SECONDS, str(seconds)] += 1
    return found


def _of_others(
    connection: sa.Connection, day: datetime, prices: TokenPrices | None
) -> Counter[Key]:
    found: Counter[Key] = Counter()
    use = model_calls.sum_of_day(connection, day)
    cost = cost_of(use.values(), prices) if use else None
    if cost is not None:
        found[Figure.COST, ""] = int(cost.scaleb(6))
    asked = sa.select(sa.func.count()).select_from(knowledge.select_unanswered(day, day + DAY))
    found[Figure.QUESTIONS, ""] = connection.scalar(asked) or 0
    said = sa.select(_votes.c.helped, sa.func.count()).where(*_within(_votes.c.at, day))
    for helped, number in connection.execute(said.group_by(_votes.c.helped)):
        found[Figure.VOTES, HELPED if helped else DID_NOT_HELP] = number
    return found


# --- which days -----------------------------------------------------------------------------------


def list_uncounted(connection: sa.Connection, today: datetime, most: int) -> Sequence[datetime]:
    """Return the days before today that were never counted, newest first, back to the first mail and at most
    `most` days back."""
    first = connection.scalar(sa.select(sa.func.min(_mails.c.received_at)))
    begins = max(first or today, today - timedelta(days=most))
    counted = set(
        connection.scalars(sa.select(_days.c.day).where(_days.c.day >= begins - DAY).distinct())
    )
    days = [today - DAY * number for number in range(1, (today - begins) // DAY + 2)]
    return [day for day in days if day not in counted]


def read(
    connection: sa.Connection, since: datetime, until: datetime, fresh: Fresh = _NONE_FRESH
) -> Report:
    """Return the report on the days from `since` to before `until`."""
    within = _stored(since, until, fresh)
    summed = sa.select(_days.c.figure, _days.c.label, sa.func.sum(_days.c.value).label("value"))
    totals = connection.execute(summed.where(*within).group_by(_days.c.figure, _days.c.label))
    shown = sa.select(_days).where(*within, _days.c.figure.in_(_BY_DAY))
    by_day: dict[datetime, Counter[Key]] = {}
    for row in connection.execute(shown):
        by_day.setdefault(row.day, Counter())[Figure(row.figure), row.label] = row.value
    found = Counter({(Figure(row.figure), row.label): int(row.value) for row in totals})
    for day, counted in fresh.items():
        found.update(counted)
        by_day[day] = Counter({key: counted[key] for key in counted if key[0] in _BY_DAY})
    return Report(since, until, found, by_day)


def list_rows(
    connection: sa.Connection, since: datetime, until: datetime, fresh: Fresh = _NONE_FRESH
) -> Sequence[Sequence[Any]]:
    """Return all figures of the days from `since` to before `until`, for a file."""
    stored = sa.select(_days).where(*_stored(since, until, fresh))
    rows = connection.execute(stored.order_by(_days.c.day, _days.c.figure, _days.c.label))
    newest = [
        (day, *key, value) for day, counted in fresh.items() for key, value in counted.items()
    ]
    return [*rows, *sorted(newest)]


def _stored(since: datetime, until: datetime, fresh: Fresh) -> tuple[sa.ColumnElement[bool], ...]:
    return _days.c.day >= since, _days.c.day < until, _days.c.day.not_in(list(fresh))
