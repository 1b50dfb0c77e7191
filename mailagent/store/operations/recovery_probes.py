"""Whether what was out of order works again, by what has been done since; and what piles up."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent.domain.mail.conversation import ConversationStatus, HandOverReason
from mailagent.domain.mail.message import MailStatus
from mailagent.store import schema

_calls, _mails, _parts = schema.model_calls.c, schema.outbound_mails.c, schema.refund_payments.c
_inbound, _conversations = schema.inbound_mails.c, schema.conversations.c

# Mail is tried for three days; what is older is not under way any more.
_UNDER_WAY = timedelta(days=4)

# Stripe's names for payments; those of the ledger are the shop's.
_STRIPE_PAYMENTS = ("pi_", "ch_", "py_")


def has_model_answered(connection: sa.Connection, since: datetime, name: str | None = None) -> bool:
    """Say whether a model has answered since a time: the one of this name, or any."""
    its = [] if name is None else [_calls.model == name]
    return _any(connection, _calls.at > since, _calls.outcome == "done", *its)


def runs_refused_by_model(connection: sa.Connection, since: datetime) -> set[str]:
    """Return the runs in which the model's provider refused us since a time."""
    query = sa.select(_calls.run_id).where(_calls.at >= since, _calls.outcome == "operator")
    return {run_id for run_id in connection.scalars(query) if run_id}


def has_mail_gone_out(connection: sa.Connection, since: datetime) -> bool:
    return _any(connection, _mails.created_at > since - _UNDER_WAY, _mails.sent_at > since)


def has_stripe_paid(connection: sa.Connection, since: datetime) -> bool:
    theirs = sa.or_(
        *(_parts.payment_id.startswith(each, autoescape=True) for each in _STRIPE_PAYMENTS)
    )
    return _any(connection, _parts.done_at > since, theirs)


def count_fuses(connection: sa.Connection, since: datetime) -> int:
    """Return in how many conversations the fuse has blown since a time and has not been set back."""
    query = sa.select(sa.func.count()).where(
        _conversations.status == ConversationStatus.HANDED_OVER.value,
        _conversations.handed_over_at > since,
        _conversations.handed_over_reason == HandOverReason.FUSE.value,
    )
    return connection.scalar(query) or 0


def count_parked(connection: sa.Connection) -> int:
    """Return how many mails a budget has parked."""
    query = sa.select(sa.func.count()).where(
        _inbound.status == MailStatus.PARKED.value,
        _inbound.no_answer_reason != HandOverReason.FUSE.value,
    )
    return connection.scalar(query) or 0


def _any(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> bool:
    return connection.scalar(sa.select(sa.literal(1)).where(*where).limit(1)) is not None
