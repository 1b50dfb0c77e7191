"""What SendGrid or a bounce says became of our mail: recorded as facts; what follows is a workflow's."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.bounce import Bounce
from mailagent.domain.delivery import DeliveryEvent, DeliveryKind
from mailagent.domain.mail import ParsedMail
from mailagent.store import outbox

UNDELIVERED = "undelivered"


def record_event(connection: sa.Connection, event: DeliveryEvent, now: datetime) -> None:
    """Record a delivery event once; ring for a mail that did not reach its recipient."""
    new = outbox.record_event(
        connection,
        event.key,
        event.outbound_id,
        event.event.value,
        event.reason,
        event.occurred_at,
        now,
    )
    if new and event.event.not_reached:
        services.current().doorbell.ring_delivery(connection, event.outbound_id, UNDELIVERED)


def record_bounce(
    connection: sa.Connection, mail: ParsedMail, bounce: Bounce, now: datetime
) -> None:
    """Record what a bounce says about the mail of ours that it returns, if it is ours.

    A temporary failure is only a deferral: the other side goes on trying.
    """
    returned = bounce.returned_message_id
    outbound_id = outbox.find_by_message_id(connection, returned) if returned else None
    if outbound_id is None:
        return
    permanent = any(recipient.permanent for recipient in bounce.recipients)
    kind = DeliveryKind.BOUNCE if permanent else DeliveryKind.DEFERRED
    statuses = ", ".join(recipient.status or "no status" for recipient in bounce.recipients)
    key = f"bounce-mail:{mail.dedup_key}"
    record_event(connection, DeliveryEvent(outbound_id, kind, statuses, now, key), now)
