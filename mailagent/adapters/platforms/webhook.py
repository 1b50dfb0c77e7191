"""The webhook of a platform's orders. We read only which order has changed, and not its content, because
deliveries repeat and come in any order.

https://shopify.dev/docs/apps/build/webhooks/verify-deliveries
https://woocommerce.github.io/woocommerce-rest-api-docs/#webhooks
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mailagent.adapters.shopify import orders as shopify
from mailagent.adapters.woocommerce import orders as woocommerce

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

    from mailagent.settings import Settings

_SIGNATURE = re.compile(r"[A-Za-z0-9+/]{43}=")
# When a webhook is saved, WooCommerce sends this test request without a signature.
_PING = re.compile(rb"webhook_id=[0-9]{1,18}")
PING_BYTES = 64


@dataclass(frozen=True, slots=True)
class OrderWebhook:
    """The webhook of one platform. `number`: the field with the order's number, in deliveries whose topic
    begins with `topics`."""

    name: str
    title: str
    signature_header: str
    topic_header: str
    topics: str
    number: str
    secrets: Sequence[str] = ()

    def can_verify(self, headers: Headers) -> bool:
        """Return whether a request may come from the platform, by its headers."""
        return bool(_SIGNATURE.fullmatch(headers.get(self.signature_header, "")))

    def verify(self, headers: Headers, body: bytes) -> bool:
        """Return whether one of the secrets signed these bytes (HMAC-SHA256 in base64)."""
        given = headers.get(self.signature_header, "").encode()
        made = (hmac.digest(each.encode(), body, "sha256") for each in self.secrets)
        return any(hmac.compare_digest(b64encode(each), given) for each in made)

    def is_ping(self, body: bytes) -> bool:
        """Return whether a request is WooCommerce's test request, which has no signature."""
        return self.name == woocommerce.NAME and bool(_PING.fullmatch(body))

    def read_number(self, headers: Headers, body: bytes) -> str | None:
        """Return the number of the order that has changed, or None if it is about something else, or does not
        say the number. Raises ValueError if the body cannot be read."""
        if not headers.get(self.topic_header, "").startswith(self.topics):
            return None
        try:
            found = json.loads(body)
        except RecursionError as problem:
            raise ValueError(f"no JSON that we can read: {problem!r}") from problem
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        # Of a deleted or edited order, Shopify tells only its own id. With an edit comes "orders/updated", too.
        number = found.get(self.number)
        return None if number is None else str(number)


_WEBHOOKS = {
    each.name: each
    for each in (
        OrderWebhook(
            shopify.NAME,
            shopify.TITLE,
            "X-Shopify-Hmac-Sha256",
            "X-Shopify-Topic",
            "orders/",
            "name",
        ),
        OrderWebhook(
            woocommerce.NAME,
            woocommerce.TITLE,
            "X-WC-Webhook-Signature",
            "X-WC-Webhook-Topic",
            "order.",
            "number",
        ),
    )
}


def make_webhook(settings: Settings) -> OrderWebhook | None:
    """Return the webhook of the order source; None if it has none, or no signing secret is set."""
    webhook, secrets = _WEBHOOKS.get(settings.order_source), settings.order_source_webhook_secrets
    if webhook is None or not secrets:
        return None
    return replace(webhook, secrets=secrets)
