"""The registry of order sources.

To add one, write a folder in this one with a class that satisfies `OrderSourceProvider`, and add it to
`_providers`. Its name is a value of ORDER_SOURCE. With `imported`, orders come from the shop by
`flask orders import` and the API, and there is no source to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mailagent.adapters.order_sources.http.provider import Http
from mailagent.adapters.shopify.provider import ShopifyOrders
from mailagent.adapters.woocommerce.provider import WooCommerceOrders

if TYPE_CHECKING:
    from mailagent.domain.orders.source import OrderSource
    from mailagent.settings import Settings

IMPORTED = "imported"


class OrderSourceProvider(Protocol):
    """Makes an order source from the settings. Settings and rows have its `name`, such as `http`; people read
    its `title`. `key_setting`: the environment variable with our key."""

    name: str
    title: str
    key_setting: str

    def make(self, settings: Settings) -> OrderSource:
        """Return the source that these settings describe. This opens no connection."""

    def find_missing_rights(self, settings: Settings) -> list[str]:
        """Ask the source for the rights of our key. Return a sentence for each right that it lacks. Raises
        SourceProblem."""


_providers: dict[str, OrderSourceProvider] = {
    each.name: each for each in (Http(), ShopifyOrders(), WooCommerceOrders())
}


def register(provider: OrderSourceProvider) -> None:
    """Add a source as a value of ORDER_SOURCE."""
    _providers[provider.name] = provider


def find(name: str) -> OrderSourceProvider | None:
    """Return the provider of a source; None for imported orders. Raises ValueError for an unknown name."""
    if name == IMPORTED:
        return None
    if name not in _providers:
        known = ", ".join(sorted([IMPORTED, *_providers]))
        raise ValueError(f"{name!r} is not known; use one of {known}")
    return _providers[name]


def find_problems(settings: Settings) -> list[str]:
    """Return the problems of the settings of the source that is used, a sentence each."""
    provider = find(settings.order_source)
    if provider is None or not settings.runs_workflows:
        return []
    problems = []
    source, url = f"ORDER_SOURCE is {provider.name}", settings.order_source_url
    if not url:
        problems.append(f"ORDER_SOURCE_URL: is not set, but {source}; set its address")
    elif settings.production and not url.startswith("https://"):
        problems.append(
            "ORDER_SOURCE_URL: must be an https address, because the token and customers' data go there "
            "(MAILAGENT_ENV is production)"
        )
    if not settings.order_source_token:
        problems.append(
            f"ORDER_SOURCE_TOKEN: is not set, but {source}; set the token that it gave you"
        )
    return problems
