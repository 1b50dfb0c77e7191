"""Finds out whether a customer wrote after one of our mails had told them something."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent.domain.mail.message import InboundMail, OutboundStatus
from mailagent.store import audit, schema
from mailagent.store.database import Row

_mails = schema.outbound_mails


def is_answered(
    connection: sa.Connection, action: audit.Action, subject: str, mails: Sequence[InboundMail]
) -> bool:
    """Return whether one of these mails answers one of our mails about `subject`: see `list_answered`."""
    return bool(list_answered(connection, action, subject, mails))


def list_answered(
    connection: sa.Connection, action: audit.Action, subject: str, mails: Sequence[InboundMail]
) -> list[Row]:
    """Return when we wrote each of our mails about `subject` that one of these mails answers, and what the
    audit log says of it, oldest first. A mail answers ours if it came after ours was sent, or refers to it.

    The audit log has `action` on `subject`, with the `outbound_id` of each mail about it; the last one counts,
    because a mail may be written again. A mail that refers to ours proves that ours arrived, even if we do not
    know that it was sent.
    """
    acts = audit.list_with_details(connection, subject, action)
    told_in = {each.details["outbound_id"]: each for each in acts if "outbound_id" in each.details}
    query = sa.select(
        _mails.c.outbound_id, _mails.c.message_id, _mails.c.status, _mails.c.sending_at
    )
    rows = connection.execute(query.where(_mails.c.outbound_id.in_(told_in))).all()
    answered = {row.outbound_id for row in rows if _is_answered_by(mails, row)}
    return [act for outbound_id, act in told_in.items() if outbound_id in answered]


def _is_answered_by(mails: Sequence[InboundMail], ours: Row) -> bool:
    if any(ours.message_id in mail.references for mail in mails):
        return True
    is_sent = ours.status == OutboundStatus.SENT.value and ours.sending_at is not None
    return is_sent and any(mail.received_at > ours.sending_at for mail in mails)
