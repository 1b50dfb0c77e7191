"""Payment gateways: who gives the customer's money back, and tells what else became of it.

A new one is a folder beside this module, with a class that satisfies `GatewayProvider`, and one line in
`_register_built_in`. Its name stands in PAYMENT_GATEWAY and in its webhook's address. `ledger`, which
needs no provider, is always there.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from mailagent.domain.refunds.payment import GatewayEvent, PaymentGateway

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

    from mailagent.settings import Settings

LEDGER = "ledger"


class GatewayWebhook(Protocol):
    """The webhook of a gateway: which requests are its own, and what they say."""

    @property
    def name(self) -> str:
        """The gateway's name."""

    @property
    def title(self) -> str:
        """The gateway's name for people."""

    @property
    def secret_setting(self) -> str:
        """The environment variable that holds the signing secret."""

    def can_verify(self, headers: Headers) -> bool:
        """Say by the headers alone whether a request can be the gateway's. Its body is read only then."""

    def verify(self, headers: Headers, body: bytes, now: datetime) -> bool:
        """Say whether a request is the gateway's, and not an old one."""

    def parse_event(self, body: bytes) -> GatewayEvent:
        """Return what an event says. Raises ValueError for a body that is none."""


class GatewayProvider(Protocol):
    """A gateway with a provider of its own."""

    @property
    def name(self) -> str:
        """Its name in settings and rows, such as `stripe`."""

    @property
    def title(self) -> str:
        """Its name for people."""

    @property
    def secret_setting(self) -> str:
        """The environment variable that holds the signing secret of its webhook."""

    def has_payment(self, payment_id: str) -> bool:
        """Say by its id whether a payment was made through this gateway."""

    def make(self, settings: Settings) -> PaymentGateway:
        """Return the gateway that these settings describe."""

    def make_webhook(self, settings: Settings) -> GatewayWebhook | None:
        """Return its webhook, or None if no signing secret is set."""

    def find_problems(self, settings: Settings) -> list[str]:
        """Return what is wrong with its settings, a sentence each; asked only where it is used."""


_providers: dict[str, GatewayProvider] = {}


def register(provider: GatewayProvider) -> None:
    """Let PAYMENT_GATEWAY name a gateway."""
    _providers[provider.name] = provider


def list_providers() -> list[GatewayProvider]:
    """Return all gateways that have a provider."""
    return list(_providers.values())


def find(name: str) -> GatewayProvider | None:
    """Return the provider of a gateway; None for the ledger.

    Raises ValueError, with the names that are known, for any other name.
    """
    if name == LEDGER:
        return None
    if name not in _providers:
        raise ValueError(
            f"{name!r} is not known; use one of {', '.join(sorted([LEDGER, *_providers]))}"
        )
    return _providers[name]


def _register_built_in() -> None:
    from mailagent.adapters.stripe.provider import Stripe

    register(Stripe())


_register_built_in()
