"""Counts the mail that arrived and was answered lately, for throttling and for the loop guard.

Mail of proven senders and mail of unproven senders are counted apart: `proven` says which to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock

import sqlalchemy as sa

from mailagent.domain.mail.authentication import CLOCK_ERROR
from mailagent.domain.mail.conversation import HOUR, HandOverReason
from mailagent.domain.mail.message import Identity, MailKind, MailStatus, ParsedMail, Purpose
from mailagent.store import schema
from mailagent.store.database import Row

_mails, _outbound = schema.inbound_mails, schema.outbound_mails

# If a day has more, some hour is above every limit.
MOST_TIMES = 500


def where_proven(proven: bool) -> sa.ColumnElement[bool]:
    """Return the condition for mail of proven senders, or of unproven ones."""
    none = Identity.NONE.value
    return _mails.c.identity != none if proven else _mails.c.identity == none


def _let_in(since: datetime, proven: bool) -> sa.Select[tuple[str]]:
    return sa.select(_mails.c.mail_id).where(
        _mails.c.received_at >= since,
        _mails.c.status != MailStatus.THROTTLED.value,
        where_proven(proven),
    )


def is_share_used_up(
    connection: sa.Connection, since: datetime, most: int, proven: bool, key: str
) -> bool:
    """Return whether `most` mails, or more, of one `rate_limit_key` were not throttled since a time."""
    let_in = _let_in(since, proven).where(_mails.c.rate_limit_key == key)
    return connection.scalar(let_in.offset(most - 1).limit(1)) is not None


def is_sender_limit_reached(
    connection: sa.Connection, since: datetime, most: int, proven: bool, address: str
) -> bool:
    """Return whether `most` mails, or more, of one address have come since a time, throttled or not."""
    came = sa.select(_mails.c.mail_id).where(
        _mails.c.received_at >= since, _mails.c.from_address == address, where_proven(proven)
    )
    return connection.scalar(came.offset(most - 1).limit(1)) is not None


# The reason to throttle a mail while its sender has not confirmed the address for an earlier one.
UNCONFIRMED = "its sender has not confirmed the address for a mail of the last 24 hours"


def where_unconfirmed(address: str | sa.ColumnElement[str], since: datetime) -> sa.Exists:
    """Return the condition that an unproven mail of an address was not throttled since a time, and that no
    later mail of its conversation was proven. Our answer to such a mail asks the sender to confirm the address;
    their next mail with our code is proven."""
    asked, later = _mails.alias("asked"), _mails.alias("later")
    return sa.exists(
        sa.select(asked.c.mail_id).where(
            asked.c.from_address == address,
            asked.c.received_at >= since,
            asked.c.identity == Identity.NONE.value,
            asked.c.kind == MailKind.CUSTOMER.value,
            asked.c.status.in_((MailStatus.UNANSWERED.value, MailStatus.ANSWERED.value)),
            ~sa.exists().where(
                later.c.conversation_id == asked.c.conversation_id,
                later.c.from_address == asked.c.from_address,
                later.c.received_at > asked.c.received_at,
                later.c.identity != Identity.NONE.value,
            ),
        )
    )


def list_automatic(
    connection: sa.Connection, since: datetime, proven: bool, conversation_id: str, address: str
) -> Sequence[Row]:
    """Return the times (`at`) since `since` of automatic answers, and of mails that the loop guard left
    unanswered. `in_thread`: whether the row is counted for the conversation, or for the address; rows of both
    are listed twice. `proven`: count answers to, and mails of, proven senders or unproven ones.
    """
    is_answer = sa.exists().where(
        _mails.c.conversation_id == _outbound.c.conversation_id,
        _mails.c.answered_by == _outbound.c.outbound_id,
        where_proven(proven),
    )
    answered = sa.select(_outbound.c.created_at.label("at")).where(
        _outbound.c.purpose == Purpose.REPLY.value,
        _outbound.c.auto_submitted != "no",  # "no": a person read the draft before it was sent
        _outbound.c.created_at >= since,
        is_answer,
    )
    stopped = sa.select(_mails.c.received_at.label("at")).where(
        _mails.c.no_answer_reason == HandOverReason.LOOP_DETECTED.value,
        _mails.c.received_at >= since,
        where_proven(proven),
    )
    parts = [
        (answered.where(_outbound.c.conversation_id == conversation_id), True),
        (stopped.where(_mails.c.conversation_id == conversation_id), True),
        (answered.where(_outbound.c.to_address == address), False),
        (stopped.where(_mails.c.from_address == address), False),
    ]
    newest = []
    for part, in_thread in parts:
        rows = part.order_by(sa.desc("at")).limit(MOST_TIMES).subquery()
        newest.append(sa.select(rows.c.at, sa.literal(in_thread).label("in_thread")))
    return connection.execute(sa.union_all(*newest)).all()


# --- arrivals -------------------------------------------------------------------------------------


# A process lets in a tenth of what is left before it counts again, because other processes do the same. Near
# the limit it counts for each mail.
SHARE = 10
KEPT = timedelta(seconds=60)


class Arrivals:
    """Says whether the limit of all mail is reached. One for each process; threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        # By `proven`: when mail was last counted, and how many mails may come in before the next count.
        self._left: dict[bool, tuple[datetime, int]] = {}

    def is_limit_reached(
        self, connection: sa.Connection, now: datetime, most: int, proven: bool
    ) -> bool:
        """Return whether `most` mails were let in within the last hour, so that one more would be too many.

        Ten processes that count at the same moment keep the limit; many more may exceed it by a few percent.
        """
        with self._lock:
            counted_at, left = self._left.get(proven, (now, 0))
            if left > 0 and timedelta(0) <= now - counted_at < KEPT:
                self._left[proven] = counted_at, left - 1
                return False
        let_in = _let_in(now - HOUR, proven).limit(most).subquery()
        came = connection.scalar(sa.select(sa.func.count()).select_from(let_in)) or 0
        with self._lock:
            self._left[proven] = now, (most - came) // SHARE
        return came >= most


# --- on arrival -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Known:
    """What is on record when a mail comes in. `stored`: the same request was stored before. `same_message_id`:
    how many mails have its Message-ID. `message_id`: at least one of these is readable; else the mail may
    come again, whole. `signed_date`: if it has `known_by_date`, a stored mail has its author and Date."""

    stored: bool
    same_message_id: int
    message_id: bool
    signed_date: bool


def look_up(connection: sa.Connection, mail: ParsedMail) -> Known:
    is_readable = _mails.c.kind != MailKind.MALFORMED.value
    same_id = _mails.c.message_id == mail.message_id if mail.message_id else sa.false()
    same_date: sa.ColumnElement[bool] = sa.false()
    if mail.known_by_date and mail.sent_at:
        # If the signature does not cover the Message-ID, it still covers author and Date.
        same_date = sa.and_(
            _mails.c.from_address == mail.from_address,
            _mails.c.received_at >= mail.sent_at - CLOCK_ERROR,
            _mails.c.sent_at == mail.sent_at,
        )
    count = sa.select(sa.func.count()).select_from(_mails).where(same_id)
    query = sa.select(
        sa.exists().where(_mails.c.dedup_key == mail.dedup_key).label("stored"),
        count.scalar_subquery().label("same_message_id"),
        sa.exists().where(same_id, is_readable).label("message_id"),
        sa.exists().where(same_date, is_readable).label("signed_date"),
    )
    return Known(**connection.execute(query).one()._mapping)
