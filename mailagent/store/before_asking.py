"""What is read right before the model is asked: whose conversation it is, and how the model's provider is."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent.domain.breaker import Breaker, Provider
from mailagent.domain.conversation import Conversation
from mailagent.store import breakers, conversations, schema

_breakers = schema.breakers

_BOTH = (
    sa.select(schema.conversations, *breakers.LABELLED)
    .outerjoin(_breakers, _breakers.c.provider == sa.bindparam("provider"))
    .where(schema.conversations.c.conversation_id == sa.bindparam("conversation_id"))
)


def load(
    connection: sa.Connection, conversation_id: str, provider: Provider
) -> tuple[Conversation, Breaker | None]:
    """Return a conversation that must exist, and what is on record of a provider; None when it has not failed
    lately. Raises LookupError."""
    values = {"conversation_id": conversation_id, "provider": provider.value}
    row = connection.execute(_BOTH, values).one_or_none()
    if row is None:
        raise LookupError(f"conversation {conversation_id} does not exist")
    return conversations.from_row(row), breakers.from_labelled(row)
