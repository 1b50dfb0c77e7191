"""Stripe as a payment gateway, with its webhook."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mailagent.adapters.stripe import events
from mailagent.adapters.stripe.refunds import NAME, is_stripe_payment
from mailagent.domain.refunds.payment import GatewayEvent, PaymentGateway

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

    from mailagent.settings import Settings

TITLE = "Stripe"
SIGNATURE_HEADER = "Stripe-Signature"
SECRET_SETTING = "STRIPE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
PACKAGE = "stripe==16.1.0"


class Stripe:
    """Satisfies `adapters.gateways.GatewayProvider`."""

    name = NAME
    title = TITLE
    secret_setting = SECRET_SETTING

    def has_payment(self, payment_id: str) -> bool:
        """Return whether an id is that of a PaymentIntent or a Charge."""
        return is_stripe_payment(payment_id)

    def make(self, settings: Settings) -> PaymentGateway:
        """Return the gateway of STRIPE_API_KEY."""
        from mailagent.adapters.stripe.gateway import StripeGateway  # web processes need no SDK

        return StripeGateway(settings.stripe_api_key or "", settings.stripe_api_base)

    def make_webhook(self, settings: Settings) -> StripeWebhook | None:
        """Return the webhook of STRIPE_WEBHOOK_SECRET."""
        secrets = settings.stripe_webhook_secrets
        return StripeWebhook(secrets, is_live_key(settings.stripe_api_key)) if secrets else None

    def find_problems(self, settings: Settings) -> list[str]:
        """Return a problem if the key or the SDK is missing."""
        pays = settings.payment_gateway == NAME and settings.runs_workflows
        listens = bool(settings.stripe_webhook_secrets) and settings.runs_web
        problems = []
        if pays and not settings.stripe_api_key:
            problems.append(
                "STRIPE_API_KEY: is not set, but PAYMENT_GATEWAY is stripe; make a restricted key that may "
                "write refunds, and read charges and payment intents"
            )
        if (pays or listens) and find_spec("stripe") is None:
            asked = "PAYMENT_GATEWAY is stripe" if pays else "STRIPE_WEBHOOK_SECRET is set"
            problems.append(f"{asked}, but its package is missing: pip install {PACKAGE}")
        return problems


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
        """Return whether the signature has the form of Stripe's."""
        return events.can_verify(headers.get(SIGNATURE_HEADER, ""))

    def verify(self, headers: Headers, body: bytes, now: datetime) -> bool:
        """Verify the signature, not older than five minutes."""
        return events.verify(self._secrets, headers.get(SIGNATURE_HEADER, ""), body, now)

    def parse_event(self, body: bytes) -> GatewayEvent:
        """Return what an event says."""
        return events.parse_event(body, self._livemode)


def is_live_key(api_key: str | None) -> bool | None:
    """Return whether a key moves real money; None without one, or with one of another form.
    https://docs.stripe.com/keys"""
    return {"_live_": True, "_test_": False}.get((api_key or "")[2:8])
