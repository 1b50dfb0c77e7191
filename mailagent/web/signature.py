"""Whether a webhook request comes from SendGrid, and what to answer when it seems not to.

SendGrid throws mail away on any 4xx and keeps it for three days on a 5xx. So a bad signature is only
told "403" once a good one has been seen: until then it may be our own key that is wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from flask import Request

from mailagent.adapters.webhook_signature import verify

logger = logging.getLogger(__name__)

SIGNATURE_HEADER = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP_HEADER = "X-Twilio-Email-Event-Webhook-Timestamp"


class SignatureDoor:
    """One webhook's door. Without keys it is open, which production settings do not allow."""

    def __init__(self, webhook: str) -> None:
        self._webhook = webhook
        self._verified_with: tuple[str, ...] = ()

    def refusal(self, request: Request, body: bytes, keys: Sequence[str]) -> tuple[str, int] | None:
        """Return the answer for a request whose signature is not good, or None to let it in."""
        if not keys:
            return None
        signature = request.headers.get(SIGNATURE_HEADER, "")
        if verify(keys, request.headers.get(TIMESTAMP_HEADER, ""), signature, body):
            self._verified_with = tuple(keys)
            return None
        reason = "the signature is wrong" if signature else "there is no signature"
        seen = self._verified_with == tuple(keys)
        logger.error(
            "%s webhook: %s; answered %s. If this is SendGrid, compare its verification key with "
            "the setting.",
            self._webhook,
            reason,
            403 if seen else 503,
        )
        if seen:
            return f"{reason}: this request does not come from our mail provider\n", 403
        return (
            f"{reason}, and no request has been verified since the start: check the verification key "
            "in the settings; the mail can be delivered again\n",
            503,
        )
