"""What customers were told in which mail of ours. Only a mail that was sent counts."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mailagent.domain.mail.message import InboundMail, OutboundStatus
from mailagent.store import audit, schema

_mails = schema.outbound_mails


def is_answered(
    connection: sa.Connection, action: audit.Action, subject: str, mails: Sequence[InboundMail]
) -> bool:
    """Return whether one of these mails came after a mail that told the customer of `subject`, or refers to it.

    `action` is in the audit log of `subject`, with the `outbound_id` of each mail that tells it. What refers to
    a mail proves that it arrived, also if we never heard so.
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
