"""Verifies and parses Stripe's webhook events: https://docs.stripe.com/api/events/types.

Events come in any order, and more than once. Only `StripeWebhook.verify` imports the SDK.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mailagent.adapters.stripe.refunds import (
    NAME,
    SECRET_SETTING,
    TITLE,
    from_stripe,
    payment_ids,
    read_refund,
)
from mailagent.domain.refunds.payment import Dispute, GatewayEvent, GatewayRefund, RefundedTotal

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

logger = logging.getLogger(__name__)

# In earlier API versions Stripe also makes a refund of what a partial capture left of the authorised amount:
# https://docs.stripe.com/changelog/basil/2025-03-31/remove-refund-from-partial-capture-and-payment-cancellation-flow
REFUNDS_ONLY_SINCE = "2025-03-31"

REFUND_KINDS = frozenset(
    {"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"}
)
CHARGE_KIND = "charge.refunded"
DISPUTE_PREFIX = "charge.dispute."

# https://docs.stripe.com/disputes/how-disputes-work: a status `warning_…` is an inquiry, which takes no money.
# With any other status before the final ones, also an unknown one, the bank has taken the money.
_INQUIRY = "warning_"
_MONEY_BACK = "won"
# A `prevented` dispute of the type `block` never took money; one of the type `resolution` gave it back.
_PREVENTED, _NEVER_TAKEN = "prevented", "block"


SIGNATURE_HEADER = "Stripe-Signature"  # https://docs.stripe.com/webhooks/signature
_SIGNATURE_PARTS = (re.compile("t=[0-9]{1,12}"), re.compile("v1=[0-9a-f]{64}"))
# The tolerance of Stripe's own libraries. Stripe signs each delivery anew.
TOLERANCE_SECONDS = 300


class StripeWebhook:
    """Satisfies `adapters.gateways.GatewayWebhook`."""

    name = NAME
    title = TITLE
    secret_setting = SECRET_SETTING

    def __init__(self, secrets: Sequence[str], livemode: bool | None) -> None:
        """`livemode`: whether our key moves real money; None if that is not known."""
        self._secrets = secrets
        self._livemode = livemode

    def can_verify(self, headers: Headers) -> bool:
        """Return whether the signature has the form of Stripe's: a time and a signature."""
        parts = [each.strip() for each in headers.get(SIGNATURE_HEADER, "").split(",")]
        return all(any(form.fullmatch(each) for each in parts) for form in _SIGNATURE_PARTS)

    def verify(self, headers: Headers, body: bytes, now: datetime) -> bool:
        """Return whether one of the secrets signed these bytes, at most five minutes before `now`."""
        from stripe import SignatureVerificationError, WebhookSignature

        header = headers.get(SIGNATURE_HEADER, "")
        if not header.isascii():  # the SDK's comparison would raise
            return False
        for secret in self._secrets:
            try:
                # With a tolerance, the SDK would use this machine's clock.
                WebhookSignature.verify_header(body, header, secret, tolerance=None)
            except (SignatureVerificationError, UnicodeDecodeError):
                continue
            # The first `t`, as the SDK reads it.
            signed_at = next(int(each[2:]) for each in header.split(",") if each.startswith("t="))
            return now.timestamp() - signed_at <= TOLERANCE_SECONDS
        return False

    def parse_event(self, body: bytes) -> GatewayEvent:
        """Parse an event: see the function `parse_event`. Raises ValueError."""
        return parse_event(body, self._livemode)


def parse_event(body: bytes, livemode: bool | None = None) -> GatewayEvent:
    """Parse an event. If we cannot read its content, the event has a `problem`.

    `livemode`: whether our own key moves real money; None if unknown. Raises ValueError if the body is not an
    event.
    """
    try:
        event = json.loads(body)
        event_id, kind = str(event["id"]), str(event["type"])
        occurred_at = datetime.fromtimestamp(int(event["created"]), UTC)
        content = event["data"]["object"]
        foreign = _foreign(event.get("account"), event.get("livemode"), livemode)
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as problem:
        raise ValueError(f"not an event of Stripe's: {problem!r}") from None
    bare = GatewayEvent(event_id, kind, occurred_at, foreign=foreign)
    _warn_of_old_version(bare, str(event.get("api_version") or REFUNDS_ONLY_SINCE))
    try:
        return _understood(bare, content)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        return replace(bare, problem=str(problem))


def _warn_of_old_version(event: GatewayEvent, version: str) -> None:
    if event.kind in {*REFUND_KINDS, CHARGE_KIND} and version < REFUNDS_ONLY_SINCE:
        logger.warning(
            "webhook=stripe event=old_api_version: %s has API version %s, in which a refund may be what a"
            " partial capture left. It counts as refunded elsewhere. Give the webhook version %s or later.",
            event.event_id,
            version,
            REFUNDS_ONLY_SINCE,
        )


def _foreign(account: str | None, livemode: bool | None, ours: bool | None) -> str | None:
    """Return why an event is not about our account, or None. Its signature may be valid all the same."""
    if account:
        return f"is of the connected account {account}: not followed"
    if None not in (ours, livemode) and ours != livemode:
        mode = "live" if livemode else "test"
        return f"is of {mode} mode, STRIPE_API_KEY is not: not followed"
    return None


def _understood(event: GatewayEvent, content: Mapping[str, Any]) -> GatewayEvent:
    found: dict[str, Any] = {}
    if event.kind in REFUND_KINDS:
        found["refunds"] = (read_refund(content),)
    elif event.kind == CHARGE_KIND:
        # Since API version 2022-11-15 a charge does not include its refunds by default.
        listed = (content.get("refunds") or {}).get("data") or []
        found["refunds"] = tuple(_of_charge(each, content) for each in listed)
        if not listed:
            found["given_back"] = _given_back(content, event.occurred_at)
    elif event.kind.startswith(DISPUTE_PREFIX):
        found["dispute"] = _dispute(content)
    return replace(event, **found)


def _given_back(charge: Mapping[str, Any], at: datetime) -> RefundedTotal:
    names = payment_ids({"payment_intent": charge.get("payment_intent"), "charge": charge["id"]})
    total = from_stripe(int(charge["amount_refunded"]), str(charge["currency"]))
    return RefundedTotal(NAME, names, total, at)


def _of_charge(refund: Mapping[str, Any], charge: Mapping[str, Any]) -> GatewayRefund:
    intent = refund.get("payment_intent") or charge.get("payment_intent")
    return read_refund({"charge": charge["id"], **refund, "payment_intent": intent})


def _dispute(fields: Mapping[str, Any]) -> Dispute:
    status = str(fields["status"])
    charged_back: bool | None = True
    if status.startswith(_INQUIRY):
        charged_back = None
    elif status == _MONEY_BACK or (status == _PREVENTED and _case_type(fields) == _NEVER_TAKEN):
        charged_back = False
    return Dispute(str(fields["id"]), NAME, payment_ids(fields), charged_back)


def _case_type(fields: Mapping[str, Any]) -> object:
    card = (fields.get("payment_method_details") or {}).get("card") or {}
    return card.get("case_type")
