"""Conversations as rows: finding the thread a mail belongs to, and handing it to people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import Conversation, ConversationStatus
from mailagent.domain.mail.message import AddressedToken, Door, MailStatus
from mailagent.store import audit, schema
from mailagent.store.database import Row
from mailagent.store.ids import new_id, new_token
from mailagent.store.mail import drafts

_conversations = schema.conversations
_inbound, _outbound = schema.inbound_mails, schema.outbound_mails

# Statements that each mail needs are built once: building one costs about what sending it does.
_BY_ID = sa.select(_conversations).where(
    _conversations.c.conversation_id == sa.bindparam("conversation_id")
)
_LOCKED = _BY_ID.with_for_update()
_ADDRESS = sa.select(_conversations.c.customer_email).where(
    _conversations.c.conversation_id == sa.bindparam("conversation_id")
)
_INSERT = _conversations.insert()
_UPDATE = _conversations.update().where(_conversations.c.conversation_id == sa.bindparam("here"))

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
) -> Conversation:
    """Open a conversation with the address that a mail came from, in its language if that can be told."""
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
    )
    connection.execute(_INSERT, {**asdict(conversation), "status": conversation.status.value})
    return conversation


def find(connection: sa.Connection, conversation_id: str) -> Conversation | None:
    return _one(connection, _BY_ID, conversation_id)


def load(connection: sa.Connection, conversation_id: str) -> Conversation:
    """Return a conversation that must exist. Raises LookupError."""
    conversation = find(connection, conversation_id)
    if conversation is None:
        raise LookupError(f"conversation {conversation_id} does not exist")
    return conversation


def load_address(connection: sa.Connection, conversation_id: str) -> str:
    """Return the customer's address of a conversation that must exist. Raises LookupError."""
    address = connection.scalar(_ADDRESS, {"conversation_id": conversation_id})
    if address is None:
        raise LookupError(f"conversation {conversation_id} does not exist")
    return str(address)


def lock(connection: sa.Connection, conversation_id: str) -> Conversation:
    """Return the conversation and keep others from answering it until the commit. Raises LookupError."""
    conversation = _one(connection, _LOCKED, conversation_id)
    if conversation is None:
        raise LookupError(f"conversation {conversation_id} does not exist")
    return conversation


def find_by_token(connection: sa.Connection, token: AddressedToken) -> Conversation | None:
    """Return the conversation that a mail was addressed to, by the door it was addressed to."""
    return _find(connection, _DOORS[token.door] == token.token)


def find_by_message_ids(
    connection: sa.Connection, message_ids: Sequence[str], customer_email: str
) -> Conversation | None:
    """Return this customer's conversation that holds one of the Message-IDs a mail refers to.

    The latest reference counts most. A stranger who quotes an id is given no thread.
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


def _one(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], conversation_id: str
) -> Conversation | None:
    row = connection.execute(query, {"conversation_id": conversation_id}).one_or_none()
    return _conversation(row) if row else None


def _find(connection: sa.Connection, where: sa.ColumnElement[bool]) -> Conversation | None:
    row = connection.execute(sa.select(_conversations).where(where)).one_or_none()
    return _conversation(row) if row else None


def _conversation(row: Row) -> Conversation:
    return Conversation(
        conversation_id=row.conversation_id,
        customer_email=row.customer_email,
        subject=row.subject,
        status=ConversationStatus(row.status),
        reply_token=row.reply_token,
        confirm_token=row.confirm_token,
        team_token=row.team_token,
        opened_at=row.opened_at,
        last_mail_at=row.last_mail_at,
        handed_over_reason=row.handed_over_reason,
        handed_over_at=row.handed_over_at,
        language=row.language,
        owner_email=row.owner_email,
    )


def touch(connection: sa.Connection, conversation_id: str, now: datetime) -> None:
    """Record that a mail has come into the thread."""
    _update(connection, conversation_id, last_mail_at=now)


def record_language(connection: sa.Connection, conversation_id: str, language: str) -> None:
    """Record in which language the customer writes now, such as `de`."""
    _update(connection, conversation_id, language=language)


def hand_over(
    connection: sa.Connection,
    conversation_id: str,
    reason: str,
    now: datetime,
    owner_email: str | None = None,
) -> None:
    """Record that people look after the conversation from now on, and why; `owner_email` if one of them
    does by themselves. Drafts that wait are taken back: their mail goes to people, too."""
    drafts.supersede_all_of(connection, conversation_id, audit.CLOCK, now)
    owner = {"owner_email": owner_email} if owner_email else {}
    _update(
        connection,
        conversation_id,
        status=ConversationStatus.HANDED_OVER.value,
        handed_over_reason=reason,
        handed_over_at=now,
        **owner,
    )


def give_back(connection: sa.Connection, conversation_id: str) -> None:
    """Record that the agent looks after the conversation again."""
    _update(
        connection,
        conversation_id,
        status=ConversationStatus.OPEN.value,
        handed_over_reason=None,
        handed_over_at=None,
        owner_email=None,
    )


def count_model_use(
    connection: sa.Connection, conversation_id: str, turns: int, tokens: int
) -> None:
    """Add to what answering this conversation has cost."""
    connection.execute(
        _conversations.update()
        .where(_conversations.c.conversation_id == conversation_id)
        .values(
            model_turns=_conversations.c.model_turns + turns,
            model_tokens=_conversations.c.model_tokens + tokens,
        )
    )


def _update(connection: sa.Connection, conversation_id: str, **values: Any) -> None:
    connection.execute(_UPDATE, {"here": conversation_id, **values})


def list_recent(connection: sa.Connection, limit: int) -> Sequence[Row]:
    """Return the conversations with the latest mail, newest first, with their counts of mail."""
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
