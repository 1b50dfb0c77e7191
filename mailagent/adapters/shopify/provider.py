"""A Shopify store as order source and payment gateway. Both use the settings of the order source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mailagent.adapters.platforms.settings import KEY, PlatformPayments, address_and_token
from mailagent.adapters.shopify.orders import NAME, TITLE, is_shopify_payment
from mailagent.domain.remedies.remedy import RemedyKind

if TYPE_CHECKING:
    from mailagent.adapters.shopify.source import ShopifySource
    from mailagent.domain.refunds.payment import PaymentGateway
    from mailagent.settings import Settings


class ShopifyOrders:
    """Satisfies `adapters.order_sources.OrderSourceProvider`."""

    name, title, key_setting = NAME, TITLE, KEY

    def make(self, settings: Settings) -> ShopifySource:
        """Return the store at ORDER_SOURCE_URL."""
        from mailagent.adapters.shopify.client import ShopifyClient
        from mailagent.adapters.shopify.source import ShopifySource

        return ShopifySource(ShopifyClient(*address_and_token(settings)))

    def find_missing_rights(self, settings: Settings) -> list[str]:
        """Return a sentence for each scope that our token lacks. Raises SourceProblem."""
        from mailagent.adapters.shopify.queries import RESTOCK_SCOPE

        needed, remedies = ["read_orders", "read_fulfillments"], settings.policy.remedies
        cancels = RemedyKind.CANCEL in remedies.offered
        if cancels or settings.payment_gateway == NAME:
            needed += ["write_orders", RESTOCK_SCOPE]
        elif remedies.changes_addresses:
            needed.append("write_orders")
        has = self.make(settings).list_scopes()
        missing = ", ".join(each for each in needed if each not in has)
        if not missing:
            return []
        hint = "select them in a new version of the app, release it (docs/platforms.md)"
        return [f"{KEY}: Shopify does not allow it {missing}: {hint}"]


class ShopifyPayments(PlatformPayments):
    """Satisfies `adapters.gateways.GatewayProvider`."""

    name, title = NAME, TITLE
    has_payment = staticmethod(is_shopify_payment)

    def make(self, settings: Settings) -> PaymentGateway:
        """Return the gateway of the store at ORDER_SOURCE_URL."""
        from mailagent.adapters.platforms.calls import REFUND_SECONDS
        from mailagent.adapters.shopify.client import ShopifyClient
        from mailagent.adapters.shopify.gateway import ShopifyGateway

        return ShopifyGateway(ShopifyClient(*address_and_token(settings), REFUND_SECONDS))
