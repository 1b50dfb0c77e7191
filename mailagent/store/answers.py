"""An answer of the agent, as rows: which mails it answers, what it cost, and that the agent has done it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from mailagent.store import audit, conversations, mailbox, schema

_ACT = "mail answered"

_ACT_OF_AGENT = (
    schema.audit.insert()
    .values(
        at=sa.bindparam("noted_at"),
        actor=audit.AGENT,
        action=_ACT,
        subject=sa.bindparam("newest"),
        details={},
    )
    .inline()
)

# One journey to the database instead of three; SQLite knows no such statement. No value may be named like a
# column of these tables: SQLAlchemy would set that column to it.
_ALL = sa.select(sa.literal(1)).add_cte(
    conversations.COUNT_MODEL_USE.cte("counted"),
    mailbox.ANSWER.cte("answered"),
    _ACT_OF_AGENT.cte("noted"),
)


def record(
    connection: sa.Connection,
    conversation_id: str,
    mail_ids: Sequence[str],
    outbound_id: str,
    used: tuple[int, int],
    now: datetime,
) -> None:
    """Record that an outbound mail of the agent answers these mails, the newest last. `used`: how often the
    model was asked for it, and how many tokens that took."""
    turns, tokens = used
    if connection.dialect.name != "postgresql":
        conversations.count_model_use(connection, conversation_id, turns, tokens)
        mailbox.answer(connection, mail_ids, outbound_id)
        audit.record(connection, now, audit.AGENT, _ACT, mail_ids[-1])
        return
    values = {
        "here": conversation_id,
        "turns": turns,
        "tokens": tokens,
        "mail_ids": list(mail_ids),
        "outbound_id": outbound_id,
        "noted_at": now,
        "newest": mail_ids[-1],
    }
    connection.execute(_ALL, values)
