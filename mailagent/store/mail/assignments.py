"""Mail that the agent leaves to people, until they answer it or give the conversation back.

It is mail that came while people had the conversation; mail whose customer was only told that a person takes
over; mail that waited too long; mail that the loop guard stopped; and, after a backup was restored, mail that
may have been answered already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from mailagent.domain.mail.conversation import (
    Conversation,
    ConversationStatus,
    HandOverReason,
    Progress,
)
from mailagent.domain.mail.message import (
    Attachment,
    Identity,
    MailKind,
    MailStatus,
    OutboundStatus,
    Purpose,
    is_picture,
)
from mailagent.store import audit, schema
from mailagent.store.database import Row, exists, in_literals
from mailagent.store.mail import inbound, throttled

_mails, _ours = schema.inbound_mails, schema.outbound_mails
_threads = schema.conversations

# The reason on mail that came while people had the conversation.
PEOPLE_ANSWER = "people look after this conversation"
# `flask mails doubt` records this for the mails that it wrote, so that it can be interrupted and run again.
WRITTEN_AFTER_RESTORE: Final = "mail written after a restore"
# Begins the `dedup_key` of the mails of a hand-over, to the team and to the customer.
HAND_OVER: Final = "hand_over"

# How many earlier answers of a team member are searched for the picture of a signature.
MAILS_COMPARED = 20

# With these reasons only single mails go to people; the agent may answer later mail of the conversation.
_OVERTAKEN = (throttled.LOOP_DETECTED, throttled.SUMMED_UP)

# Our mail tells the customer that a person takes over: it is no answer to what they asked.
TELLS_OF_PERSON = sa.and_(
    _ours.c.purpose == Purpose.REPLY.value,
    _ours.c.dedup_key.startswith(f"{HAND_OVER}:", autoescape=True),
)

# Includes all keys of hand-overs in the order of any collation, so that an index finds them.
_NEAR_HAND_OVER = sa.between(_ours.c.dedup_key, HAND_OVER, f"{HAND_OVER}z")

# All reasons on mail that was left to people.
_LEFT_REASONS = (
    PEOPLE_ANSWER,
    HandOverReason.LEFT_UNANSWERED.value,
    HandOverReason.RESTORED.value,
    *_OVERTAKEN,
)

_LEFT = sa.or_(
    sa.and_(
        _mails.c.status == MailStatus.NO_ANSWER.value, _mails.c.no_answer_reason.in_(_LEFT_REASONS)
    ),
    throttled.BY_LOOP_GUARD,  # the team has not had a mail about it yet
    sa.exists().where(_ours.c.outbound_id == _mails.c.answered_by, TELLS_OF_PERSON),
)


# What pages show as a mail's status: "handed_over" while people still owe the answer that our mail promised.
SHOWN_STATUS = sa.case(
    (
        sa.exists()
        .where(
            _ours.c.outbound_id == _mails.c.answered_by,
            TELLS_OF_PERSON,
            _threads.c.conversation_id == _mails.c.conversation_id,
            _threads.c.status == ConversationStatus.HANDED_OVER.value,
            _threads.c.progress == Progress.OPEN.value,
        )
        .correlate(_mails),
        ConversationStatus.HANDED_OVER.value,
    ),
    else_=_mails.c.status,
).label("status")


def select_handed_over() -> sa.Select[str]:
    """Return the query for the mails whose customer was only told that a person takes over."""
    told = sa.and_(
        _mails.c.conversation_id == _ours.c.conversation_id,  # has an index
        _mails.c.answered_by == _ours.c.outbound_id,
    )
    return (
        sa.select(_mails.c.mail_id)
        .join_from(_ours, _mails, told)
        .where(_NEAR_HAND_OVER, TELLS_OF_PERSON)
    )


def list_usual_pictures(
    connection: sa.Connection, address: str, conversation_id: str
) -> set[Attachment]:
    """Return the pictures that the newest answers of a team member in other conversations show: usually
    the signature's. File names are left empty, because mail programs give each mail other ones."""
    query = sa.select(_mails.c.attachments).where(
        _mails.c.from_address == address,
        _mails.c.kind == MailKind.TEAM.value,
        _mails.c.identity.in_((Identity.DKIM.value, Identity.SPF.value)),
        _mails.c.conversation_id != conversation_id,
    )
    newest = query.order_by(_mails.c.received_at.desc()).limit(MAILS_COMPARED)
    files = [Attachment(**each) for found in connection.scalars(newest) for each in found]
    return {without_name(each) for each in files if each.is_inline and is_picture(each)}


def without_name(file: Attachment) -> Attachment:
    return replace(file, name="")


def leave(connection: sa.Connection, conversation_id: str) -> None:
    """Leave the customer's unanswered mail to people. Mail of the team is not touched, and still goes to the
    customer."""
    unanswered = _mails.c.status == MailStatus.UNANSWERED.value
    theirs = _of_customer(conversation_id)
    inbound.change_status(
        connection, MailStatus.NO_ANSWER, unanswered, theirs, reason=PEOPLE_ANSWER
    )


