"""A shop's own order server as an order source. It stands apart from `source`, so that listing the sources does
not load pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mailagent.domain.orders.source import OrderSource
    from mailagent.settings import Settings


class Http:
    """Satisfies `adapters.order_sources.OrderSourceProvider`."""

    name = "http"
    title = "The order server"
    key_setting = "ORDER_SOURCE_TOKEN"

    def make(self, settings: Settings) -> OrderSource:
        """Return the server at ORDER_SOURCE_URL."""
        from mailagent.adapters.order_sources.http.source import HttpOrderSource  # loads pydantic

        return HttpOrderSource(settings.order_source_url or "", settings.order_source_token or "")

    def find_missing_rights(self, _settings: Settings) -> list[str]:
        """Return none: it does not say what our key may do."""
        return []
