"""Finds out whether a customer wrote after one of our mails had told them something."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent.domain.mail.message import InboundMail, OutboundStatus
from mailagent.store import audit, schema

_mails = schema.outbound_mails


def is_answered(
    connection: sa.Connection, action: audit.Action, subject: str, mails: Sequence[InboundMail]
) -> bool:
    """Return whether one of these mails came after our mail about `subject` was sent, or refers to that mail.

    The audit log has `action` on `subject`, with the `outbound_id` of each mail about it. A mail that refers to
    ours proves that ours arrived, even if we do not know that it was sent.
    """
    acts = audit.list_details(connection, subject, action)
    told_in = [each["outbound_id"] for each in acts if "outbound_id" in each]
    query = sa.select(_mails.c.message_id, _mails.c.status, _mails.c.sending_at)
    rows = connection.execute(query.where(_mails.c.outbound_id.in_(told_in))).all()
    references = {each for mail in mails for each in mail.references}
    sent_at = [row.sending_at for row in rows if row.status == OutboundStatus.SENT.value]
    return any(row.message_id in references for row in rows) or any(
        mail.received_at > at for mail in mails for at in sent_at if at is not None
    )
