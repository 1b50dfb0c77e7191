"""What the providers of platforms share: they use the settings of the order source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from mailagent.settings import Settings


KEY = "ORDER_SOURCE_TOKEN"
WEBHOOK_SECRET = "ORDER_SOURCE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable


class PlatformPayments:
    """What every platform's `adapters.gateways.GatewayProvider` has. We learn of external refunds from the
    order's record."""

    name: str
    key_setting, secret_setting = KEY, WEBHOOK_SECRET
    failure_codes: ClassVar[Mapping[str, str]] = {}

    def make_webhook(self, _settings: Settings) -> None:
        """Return None: the webhook of orders also reports refunds."""

    def find_problems(self, settings: Settings) -> list[str]:
        """Return a problem if this platform is the gateway, but not the order source: it refunds only payments
        that it took, and only the source knows their ids."""
        if settings.payment_gateway != self.name or settings.order_source == self.name:
            return []
        return [
            f"PAYMENT_GATEWAY is {self.name}, but ORDER_SOURCE is not: set it to {self.name}, too"
        ]


def address_and_token(settings: Settings) -> tuple[str, str]:
    return settings.order_source_url or "", settings.order_source_token or ""
