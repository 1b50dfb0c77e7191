"""Stripe's webhook: what became of refunds, ours and others, and of payments that are charged back.

The event, what follows from it and the wake-up are one transaction. A bad signature stores nothing and
gets 400; our own failure gets 503, upon which Stripe sends the event again for three days.
"""

from __future__ import annotations

import logging

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.adapters.stripe.events import StripeEvent, can_verify, parse_event, verify
from mailagent.adapters.stripe.refunds import NAME
from mailagent.store.refunds import gateway_events
from mailagent.store.refunds.payment_events import follow_sum
from mailagent.web.guard import signed_webhook
from mailagent.web.webhooks.body import NotWhole, read_body
from mailagent.web.webhooks.payment_events import follow_dispute, follow_refund

logger = logging.getLogger(__name__)

blueprint = Blueprint("stripe", __name__)

# https://docs.stripe.com/api/events: far more than any event of refunds or disputes has.
LARGEST_EVENT_BYTES = 1024 * 1024


@blueprint.post("/webhooks/stripe")
@signed_webhook
def receive_event() -> Response:
    """Take one event. Known ones, and kinds that say nothing of our money, are thanked for too."""
    live = services.current()
    try:
        header = request.headers.get("Stripe-Signature", "")
        # A request that cannot be Stripe's ends at its headers; its body is not read.
        body = read_body(request, LARGEST_EVENT_BYTES) if can_verify(header) else b""
        if not verify(live.stripe_webhook_secrets, header, body, live.now()):
            logger.error(
                "stripe webhook: the signature is wrong or old; answered 400. If this is Stripe, "
                "compare the endpoint's signing secret with STRIPE_WEBHOOK_SECRET."
            )
            return _plain("the signature is missing, wrong or old\n", 400)
        return _plain(_store(parse_event(body)), 200)
    except NotWhole as problem:
        logger.error("an event of Stripe's did not arrive whole: %s", problem)
        return _plain("the request did not arrive whole; send it again\n", 503)
    except ValueError as problem:
        logger.error("an event of Stripe's that cannot be read: %s", problem)
        return _plain("this is not an event\n", 400)
    except Exception:
        logger.exception("an event of Stripe's could not be stored; Stripe will send it again")
        return _plain("the event could not be stored; send it again\n", 503)


def _store(event: StripeEvent) -> str:
    live = services.current()
    foreign = _foreign(event)
    with live.database.transaction() as connection:
        new = gateway_events.record(
            connection,
            NAME,
            event.event_id,
            event.kind,
            event.facts(),
            event.occurred_at,
            live.now(),
        )
        if not new:
            return "known already\n"
        if not foreign:
            gateway_events.record_payments(connection, event.event_id, event.payment_ids())
        outcome = foreign or _follow(connection, event)
        gateway_events.set_outcome(connection, event.event_id, outcome)
    logger.info("stripe's event %s, %s: %s", event.event_id, event.kind, outcome)
    return "stored\n"


def _foreign(event: StripeEvent) -> str | None:
    """Return why an event is not about our money, or None: it may carry our key all the same."""
    live = services.current()
    if event.account:
        return f"is of the connected account {event.account}: not followed"
    if (
        None not in (live.stripe_livemode, event.livemode)
        and live.stripe_livemode != event.livemode
    ):
        mode = "live" if event.livemode else "test"
        return f"is of {mode} mode, STRIPE_API_KEY is not: not followed"
    return None


def _follow(connection: sa.Connection, event: StripeEvent) -> str:
    if event.problem:
        logger.error("stripe's event %s cannot be understood: %s", event.event_id, event.problem)
        return f"cannot be understood: {event.problem}"
    outcomes = [follow_refund(connection, told, again=event.event_id) for told in event.refunds]
    if event.dispute:
        outcomes.append(follow_dispute(connection, event.dispute))
    if event.given_back:
        outcomes.append(follow_sum(connection, event.given_back, services.current().now()))
    return "; ".join(outcomes) or "says nothing of our money"


def _plain(text: str, status: int) -> Response:
    return Response(text, status, mimetype="text/plain")
