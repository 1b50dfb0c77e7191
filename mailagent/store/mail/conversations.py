"""Conversations as rows: find, open, hand over, give back, close, snooze, assign, tag and note."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import Conversation, ConversationStatus, Progress
from mailagent.domain.mail.message import AddressedToken, Door, MailStatus, Purpose
from mailagent.store import audit, schema
from mailagent.store.database import Row, columns_of, exists, from_row, required, update_rows
from mailagent.store.ids import new_id, new_token
from mailagent.store.mail import drafts

_conversations, _tags = schema.conversations, schema.conversation_tags
_inbound, _outbound = schema.inbound_mails, schema.outbound_mails

_DOORS = {
    Door.CASE: _conversations.c.reply_token,
    Door.CONFIRM: _conversations.c.confirm_token,
    Door.TEAM: _conversations.c.team_token,
}


def open_new(
    connection: sa.Connection,
    customer_email: str,
    subject: str,
    now: datetime,
    language: str | None = None,
    customer_name: str = "",
) -> Conversation:
    """Open a conversation with the address that a mail came from. `language`: the mail's, None if unknown."""
    conversation = Conversation(
        conversation_id=new_id("conversation"),
        customer_email=customer_email,
        subject=subject,
        status=ConversationStatus.OPEN,
        reply_token=new_token(),
        confirm_token=new_token(),
        team_token=new_token(),
        opened_at=now,
        last_mail_at=now,
        language=language,
        customer_name=customer_name,
    )
    connection.execute(_conversations.insert(), columns_of(_conversations, conversation))
    return conversation


def find(connection: sa.Connection, conversation_id: str) -> Conversation | None:
    return _find(connection, _conversations.c.conversation_id == conversation_id)


def load(connection: sa.Connection, conversation_id: str) -> Conversation:
    return required(find(connection, conversation_id), f"conversation {conversation_id}")


def lock(connection: sa.Connection, conversation_id: str) -> Conversation:
    """Lock a conversation until the commit, and return it. Raises LookupError."""
    here = _conversations.c.conversation_id == conversation_id
    return required(_find(connection, here, lock=True), f"conversation {conversation_id}")


def find_by_token(connection: sa.Connection, token: AddressedToken) -> Conversation | None:
    """Return the conversation that has this token for this kind of reply address; None if there is none."""
    return _find(connection, _DOORS[token.door] == token.token)


def find_by_message_ids(
    connection: sa.Connection, message_ids: Sequence[str], customer_email: str
) -> Conversation | None:
    """Return this customer's conversation that has a mail with one of these Message-IDs; the last id that is
    found wins. `customer_email` keeps strangers who quote an id out of the conversation.
    """
    if not message_ids:
        return None
    both = sa.union_all(
        *(
            sa.select(table.c.message_id, table.c.conversation_id)
            .join(_conversations, _conversations.c.conversation_id == table.c.conversation_id)
            .where(
                table.c.message_id.in_(message_ids),
                _conversations.c.customer_email == customer_email,
            )
            for table in (_outbound, _inbound)
        )
    )
    found = {row.message_id: row.conversation_id for row in connection.execute(both)}
    for message_id in reversed(message_ids):
        if message_id in found:
            return find(connection, found[message_id])
    return None


def _find(
    connection: sa.Connection, where: sa.ColumnElement[bool], lock: bool = False
) -> Conversation | None:
    query = sa.select(_conversations).where(where)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        return None
    states = {"status": ConversationStatus(row.status), "progress": Progress(row.progress)}
    return from_row(Conversation, row, **states)


def touch(
    connection: sa.Connection, conversation: Conversation, now: datetime, reopens: bool
) -> None:
    """Record that a mail came. `reopens`: the customer wrote it, which ends "closed" and "snoozed"."""
    conversation_id = conversation.conversation_id
    _update(connection, conversation_id, last_mail_at=now, **(_OPEN if reopens else {}))
    here = _tags.c.conversation_id == conversation_id
    update_rows(connection, _tags, here, last_mail_at=now)


def record_answered(
    connection: sa.Connection, conversation_id: str, purpose: Purpose, now: datetime
) -> None:
    """Record that we wait for the customer now, unless the mail only says that a person will answer, or the
    conversation is snoozed: that brings it back to people."""
    thread = _conversations.c
    by_agent = purpose is Purpose.REPLY
    update_rows(
        connection,
        _conversations,
        thread.conversation_id == conversation_id,
        thread.progress == Progress.OPEN.value,
        sa.or_(thread.snoozed_until.is_(None), thread.snoozed_until <= now),
        thread.status == ConversationStatus.OPEN.value if by_agent else sa.true(),
        progress=Progress.PENDING.value,
    )


def record_language(connection: sa.Connection, conversation_id: str, language: str) -> None:
    """Record in which language the customer writes now, such as `de`."""
    _update(connection, conversation_id, language=language)


