"""A mail that begins a thread, stored by one statement: its row, its request, its conversation and its bell.

Most mail is so. What may speak against it is a condition of the statement: then nothing is stored, and the mail
goes the long way (docs/decisions/0051). For PostgreSQL only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from mailagent.domain.conversation import Conversation
from mailagent.domain.mail import ParsedMail
from mailagent.store import conversations, filing, on_arrival, schema
from mailagent.store.filing import Filing, RawMail

_mails, _conversations, _raw = schema.inbound_mails, schema.conversations, schema.raw_mails

# What is bound must not be named like a column: an INSERT would take it for a value of its own.
_MAIL, _THREAD, _REQUEST = "new_mail_", "new_thread_", "new_request_"

# What a thread has of its first mail, by the names there, and what it has of its own. psycopg remembers how to
# read a statement only if it has fifty values at most.
_FROM_MAIL = {
    "conversation_id": "conversation_id",
    "customer_email": "from_address",
    "subject": "subject",
    "opened_at": "received_at",
    "last_mail_at": "received_at",
}
_OF_THREAD = ("status", "reply_token", "confirm_token", "team_token", "language")
_OF_MAIL = ("mail_id", *dict.fromkeys(_FROM_MAIL.values()))


def store(
    connection: sa.Connection,
    mail: ParsedMail,
    thread: Conversation,
    raw: RawMail,
    filed: Filing,
    bell: sa.ColumnElement[Any],
    values: Mapping[str, Any],
) -> bool:
    """Store a mail that waits for its answer in a new thread. Return whether it was stored: not if anything is
    on record that `on_arrival.look_up` would tell of, or another request is faster.

    `bell`: what is called in the database when it is stored. `values`: those of the bell, and
    `on_arrival.values_of`.
    """
    row = filing.values_of(mail, thread.conversation_id, None, thread.opened_at, filed)
    for name in ("no_answer_reason", "same_message_id"):
        del row[name]  # the table's own defaults are right, and save two of the fifty values
    named = {f"{_MAIL}{name}": value for name, value in row.items()}
    opened = conversations.values_of(thread)
    named |= {f"{_THREAD}{name}": opened[name] for name in _OF_THREAD}
    named |= {f"{_REQUEST}content_type": raw.content_type, f"{_REQUEST}body": raw.body}
    statement = _statement(tuple(row), mail.identity.proven, bell)
    return connection.execute(statement, {**values, **named}).first() is not None


@cache
def _statement(
    of_mail: tuple[str, ...], proven: bool, bell: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    mail = (
        postgresql.insert(_mails)
        .from_select(
            of_mail,
            sa.select(*_bound(_mails, _MAIL, of_mail)).where(on_arrival.is_unknown(proven)),
        )
        .on_conflict_do_nothing(index_elements=["dedup_key"])
        .returning(*(_mails.c[name] for name in _OF_MAIL))
        .cte("mail")
    )
    thread = _conversations.insert().from_select(
        [*_FROM_MAIL, *_OF_THREAD],
        sa.select(
            *(mail.c[name] for name in _FROM_MAIL.values()),
            *_bound(_conversations, _THREAD, _OF_THREAD),
        ),
    )
    of_request = ("content_type", "body")
    request = _raw.insert().from_select(
        ["mail_id", "received_at", *of_request],
        sa.select(mail.c.mail_id, mail.c.received_at, *_bound(_raw, _REQUEST, of_request)),
    )
    return sa.select(bell).select_from(mail).add_cte(thread.cte("thread"), request.cte("request"))


def _bound(table: sa.Table, prefix: str, names: tuple[str, ...]) -> list[sa.BindParameter[Any]]:
    return [sa.bindparam(f"{prefix}{name}", type_=table.c[name].type) for name in names]
