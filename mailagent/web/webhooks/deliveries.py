"""What SendGrid or a bounce says became of our mail: recorded as facts; what follows is a workflow's."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.mail.delivery import Bounce, DeliveryEvent, DeliveryKind
from mailagent.domain.mail.message import ParsedMail
from mailagent.store import audit
from mailagent.store.errors import is_outage
from mailagent.store.mail import delivery_events, outbound

logger = logging.getLogger(__name__)

UNDELIVERED = "undelivered"
RETURNED = "returned"
DISREGARDED = "bounce disregarded"
REASON_MAX_LENGTH = 500


def record_events(events: Iterable[DeliveryEvent]) -> None:
    """Record a batch, the events of each mail in a transaction of their own: one for the whole batch would
    hold rows of many mails, and could meet another, or a person's click, in a deadlock.

    What is stored stays stored. Raises the error of a mail whose events could not be, after the others
    were tried; at once where the database is in trouble. SendGrid then sends the whole batch again.
    """
    live = services.current()
    of_mails: dict[str, list[DeliveryEvent]] = {}
    for event in events:
        of_mails.setdefault(event.outbound_id, []).append(event)
    problem: Exception | None = None
    for outbound_id, of_mail in of_mails.items():
        try:
            with live.database.transaction() as connection:
                # In one order in all deliveries of them, or each of two would wait for the other.
                for event in sorted(of_mail, key=lambda each: each.key):
                    record_event(connection, event, live.now())
        except Exception as error:
            if is_outage(error):
                raise
            logger.exception("the delivery events of mail %s cannot be stored", outbound_id)
            problem = error
    if problem is not None:
        raise problem


def record_event(connection: sa.Connection, event: DeliveryEvent, now: datetime) -> None:
    """Record a delivery event once; enqueue a mail that did not reach its recipient.

    One that the database will not hold is left out, so that the others of its batch are kept.
    """
    try:
        with connection.begin_nested():
            _record(connection, event, now)
    except (sa.exc.DataError, sa.exc.IntegrityError, UnicodeError):
        logger.exception("a delivery event cannot be stored, and is left out")


def _record(connection: sa.Connection, event: DeliveryEvent, now: datetime) -> None:
    new = delivery_events.record_event(
        connection,
        event.key,
        event.outbound_id,
        event.event.value,
        event.reason,
        event.occurred_at,
        now,
    )
    if new and event.event.not_reached:
        # A bounce by mail has a run of its own: a signed event that follows has more consequences.
        by_mail = event.key.startswith(delivery_events.BOUNCE_MAIL)
        again = RETURNED if by_mail else UNDELIVERED
        services.current().workflow_client.queue.enqueue_delivery(
            connection, event.outbound_id, again
        )


def record_bounce(
    connection: sa.Connection, mail: ParsedMail, bounce: Bounce, now: datetime
) -> None:
    """Record what a bounce says about the mail of ours that it returns, if it is ours.

    A temporary failure is only a deferral: the other side goes on trying. Anybody who saw our
    Message-ID can write a bounce: one that names only others changes nothing.
    """
    returned = bounce.returned_message_id
    outbound_id = outbound.find_by_message_id(connection, returned) if returned else None
    if outbound_id is None:
        return
    to_address = outbound.load(connection, outbound_id).to_address
    recipients = bounce.of(normalise_address(to_address) or to_address)
    if recipients is None:
        logger.warning(
            "a bounce of mail %s names only recipients that it was not for: nothing is changed",
            outbound_id,
        )
        audit.record(
            connection, now, "bounce", DISREGARDED, outbound_id, {"dedup_key": mail.dedup_key}
        )
        return
    permanent = any(recipient.permanent for recipient in recipients)
    kind = DeliveryKind.BOUNCE if permanent else DeliveryKind.DEFERRED
    statuses = ", ".join(recipient.status or "no status" for recipient in recipients)
    key = f"{delivery_events.BOUNCE_MAIL}{mail.dedup_key}"
    reason = statuses[:REASON_MAX_LENGTH]
    record_event(connection, DeliveryEvent(outbound_id, kind, reason, now, key), now)
