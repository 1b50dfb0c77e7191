"""What is read of a refund before it is decided on: whether its mails still wait and which files came with
the thread, and what is known of its order and of the policy. Each is one journey to the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail import MailKind, MailStatus
from mailagent.store import orders, payments, policies, schema
from mailagent.store.database import Row

_mails, _orders, _named = schema.inbound_mails, schema.orders, schema.order_payments

_these: sa.BindParameter[Any] = sa.bindparam("mail_ids", expanding=True)
_NEWEST = (
    sa.select(_mails.c.mail_id)
    .where(
        _mails.c.conversation_id == sa.bindparam("conversation_id"),
        _mails.c.kind == MailKind.CUSTOMER.value,
    )
    .order_by(_mails.c.received_at.desc(), _mails.c.mail_id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
    .subquery()
)
# By their ids: with two conditions side by side no index would be used.
_OF_THREAD = (
    sa.select(
        _mails.c.mail_id,
        _mails.c.conversation_id,
        _mails.c.kind,
        _mails.c.identity,
        _mails.c.attachments,
        sa.and_(_mails.c.status == MailStatus.UNANSWERED.value, _mails.c.draft_id.is_(None)).label(
            "waits"
        ),
    )
    .where(
        _mails.c.mail_id.in_(
            sa.union_all(
                sa.select(_NEWEST.c.mail_id),
                sa.select(_mails.c.mail_id).where(_mails.c.mail_id.in_(_these)),
            )
        )
    )
    .order_by(_mails.c.received_at.desc(), _mails.c.mail_id.desc())
)
_KNOWN = (
    sa.select(
        orders.TAKEN.label("taken_minor"),
        policies.SOURCE_OF.scalar_subquery().label("policy_source"),
        _named.c.payment_id.label("shared"),
    )
    .outerjoin_from(
        _orders, _named, sa.and_(_named.c.order_id == _orders.c.order_id, payments.IS_SHARED)
    )
    .where(_orders.c.order_id == sa.bindparam("order_id"))
    .order_by(_named.c.position)
)


@dataclass(frozen=True, slots=True)
class Thread:
    """`waits`: whether all mails of a batch still wait for the agent; `newest`: the newest customer mails of
    the conversation, the newest first, each with `identity` and `attachments`."""

    waits: bool
    newest: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Known:
    """`taken_minor`: what refunds of the order were paid or are under way, and what was given back without us;
    `shared_payments`: which of its payments another order names, too; `policy_source`: the text that is on
    record under the policy's name, None for none."""

    taken_minor: int
    shared_payments: tuple[str, ...]
    policy_source: str | None


def load_thread(
    connection: sa.Connection, conversation_id: str, mail_ids: Sequence[str], most: int
) -> Thread:
    """Return how it stands with the mails of a batch, and the `most` newest ones of its conversation."""
    values = {"conversation_id": conversation_id, "mail_ids": list(mail_ids), "most": most}
    rows = connection.execute(_OF_THREAD, values).all()
    theirs = [
        row
        for row in rows
        if row.conversation_id == conversation_id and row.kind == MailKind.CUSTOMER.value
    ]
    return Thread(all(row.waits for row in rows if row.mail_id in mail_ids), theirs[:most])


def load_known(connection: sa.Connection, order_id: str, policy_version: str) -> Known:
    """Return what is known of an order, which must exist, and of a policy."""
    values = {"order_id": order_id, "version": policy_version}
    rows = connection.execute(_KNOWN, values).all()
    shared = tuple(row.shared for row in rows if row.shared is not None)
    return Known(int(rows[0].taken_minor), shared, rows[0].policy_source)
