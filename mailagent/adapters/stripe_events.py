"""Stripe's webhook events: is one really Stripe's, and what does it say about our money?

https://docs.stripe.com/api/events/types. Events come in any order, and more than once. The SDK is
imported only to verify: a process that takes no events needs none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mailagent.adapters.stripe_refunds import NAME, payment_ids, read_refund
from mailagent.domain.payment import Dispute, GatewayRefund

REFUND_KINDS = frozenset(
    {"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"}
)
CHARGE_KIND = "charge.refunded"
DISPUTE_PREFIX = "charge.dispute."

# https://docs.stripe.com/disputes/how-disputes-work: `warning_…` is an inquiry, which takes no money.
_MONEY_TAKEN = frozenset({"needs_response", "under_review", "lost"})
_MONEY_BACK = frozenset({"won", "prevented"})


@dataclass(frozen=True, slots=True)
class StripeEvent:
    """What an event says. `refunds` and `dispute` are empty where it says nothing of that;
    `unlisted` is set where it says that money was given back but not by which refunds."""

    event_id: str
    kind: str
    occurred_at: datetime
    refunds: tuple[GatewayRefund, ...] = ()
    dispute: Dispute | None = None
    unlisted: bool = False
    problem: str | None = None

    def facts(self) -> dict[str, Any]:
        """Return what is worth keeping of it: no names, addresses or cards, of which events are full."""
        return {
            "refunds": [
                {
                    "reference": each.reference,
                    "payment_ids": list(each.payment_ids),
                    "amount": str(each.amount),
                    "state": each.state.value,
                    "key": each.idempotency_key,
                    "why": each.why,
                }
                for each in self.refunds
            ],
            "dispute": self.dispute.dispute_id if self.dispute else None,
            "payment_ids": list(self.dispute.payment_ids) if self.dispute else [],
            "charged_back": self.dispute.charged_back if self.dispute else None,
        }


def verify(secrets: Sequence[str], header: str, body: bytes) -> bool:
    """Return whether a `Stripe-Signature` header signs these bytes, not long ago, with one of the
    endpoint's secrets. https://docs.stripe.com/webhooks/signature"""
    from stripe import SignatureVerificationError, WebhookSignature

    for secret in secrets:
        try:
            return bool(WebhookSignature.verify_header(body, header, secret, TOLERANCE_SECONDS))
        except (SignatureVerificationError, UnicodeDecodeError):
            continue
    return False


# As long as Stripe's own libraries let an event lie; each delivery of it is signed anew.
TOLERANCE_SECONDS = 300


def parse_event(body: bytes) -> StripeEvent:
    """Return what an event says; one that says what we do not understand has a `problem`.

    Raises ValueError for a body that is no event at all.
    """
    try:
        event = json.loads(body)
        event_id, kind = str(event["id"]), str(event["type"])
        occurred_at = datetime.fromtimestamp(int(event["created"]), UTC)
        content = event["data"]["object"]
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as problem:
        raise ValueError(f"not an event of Stripe's: {problem!r}") from None
    try:
        return _understood(StripeEvent(event_id, kind, occurred_at), content)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        return StripeEvent(event_id, kind, occurred_at, problem=str(problem))


def _understood(event: StripeEvent, content: Mapping[str, Any]) -> StripeEvent:
    told: dict[str, Any] = {}
    if event.kind in REFUND_KINDS:
        told["refunds"] = (read_refund(content),)
    elif event.kind == CHARGE_KIND:
        # Since API version 2022-11-15 a charge comes without its refunds, unless it is asked for them.
        listed = (content.get("refunds") or {}).get("data") or []
        told["refunds"] = tuple(_of_charge(each, content) for each in listed)
        told["unlisted"] = not listed
    elif event.kind.startswith(DISPUTE_PREFIX):
        told["dispute"] = _dispute(content)
    return StripeEvent(event.event_id, event.kind, event.occurred_at, **told)


def _of_charge(refund: Mapping[str, Any], charge: Mapping[str, Any]) -> GatewayRefund:
    intent = refund.get("payment_intent") or charge.get("payment_intent")
    return read_refund({"charge": charge["id"], **refund, "payment_intent": intent})


def _dispute(fields: Mapping[str, Any]) -> Dispute:
    status = str(fields["status"])
    charged_back = None
    if status in _MONEY_TAKEN:
        charged_back = True
    elif status in _MONEY_BACK:
        charged_back = False
    return Dispute(str(fields["id"]), NAME, payment_ids(fields), charged_back)
