"""Whether there is anything that a first mail hardly ever has behind it: earlier mail, answers, discounts.

Each condition goes into a statement that is sent anyway; what is not there need not be asked for. A condition
may hold although nothing would be found, never the other way round.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from mailagent.domain.conversation import HandOverReason
from mailagent.domain.mail import MailStatus, Purpose
from mailagent.store import schema

# Of names of their own, for the statements around them may read the same tables; short ones, for psycopg keeps
# what it knows of a statement only up to 4,096 characters.
_inbound = schema.inbound_mails.alias("came")
_outbound = schema.outbound_mails.alias("wrote")
_orders = schema.orders.alias("bought")
_codes = schema.goodwill_codes.alias("given")

Value = sa.ColumnElement[Any]


def _is_any(*where: sa.ColumnElement[bool], joined: sa.FromClause | None = None) -> Value:
    found = sa.select(sa.literal(1)).where(*where)
    return (found.select_from(joined) if joined is not None else found).exists()


def was_written(conversation_id: Value) -> Value:
    """Return the condition that a mail of ours was written in a thread, to whomever."""
    return _is_any(_outbound.c.conversation_id == conversation_id)


def has_settled_mail(conversation_id: Value) -> Value:
    """Return the condition that a mail came in a thread that does not wait for an answer."""
    return _is_any(
        _inbound.c.conversation_id == conversation_id,
        _inbound.c.status != MailStatus.UNANSWERED.value,
    )


def has_codes(conversation_id: Value, email: Value) -> Value:
    """Return the condition that a discount was given in a thread, or for an order of a customer."""
    of_orders = _codes.join(_orders, _orders.c.order_id == _codes.c.order_id)
    return sa.or_(
        _is_any(_codes.c.conversation_id == conversation_id),
        _is_any(_orders.c.customer_email == email, joined=of_orders),
    )


def was_answered_by_itself(conversation_id: Value, email: Value, since: Value) -> Value:
    """Return the condition that `traffic.list_automatic` finds anything since a time, proven or not."""
    answered = (
        _outbound.c.purpose == Purpose.REPLY.value,
        _outbound.c.auto_submitted != "no",
        _outbound.c.created_at >= since,
    )
    stopped = (
        _inbound.c.no_answer_reason == HandOverReason.FUSE.value,
        _inbound.c.received_at >= since,
    )
    # One index each: an OR within would read all mail since then.
    return sa.or_(
        _is_any(_outbound.c.conversation_id == conversation_id, *answered),
        _is_any(_outbound.c.to_address == email, *answered),
        _is_any(_inbound.c.conversation_id == conversation_id, *stopped),
        _is_any(_inbound.c.from_address == email, *stopped),
    )