def answer(connection: sa.Connection, conversation_id: str, outbound_id: str) -> None:
    """Record that a person's mail `outbound_id` answers all mail of a conversation that was left to people or
    is throttled."""
    left = sa.or_(_LEFT, _mails.c.status == MailStatus.THROTTLED.value)
    theirs = _of_customer(conversation_id)
    inbound.change_status(connection, MailStatus.ANSWERED, left, theirs, answered_by=outbound_id)


def _of_customer(conversation_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        _mails.c.conversation_id == conversation_id, _mails.c.kind == MailKind.CUSTOMER.value
    )


def answered_at(conversation_id: sa.ColumnElement[str]) -> sa.ColumnElement[datetime | None]:
    """Return the expression for when a person last answered a conversation; NULL if a mail waits for the
    agent."""
    return sa.case((~where_mail_waits(conversation_id), last_answer_at(conversation_id)))


def last_answer_at(conversation_id: sa.ColumnElement[str]) -> sa.ScalarSelect[datetime | None]:
    """Return the expression for when a person last answered a conversation, whatever came since."""
    answered = _ours.alias("answered")
    query = sa.select(sa.func.max(answered.c.created_at)).where(
        answered.c.conversation_id == conversation_id,
        answered.c.purpose == Purpose.TEAM_REPLY.value,
    )
    return query.correlate_except(answered).scalar_subquery()