def renew_confirm_token(connection: sa.Connection, conversation_id: str) -> None:
    """Replace the confirm token, so that earlier confirm mails of this conversation prove nothing any more."""
    _update(connection, conversation_id, confirm_token=new_token())


def hand_over(
    connection: sa.Connection,
    conversation_id: str,
    reason: str,
    now: datetime,
    owner_email: str | None = None,
) -> None:
    """Hand a conversation over to people. `owner_email`: the person who took it over; None for the whole team.
    Waiting drafts are superseded, and their mail goes to people, too."""
    drafts.supersede_all_of(connection, conversation_id, audit.CLOCK, now)
    owner = {"owner_email": owner_email} if owner_email else {}
    _update(
        connection,
        conversation_id,
        status=ConversationStatus.HANDED_OVER.value,
        handed_over_reason=reason,
        handed_over_at=now,
        **owner,
        **_OPEN,
    )


def give_back(connection: sa.Connection, conversation_id: str) -> None:
    _update(
        connection,
        conversation_id,
        status=ConversationStatus.OPEN.value,
        handed_over_reason=None,
        handed_over_at=None,
        owner_email=None,
    )


def _update(connection: sa.Connection, conversation_id: str, **values: Any) -> None:
    here = _conversations.c.conversation_id == conversation_id
    update_rows(connection, _conversations, here, **values)


# --- whose turn it is -----------------------------------------------------------------------------

_OPEN = {"progress": Progress.OPEN.value, "snoozed_until": None}


def close(connection: sa.Connection, conversation_id: str) -> None:
    _update(connection, conversation_id, progress=Progress.CLOSED.value, snoozed_until=None)


def reopen(connection: sa.Connection, conversation_id: str) -> None:
    """Open a conversation that is closed or snoozed."""
    _update(connection, conversation_id, **_OPEN)


def snooze(connection: sa.Connection, conversation_id: str, until: datetime) -> None:
    """Take a conversation out of the lists of work until then. It comes back open, also if it was answered."""
    _update(connection, conversation_id, progress=Progress.OPEN.value, snoozed_until=until)


def assign(connection: sa.Connection, conversation_id: str, owner_email: str | None) -> None:
    """Make a person the owner of a conversation that was handed over; None: nobody."""
    _update(connection, conversation_id, owner_email=owner_email)


# --- tags and notes -------------------------------------------------------------------------------


_TWICE_WITHIN = timedelta(minutes=1)


def list_tags(connection: sa.Connection, conversation_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the tags of each of these conversations, in alphabetical order."""
    query = sa.select(_tags).where(_tags.c.conversation_id.in_(conversation_ids))
    found: dict[str, list[str]] = {}
    for row in connection.execute(query.order_by(_tags.c.tag)):
        found.setdefault(row.conversation_id, []).append(row.tag)
    return found


def add_tag(connection: sa.Connection, conversation: Conversation, tag: str) -> bool:
    """Add a tag to a locked conversation; return whether it is new there."""
    conversation_id = conversation.conversation_id
    if tag in list_tags(connection, [conversation_id]).get(conversation_id, ()):
        return False
    at = conversation.last_mail_at or conversation.opened_at
    values = {"conversation_id": conversation_id, "tag": tag, "last_mail_at": at}
    connection.execute(_tags.insert().values(values))
    return True


def remove_tag(connection: sa.Connection, conversation_id: str, tag: str) -> bool:
    """Remove a tag; return whether the conversation had it."""
    here = sa.and_(_tags.c.conversation_id == conversation_id, _tags.c.tag == tag)
    return connection.execute(_tags.delete().where(here)).rowcount > 0


def write_note(
    connection: sa.Connection, conversation_id: str, author_email: str, text: str, now: datetime
) -> str | None:
    """Record an internal note; return its id, or None if the same note was just recorded (a second click)."""
    note_id, notes = new_id("note"), schema.conversation_notes
    own = (notes.c.conversation_id == conversation_id, notes.c.author_email == author_email)
    if exists(connection, *own, notes.c.text == text, notes.c.written_at > now - _TWICE_WITHIN):
        return None
    connection.execute(
        notes.insert().values(
            note_id=note_id,
            conversation_id=conversation_id,
            author_email=author_email,
            text=text,
            written_at=now,
        )
    )
    return note_id


# --- recent ---------------------------------------------------------------------------------------


def list_recent(connection: sa.Connection, limit: int) -> Sequence[Row]:
    """Return the conversations with the latest mail, newest first, with counts of unanswered and throttled."""
    counts = [
        sa.select(sa.func.count())
        .where(
            _inbound.c.conversation_id == _conversations.c.conversation_id,
            _inbound.c.status == status.value,
        )
        .scalar_subquery()
        .label(status.value)
        for status in (MailStatus.UNANSWERED, MailStatus.THROTTLED)
    ]
    return connection.execute(
        sa.select(_conversations, *counts)
        .order_by(_conversations.c.last_mail_at.desc())
        .limit(limit)
    ).all()
