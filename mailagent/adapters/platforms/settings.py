"""The settings of platforms: those of the order source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mailagent.settings import Settings


KEY = "ORDER_SOURCE_TOKEN"
WEBHOOK_SECRET = "ORDER_SOURCE_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable


def find_problems(settings: Settings, name: str) -> list[str]:
    """Return a problem if the platform `name` is the gateway, but not the order source: it refunds only
    payments that it took, and only the source knows their ids."""
    if settings.payment_gateway != name or settings.order_source == name:
        return []
    return [f"PAYMENT_GATEWAY is {name}, but ORDER_SOURCE is not: set it to {name}, too"]
