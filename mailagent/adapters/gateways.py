"""The registry of payment gateways.

To add one, write a folder beside this module with a class that satisfies `GatewayProvider`, and add it to
`_providers`. Its name is a value of PAYMENT_GATEWAY and part of its webhook's path. The gateway
`ledger` needs no provider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Protocol

from mailagent.adapters.shopify.provider import ShopifyPayments
from mailagent.adapters.stripe.provider import Stripe
from mailagent.adapters.woocommerce.provider import WooCommercePayments
from mailagent.domain.refunds.payment import (
    GatewayEvent,
    GatewayRefund,
    PaymentGateway,
    PaymentOutcome,
    RefundRequest,
)

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

    from mailagent.settings import Settings

LEDGER = "ledger"


class GatewayWebhook(Protocol):
    """The webhook of a gateway: verifies and parses its requests. `title`: the gateway's name for people.
    `secret_setting`: the environment variable with the signing secret."""

    name: str
    title: str
    secret_setting: str

    def can_verify(self, headers: Headers) -> bool:
        """Return whether a request may come from the gateway, by its headers. If not, the caller does not read
        the body."""

    def verify(self, headers: Headers, body: bytes, now: datetime) -> bool:
        """Return whether the gateway signed a request, and not too long before `now`."""

    def parse_event(self, body: bytes) -> GatewayEvent:
        """Parse an event. Raises ValueError if the body is not one."""


class GatewayProvider(Protocol):
    """Makes a payment gateway and its webhook from the settings. Settings and rows have its `name`, such as
    `stripe`; people read its `title`. `key_setting`, `secret_setting`: the environment variables with our key
    and with the webhook's secret. `failure_codes`: what its codes of a failed refund mean, in English; the
    console translates it."""

    name: str
    title: str
    key_setting: str
    secret_setting: str
    failure_codes: ClassVar[Mapping[str, str]]

    def has_payment(self, payment_id: str) -> bool:
        """Return whether a payment was made through this gateway, by the form of its id."""

    def make(self, settings: Settings) -> PaymentGateway:
        """Return the gateway that these settings describe."""

    def make_webhook(self, settings: Settings) -> GatewayWebhook | None:
        """Return its webhook, or None if no signing secret is set."""

    def find_problems(self, settings: Settings) -> list[str]:
        """Return a sentence for each problem of its settings; none if the settings do not name this gateway."""


_providers: dict[str, GatewayProvider] = {
    each.name: each for each in (Stripe(), ShopifyPayments(), WooCommercePayments())
}


def register(provider: GatewayProvider) -> None:
    """Add a gateway as a value of PAYMENT_GATEWAY."""
    _providers[provider.name] = provider


def list_providers() -> list[GatewayProvider]:
    """Return all registered gateways."""
    return list(_providers.values())


def find(name: str) -> GatewayProvider | None:
    """Return the provider of a gateway; None for the ledger. Raises ValueError for an unknown name."""
    if name == LEDGER:
        return None
    if name not in _providers:
        raise ValueError(
            f"{name!r} is not known; use one of {', '.join(sorted([LEDGER, *_providers]))}"
        )
    return _providers[name]


# In our texts a code ends the text, or stands before one of these marks. Before it is the HTTP status, if any.
_CODE = re.compile(r"(?<!\w)(?:\d{3} )?([a-z_]+)(?=[:;)]|$)")


def find_codes(words: str, names: str) -> list[tuple[str, str]]:
    """Return the known failure codes in a text of gateways, each once, with its meaning in English. `names`: of
    the gateways, as a refund stores them, with commas between. The ledger has no codes, because people of the
    shop write its reasons."""
    meanings = _meanings_of(names)
    found = dict.fromkeys(_CODE.findall(words))
    return [(code, meanings[code]) for code in found if code in meanings]


def explain_codes(words: str, names: str) -> str:
    """Return a text of gateways with the meaning of each known failure code in its place. `names`: as for
    `find_codes`."""
    meanings = _meanings_of(names)
    return _CODE.sub(lambda found: meanings.get(found[1], found[0]), words)


def _meanings_of(names: str) -> dict[str, str]:
    named = [_providers[name] for name in names.split(", ") if name in _providers]
    return {code: meaning for each in named for code, meaning in each.failure_codes.items()}


class RoutedGateway:
    """Sends refunds to one gateway for the payments that it knows by their ids, and to another one for all
    others.

    For example, an order may be paid by card and by the shop's gift card. What the other gateway was asked for
    before the shop changed PAYMENT_GATEWAY stays there.
    """

    def __init__(
        self, known: PaymentGateway, is_known: Callable[[str], bool], rest: PaymentGateway
    ) -> None:
        self.name = known.name
        self._known, self._is_known, self._rest = known, is_known, rest

    def is_remote(self, request: RefundRequest) -> bool:
        """Return whether the gateway of this payment is called over the network."""
        return self._of(request) is self._known

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Refund through the gateway of this payment."""
        return self._of(request).refund(request)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return the outcome of an earlier call."""
        return self._of(request).look_up(request)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return all refunds of a payment, those of the other gateway last."""
        theirs = self._known.list_refunds(payment_id) if self._is_known(payment_id) else ()
        return [*theirs, *self._rest.list_refunds(payment_id)]

    def _of(self, request: RefundRequest) -> PaymentGateway:
        stays = request.asked_gateway == self._rest.name
        return self._known if self._known.is_remote(request) and not stays else self._rest
