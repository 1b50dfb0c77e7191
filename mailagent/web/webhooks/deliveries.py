"""Records delivery events and bounces. The `delivery` workflow acts on them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.authentication import normalise_address
from mailagent.domain.mail.delivery import Bounce, DeliveryEvent, DeliveryKind
from mailagent.domain.mail.message import Door, ParsedMail
from mailagent.engine import RETURNED, UNDELIVERED
from mailagent.store import audit
from mailagent.store.errors import is_outage
from mailagent.store.mail import delivery_events, outbound

logger = logging.getLogger(__name__)

DISREGARDED: Final = "bounce disregarded"
REASON_MAX_LENGTH = 500


def record_events(events: Iterable[DeliveryEvent]) -> None:
    """Record a batch of events, with a transaction for each mail, because one transaction for all could
    deadlock.

    If the events of a mail cannot be stored, record the others and then raise the error; during an outage of
    the database, raise at once. The provider then sends the whole batch again.
    """
    live = services.current()
    of_mails: dict[str, list[DeliveryEvent]] = {}
    for event in events:
        of_mails.setdefault(event.outbound_id, []).append(event)
    problem: Exception | None = None
    for outbound_id, of_mail in of_mails.items():
        try:
            with live.database.transaction() as connection:
                # In the order of their keys, so that two requests with the same events cannot deadlock.
                for event in sorted(of_mail, key=lambda each: each.key):
                    record_event(connection, event, live.now())
        except Exception as error:
            if is_outage(error):
                raise
            logger.exception(
                "mail=%s event=delivery_events_not_stored: answered 503; those of other mails are stored",
                outbound_id,
            )
            problem = error
    if problem is not None:
        raise problem


def record_event(connection: sa.Connection, event: DeliveryEvent, now: datetime) -> None:
    """Record a delivery event once. If the mail did not reach its recipient, enqueue it.

    Drop an event that the database refuses, so that the others of its batch are recorded.
    """
    try:
        with connection.begin_nested():
            _record(connection, event, now)
    except (sa.exc.DataError, sa.exc.IntegrityError, UnicodeError):
        logger.exception("event=delivery_event_refused: the database refuses it, so it is dropped")


def _record(connection: sa.Connection, event: DeliveryEvent, now: datetime) -> None:
    if _is_of_test_mail(event.outbound_id):
        # It has no row for its events. One of them is enough: they show only that the webhook works.
        if audit.latest_at(connection, event.outbound_id, audit.TEST_REPORTED) is None:
            provider = services.current().mail_provider.name
            audit.record(connection, now, provider, audit.TEST_REPORTED, event.outbound_id)
        return
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
        # A bounce that came as mail has a run of its own, because a later signed event has more consequences.
        by_mail = event.key.startswith(delivery_events.BOUNCE_MAIL)
        again = RETURNED if by_mail else UNDELIVERED
        services.current().workflow_client.queue.enqueue_delivery(
            connection, event.outbound_id, again
        )


def _is_of_test_mail(outbound_id: str) -> bool:
    door, _, token = outbound_id.partition("_")
    return door == Door.TEST and services.current().links.verify_test_mail(token)


def record_bounce(
    connection: sa.Connection, mail: ParsedMail, bounce: Bounce, now: datetime
) -> None:
    """Record a bounce of one of our mails.

    A temporary failure counts as deferred, because the other server retries. Anybody who knows our Message-ID
    can forge a bounce; one that names only other recipients changes nothing.
    """
    returned = bounce.returned_message_id
    outbound_id = outbound.find_by_message_id(connection, returned) if returned else None
    if outbound_id is None:
        return
    to_address = outbound.load(connection, outbound_id).to_address
    recipients = bounce.of(normalise_address(to_address) or to_address)
    if recipients is None:
        logger.warning(
            "mail=%s event=bounce_disregarded: it names only other recipients; nothing changed",
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