def where_mail_waits(conversation_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a mail of a conversation waits for the agent."""
    waits = _mails.alias("waits")
    waiting = sa.exists().where(
        waits.c.conversation_id == conversation_id,
        in_literals(waits.c.status, MailStatus.UNANSWERED.value),
    )
    return waiting.correlate_except(waits)


def give_back(connection: sa.Connection, conversation: Conversation) -> Sequence[Row]:
    """Let the agent answer the mail that was left to people, that they have not settled, and whose text was not
    deleted. Return all of the customer's mail that waits for the agent now, oldest first."""
    conversation_id = conversation.conversation_id
    seen_until = _settled_until(connection, conversation)
    left = [_of_customer(conversation_id), _LEFT, ~_where_overtaken(conversation_id), ~_IS_DELETED]
    if seen_until:
        left.append(_mails.c.received_at > seen_until)
    inbound.change_status(connection, MailStatus.UNANSWERED, *left, draft_id=None, answered_by=None)
    return connection.execute(
        sa.select(_mails.c.mail_id, _mails.c.wake_ups, _mails.c.identity)
        .where(
            _of_customer(conversation_id),
            _mails.c.status == MailStatus.UNANSWERED.value,
            _mails.c.draft_id.is_(None),
        )
        .order_by(_mails.c.received_at, _mails.c.mail_id)
    ).all()


_IS_DELETED = sa.exists().where(
    schema.conversations.c.conversation_id == _mails.c.conversation_id,
    schema.conversations.c.content_purged_at > _mails.c.received_at,
)


def has_unseen(connection: sa.Connection, conversation: Conversation) -> bool:
    """Return whether the customer waits for an answer to mail that came after what people have settled."""
    return exists(connection, *_where_unseen(connection, conversation))


def first_unseen_at(
    connection: sa.Connection, conversation: Conversation, since: datetime
) -> datetime | None:
    """Return when the first of the mails in `has_unseen` came, of those since a time, from a proven
    sender, and not overtaken by an answer to later mail; None without one."""
    query = sa.select(sa.func.min(_mails.c.received_at)).where(
        *_where_unseen(connection, conversation),
        _mails.c.received_at >= since,
        _mails.c.identity != Identity.NONE.value,
        ~_where_overtaken(conversation.conversation_id),
    )
    first: datetime | None = connection.scalar(query)
    return first


def _where_unseen(
    connection: sa.Connection, conversation: Conversation
) -> list[sa.ColumnElement[bool]]:
    waits = [_of_customer(conversation.conversation_id), sa.or_(_LEFT, _IS_OPEN)]
    if settled_until := _settled_until(connection, conversation):
        waits.append(_mails.c.received_at > settled_until)
    return waits


def _settled_until(connection: sa.Connection, conversation: Conversation) -> datetime | None:
    """Return until when people have settled what the customer wrote: by an answer by mail, or by closing the
    conversation. An answer at /ops marks the mail that it answers."""
    moments = (
        _answered_by_mail_until(connection, conversation),
        _closed_at(connection, conversation.conversation_id),
    )
    return max((moment for moment in moments if moment is not None), default=None)


def _closed_at(connection: sa.Connection, conversation_id: str) -> datetime | None:
    """Return when a person last closed the conversation; None if it was not closed, or was reopened."""
    # "Reopened" also ends a snooze. Then it takes no earlier "closed" back.
    acts: tuple[audit.Action, ...] = (
        "conversation closed",
        "conversation reopened",
        "conversation snoozed",
    )
    closed, reopened, _ = acts
    moments: list[datetime] = []
    before = None
    for act in audit.list_of(connection, conversation_id, acts):
        if act.action == closed:
            moments.append(act.at)
        elif (before, act.action) == (closed, reopened):
            moments.pop()
        before = act.action
    return max(moments, default=None)


def _answered_by_mail_until(
    connection: sa.Connection, conversation: Conversation
) -> datetime | None:
    """Return when the newest case was written that people answered by mail; None without such an answer. A case
    is our mail to the team with the conversation: its readers have not seen what the customer wrote later.

    An answer that refers to no case answers the newest before it, or what was there when a person took the
    conversation over.
    """
    cases = connection.execute(
        sa.select(_ours.c.message_id, _ours.c.created_at).where(
            _ours.c.conversation_id == conversation.conversation_id,
            _ours.c.purpose == Purpose.HAND_OVER.value,
        )
    ).all()
    answers = connection.execute(
        sa.select(_mails.c.in_reply_to, _mails.c.mail_references, _mails.c.received_at).where(
            _mails.c.conversation_id == conversation.conversation_id,
            _mails.c.kind == MailKind.TEAM.value,
            _mails.c.status == MailStatus.ANSWERED.value,
        )
    )
    looks = [conversation.handed_over_at, *(case.created_at for case in cases)]
    seen: list[datetime] = []
    for answer in answers:
        referred = {*answer.in_reply_to, *answer.mail_references}
        seen += [case.created_at for case in cases if case.message_id in referred] or [
            look for look in looks if look is not None and look <= answer.received_at
        ]
    return max(seen, default=None)


def _where_overtaken(conversation_id: str) -> sa.ColumnElement[bool]:
    """Return the condition that a single mail went to people (`_OVERTAKEN`), and that later mail of
    its conversation, from a sender proven or unproven like its own, was answered."""
    newer = _mails.alias()
    return sa.and_(
        sa.func.coalesce(_mails.c.no_answer_reason, "").in_(_OVERTAKEN),
        sa.exists()
        .where(
            newer.c.conversation_id == conversation_id,
            newer.c.kind == MailKind.CUSTOMER.value,
            newer.c.status == MailStatus.ANSWERED.value,
            newer.c.received_at > _mails.c.received_at,
            (newer.c.identity == Identity.NONE.value) == (_mails.c.identity == Identity.NONE.value),
        )
        .correlate(_mails),
    )


# --- after a backup was restored ------------------------------------------------------------------

_IS_OPEN = _mails.c.status.in_([MailStatus.UNANSWERED.value, MailStatus.THROTTLED.value])


def list_doubtful_outbound(connection: sa.Connection) -> list[str]:
    """Return our mails that are queued or being sent, without those that were written after the restore."""
    of_now = sa.exists().where(
        schema.audit.c.subject == _ours.c.outbound_id,
        schema.audit.c.action == WRITTEN_AFTER_RESTORE,
    )
    query = sa.select(_ours.c.outbound_id).where(
        _ours.c.status.in_([OutboundStatus.QUEUED.value, OutboundStatus.SENDING.value]), ~of_now
    )
    return list(connection.scalars(query.order_by(_ours.c.outbound_id)))


def record_written_since(connection: sa.Connection, since: datetime, now: datetime) -> None:
    """Record that our mails from `since` on were written after the restore, so that they are not doubted."""
    query = sa.select(_ours.c.outbound_id).where(_ours.c.created_at >= since)
    for outbound_id in list(connection.scalars(query)):
        audit.record(connection, now, audit.CLOCK, WRITTEN_AFTER_RESTORE, outbound_id)


def list_doubtful_conversations(connection: sa.Connection) -> Sequence[Row]:
    """Return the conversations with unanswered or throttled mail: how many `mails`, and how many of these are
    throttled because too much mail came (`flooded`)."""
    flooded = sa.func.sum(sa.case((throttled.BY_MAIL_LIMIT, 1), else_=0))
    return connection.execute(
        sa.select(
            _mails.c.conversation_id, sa.func.count().label("mails"), flooded.label("flooded")
        )
        .where(_IS_OPEN, _mails.c.conversation_id.is_not(None))
        .group_by(_mails.c.conversation_id)
        .order_by(_mails.c.conversation_id)
    ).all()


def leave_doubtful(connection: sa.Connection, conversation_id: str, reason: str) -> list[str]:
    """Leave all waiting mail of a conversation to people, for this `reason`; return the ids of the mails."""
    here = _mails.c.conversation_id == conversation_id
    left = inbound.change_status(connection, MailStatus.NO_ANSWER, _IS_OPEN, here, reason=reason)
    return [row.mail_id for row in left]
