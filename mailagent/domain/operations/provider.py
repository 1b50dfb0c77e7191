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


@dataclass(frozen=True, slots=True)
class Provider:
    """A service that we call. `name` stands in rows and metrics, `title` is for people. `key_setting`: the
    environment variable with our key."""

    kind: ProviderKind
    name: str
    title: str
    key_setting: str


OPENAI = Provider(ProviderKind.MODEL, "openai", "OpenAI", "OPENAI_API_KEY")

# Our own database: it is not called over the network, so it has no breaker and no key.
LEDGER = Provider(ProviderKind.GATEWAY, "ledger", "the ledger", "")


@dataclass(frozen=True, slots=True)
class Providers:
    """The providers that the settings name."""

    mail: Provider
    gateway: Provider
    model: Provider = OPENAI

    def __iter__(self) -> Iterator[Provider]:
        """Return those that are called over the network."""
        return iter(each for each in (self.model, self.mail, self.gateway) if each is not LEDGER)
