"""A WooCommerce shop as order source and payment gateway. Both use the settings of the order source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mailagent.adapters.platforms.settings import KEY, PlatformPayments, address_and_token
from mailagent.adapters.woocommerce.orders import NAME, TITLE, is_woocommerce_payment

if TYPE_CHECKING:
    from mailagent.domain.orders.source import OrderSource
    from mailagent.domain.refunds.payment import PaymentGateway
    from mailagent.settings import Settings


class WooCommerceOrders:
    """Satisfies `adapters.order_sources.OrderSourceProvider`."""

    name, title, key_setting = NAME, TITLE, KEY

    def make(self, settings: Settings) -> OrderSource:
        """Return the shop at ORDER_SOURCE_URL."""
        from mailagent.adapters.woocommerce.client import WooCommerceClient
        from mailagent.adapters.woocommerce.source import WooCommerceSource

        return WooCommerceSource(WooCommerceClient(*address_and_token(settings)))

    def find_missing_rights(self, _settings: Settings) -> list[str]:
        """Return none: it does not say what our key may do."""
        return []


class WooCommercePayments(PlatformPayments):
    """Satisfies `adapters.gateways.GatewayProvider`."""

    name, title = NAME, TITLE
    has_payment = staticmethod(is_woocommerce_payment)

    def make(self, settings: Settings) -> PaymentGateway:
        """Return the gateway of the shop at ORDER_SOURCE_URL."""
        from mailagent.adapters.platforms.calls import REFUND_SECONDS
        from mailagent.adapters.woocommerce.client import WooCommerceClient
        from mailagent.adapters.woocommerce.gateway import WooCommerceGateway

        return WooCommerceGateway(WooCommerceClient(*address_and_token(settings), REFUND_SECONDS))
