"""A WooCommerce shop as order source and payment gateway. Both use the settings of the order source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from mailagent.adapters.platforms.settings import KEY, WEBHOOK_SECRET, find_problems
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

        return WooCommerceSource(WooCommerceClient(*_address(settings)))

    def find_problems(self, _settings: Settings) -> list[str]:
        """Return no problems: it has no settings of its own."""
        return []

    def find_missing_rights(self, _settings: Settings) -> list[str]:
        """Return none: it does not say what our key may do."""
        return []


class WooCommercePayments:
    """Satisfies `adapters.gateways.GatewayProvider`. We learn of external refunds from the order's record."""

    name, title, key_setting, secret_setting = NAME, TITLE, KEY, WEBHOOK_SECRET
    failure_codes: ClassVar[Mapping[str, str]] = {}

    def has_payment(self, payment_id: str) -> bool:
        """Return, by its id, whether a payment was made through WooCommerce."""
        return is_woocommerce_payment(payment_id)

    def make(self, settings: Settings) -> PaymentGateway:
        """Return the gateway of the shop at ORDER_SOURCE_URL."""
        from mailagent.adapters.platforms.calls import REFUND_SECONDS
        from mailagent.adapters.woocommerce.client import WooCommerceClient
        from mailagent.adapters.woocommerce.gateway import WooCommerceGateway

        return WooCommerceGateway(WooCommerceClient(*_address(settings), REFUND_SECONDS))

    def make_webhook(self, _settings: Settings) -> None:
        """Return None: the webhook of orders also reports refunds."""

    def find_problems(self, settings: Settings) -> list[str]:
        """Return a problem if orders do not come from WooCommerce."""
        return find_problems(settings, NAME)


def _address(settings: Settings) -> tuple[str, str]:
    return settings.order_source_url or "", settings.order_source_token or ""
