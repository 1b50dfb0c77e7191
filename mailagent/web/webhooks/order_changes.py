"""The webhook of a shop platform: after a change of an order there, our next use of it asks the platform
again. If the order has an open task, a run does so a minute later."""

from __future__ import annotations

import logging

from flask import Blueprint, Response, request

from mailagent import services
from mailagent.adapters.platforms.webhook import PING_BYTES, OrderWebhook
from mailagent.domain.orders.freshness import FRESH_FOR
from mailagent.domain.remedies.remedy import RemedyStatus
from mailagent.store.orders import versions
from mailagent.store.refunds import remedies
from mailagent.web.guard import signed_webhook
from mailagent.web.webhooks.body import HttpRefusal, answer, read_pieces

logger = logging.getLogger(__name__)

# More than an order with hundreds of lines has.
LARGEST_BYTES = 4 * 1024 * 1024


def make_blueprint(webhook: OrderWebhook) -> Blueprint:
    """Return the route of a platform's webhook, `/webhooks/orders/` and its name."""
    blueprint = Blueprint(f"orders_of_{webhook.name}", __name__)

    @blueprint.post(f"/webhooks/orders/{webhook.name}")
    @signed_webhook
    def receive_change() -> Response:
        """Receive one event that an order has changed. Respond 200 also to events about other things."""
        return answer(f"orders/{webhook.name}", webhook.title, lambda: _receive(webhook))

    return blueprint


def _receive(webhook: OrderWebhook) -> str:
    signed = webhook.can_verify(request.headers)
    body = b"".join(read_pieces(request, LARGEST_BYTES if signed else PING_BYTES))
    if not signed and webhook.is_ping(body):
        return "pong\n"
    if not signed or not webhook.verify(request.headers, body):
        logger.error(
            "webhook=orders/%s event=signature_refused: the signature is missing or wrong; answered 400. If "
            "this is %s, compare its signing secret with ORDER_SOURCE_WEBHOOK_SECRET.",
            webhook.name,
            webhook.title,
        )
        raise HttpRefusal("the signature is missing or wrong\n", 400)
    try:
        order_id = webhook.read_number(request.headers, body)
    except ValueError as problem:
        logger.error("webhook=orders/%s event=unreadable: %s", webhook.name, problem)
        raise HttpRefusal("this is not about an order\n", 400) from problem
    if order_id is None:
        return "not about an order\n"
    live = services.current()
    with live.database.transaction() as connection:
        # A look-up that is under way may still store the old order. But before a payment we always ask again.
        known = versions.note_changed(connection, order_id, live.now() - FRESH_FOR)
        asked = remedies.list_of_order(connection, order_id)
        if any(each.status is RemedyStatus.TASK for each in asked):
            queue = live.workflow_client.queue
            queue.enqueue_look_up(connection, order_id, live.now(), changed=True)
    return "noted\n" if known else "looked up when somebody asks for it\n"
