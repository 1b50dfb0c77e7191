"""Stripe as a payment gateway, with its webhook."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from mailagent.adapters.stripe.events import StripeWebhook
from mailagent.adapters.stripe.refunds import NAME, SECRET_SETTING, TITLE, is_stripe_payment
from mailagent.domain.refunds.payment import PaymentGateway

if TYPE_CHECKING:
    from mailagent.settings import Settings

PACKAGE = "stripe==16.1.0"

# Why Stripe did not refund: its codes of a refund that failed (`failure_reason`), and of a request that was
# refused (https://docs.stripe.com/error-codes). The console translates the meanings.
FAILURE_CODES: Mapping[str, str] = {
    "lost_or_stolen_card": "the card was reported lost or stolen",
    "expired_or_canceled_card": "the card has expired or was cancelled",
    "declined": "the customer's bank declined the refund",
    "charge_for_pending_refund_disputed": "the customer disputes the payment at their bank",
    "insufficient_funds": "the shop's balance at the gateway is too low",
    "merchant_request": "the shop stopped it at the gateway",
    "charge_already_refunded": "the payment was refunded already",
    "charge_disputed": "the customer disputes the payment at their bank",
    "charge_not_refundable": "the payment can no longer be refunded",
    "refund_disputed_payment": "the customer disputes the payment at their bank",
    "balance_insufficient": "the shop's balance at the gateway is too low",
}


class Stripe:
    """Satisfies `adapters.gateways.GatewayProvider`."""

    name = NAME
    title = TITLE
    key_setting = "STRIPE_API_KEY"
    secret_setting = SECRET_SETTING
    failure_codes: ClassVar[Mapping[str, str]] = FAILURE_CODES
    has_payment = staticmethod(is_stripe_payment)

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


def is_live_key(api_key: str | None) -> bool | None:
    """Return whether a key moves real money; None without one, or with one of another form.
    https://docs.stripe.com/keys"""
    return {"_live_": True, "_test_": False}.get((api_key or "")[2:8])
