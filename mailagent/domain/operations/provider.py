"""The services that we call over the network, and what each does for us. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class ProviderKind(StrEnum):
    """What a provider does for us."""

    MODEL = "model"
    MAIL = "mail"
    GATEWAY = "gateway"
    ORDERS = "orders"


@dataclass(frozen=True, slots=True)
class Provider:
    """A service that we call. Rows and metrics have its `name`, people read its `title`. `key_setting`: the
    environment variable with our key."""

    kind: ProviderKind
    name: str
    title: str
    key_setting: str


OPENAI = Provider(ProviderKind.MODEL, "openai", "OpenAI", "OPENAI_API_KEY")

# Our own database: it is not called over the network, so it has no breaker and no key.
LEDGER = Provider(ProviderKind.GATEWAY, "ledger", "the ledger", "")

# Stands in for the source of an incident that is still open after ORDER_SOURCE became `imported`.
NO_SOURCE = Provider(ProviderKind.ORDERS, "imported", "The order source", "ORDER_SOURCE_TOKEN")


@dataclass(frozen=True, slots=True)
class Providers:
    """The providers that the settings name."""

    mail: Provider
    gateway: Provider
    model: Provider = OPENAI
    orders: Provider | None = None  # None if the shop imports its orders

    def __iter__(self) -> Iterator[Provider]:
        """Yield the providers that we call over the network."""
        named = (self.model, self.mail, self.gateway, self.orders)
        return iter(each for each in named if each is not None and each is not LEDGER)
