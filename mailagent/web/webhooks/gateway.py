"""The payment gateway's webhook: events about refunds, ours and external ones, and about disputes.

One transaction stores the event, its consequences and the wake-up. After a bad signature we store nothing and
respond 400; after a failure of ours we respond 503, and the gateway sends the event again.
"""

from __future__ import annotations

import logging

import sqlalchemy as sa
from flask import Blueprint, Response, request

from mailagent import services
from mailagent.adapters.gateways import GatewayWebhook
from mailagent.domain.refunds.payment import GatewayEvent
from mailagent.payment_events import follow_dispute, follow_refund
from mailagent.store.refunds import gateway_events
from mailagent.web.guard import signed_webhook
from mailagent.web.webhooks.body import HttpRefusal, answer, read_pieces

logger = logging.getLogger(__name__)

# Far more than any event about refunds or disputes has (https://docs.stripe.com/api/events).
LARGEST_EVENT_BYTES = 1024 * 1024


def make_blueprint(webhook: GatewayWebhook) -> Blueprint:
    """Return the route of a gateway's webhook, `/webhooks/` and its name."""
    blueprint = Blueprint(webhook.name, __name__)

    @blueprint.post(f"/webhooks/{webhook.name}")
    @signed_webhook
    def receive_event() -> Response:
        """Receive one event. Respond 200 also to a known event, and to one that is not about our money."""
        return answer(webhook.name, webhook.title, lambda: _receive(webhook))

    return blueprint


def _receive(webhook: GatewayWebhook) -> str:
    # Check the headers first: if the request cannot come from the gateway, we do not read its body.
    pieces = read_pieces(request, LARGEST_EVENT_BYTES)
    body = b"".join(pieces) if webhook.can_verify(request.headers) else b""
    if not webhook.verify(request.headers, body, services.current().now()):
        logger.error(
            "webhook=%s event=signature_refused: the signature is wrong or old; answered 400. If this "
            "is %s, compare the endpoint's signing secret with %s.",
            webhook.name,
            webhook.title,
            webhook.secret_setting,
        )
        raise HttpRefusal("the signature is missing, wrong or old\n", 400)
    try:
        event = webhook.parse_event(body)
    except ValueError as problem:
        logger.error("webhook=%s event=unreadable: answered 400: %s", webhook.name, problem)
        raise HttpRefusal("this is not an event\n", 400) from problem
    return _store(webhook, event)


def _store(webhook: GatewayWebhook, event: GatewayEvent) -> str:
    live = services.current()
    with live.database.transaction() as connection:
        if not gateway_events.record(connection, webhook.name, event, live.now()):
            return "known already\n"
        outcome = event.foreign or _follow(connection, webhook, event)
        gateway_events.set_outcome(connection, event.event_id, outcome)
    logger.info(
        "webhook=%s event=stored: %s, %s: %s", webhook.name, event.event_id, event.kind, outcome
    )
    return "stored\n"


def _follow(connection: sa.Connection, webhook: GatewayWebhook, event: GatewayEvent) -> str:
    if event.problem:
        logger.error(
            "webhook=%s event=not_understood: %s: %s", webhook.name, event.event_id, event.problem
        )
        return f"cannot be understood: {event.problem}"
    outcomes = [follow_refund(connection, told, again=event.event_id) for told in event.refunds]
    if event.dispute:
        outcomes.append(follow_dispute(connection, event.dispute))
    if event.given_back:
        outcomes.append(
            gateway_events.apply(connection, event.given_back, services.current().now())
        )
    return "; ".join(outcomes) or "says nothing of our money"
