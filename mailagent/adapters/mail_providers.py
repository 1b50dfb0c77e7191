"""The registry of mail providers, which receive and send mail and report deliveries.

To add one, write a folder beside this module with a class that satisfies `MailProvider`, and add it to
`_register_built_in`. Its name is a value of MAIL_PROVIDER and part of its webhooks' paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Protocol

from mailagent.domain.mail.delivery import DeliveryEvent, SendOutcome, Trace
from mailagent.domain.mail.message import OutboundMail, ParsedMail
from mailagent.domain.shop import ShopAddresses

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

    from mailagent.adapters.mime.attachment import AttachmentBytes
    from mailagent.settings import Settings


class MailSender(Protocol):
    """Sends mail."""

    def send(self, mail: OutboundMail) -> SendOutcome:
        """Send a mail by one request, without a retry. The caller decides whether to retry."""

    def find_trace(self, outbound_id: str) -> Trace:
        """Search the provider's records for a mail."""


class MailProvider(Protocol):
    """A mail provider. URLs and settings have its `name`, such as `sendgrid`; people read its `title`.
    `key_setting`: the environment variable with the key for sending. `inbound_key_setting`,
    `events_key_setting`: those with the keys that verify its webhooks. `headers` of methods are those of a
    webhook request."""

    name: str
    title: str
    key_setting: str
    inbound_key_setting: str
    events_key_setting: str

    def inbound_keys(self, settings: Settings) -> Sequence[str]:
        """Return the keys that verify inbound mail; none if they are not set."""

    def events_keys(self, settings: Settings) -> Sequence[str]:
        """Return the keys that verify delivery events; none if they are not set."""

    def make_sender(self, settings: Settings) -> MailSender | None:
        """Return the sender, or None if its key is not set."""

    def looks_like_ours(self, headers: Headers) -> bool:
        """Return whether a request has this provider's signature, valid or not."""

    def signed_at(self, headers: Headers) -> str | None:
        """Return the time of the signature, in Unix seconds as text; empty if the request has none, which
        refuses it. None if this provider never signs a time, as with a password: then the request's age is not
        checked."""

    def can_verify(self, headers: Headers) -> bool:
        """Return whether a request may come from the provider, by its headers. If not, the caller does not read
        the body."""

    def verify(self, keys: Sequence[str], headers: Headers, body: Iterable[bytes]) -> bool:
        """Return whether one of `keys` signed a request. Reads all of `body`. The caller checks the age."""

    def parse_mail(
        self, content_type: str, body: bytes, shop: ShopAddresses, received_at: datetime
    ) -> ParsedMail:
        """Return the mail of an inbound request; kind MALFORMED if it cannot be read. Never raises."""

    def find_attachment(
        self, content_type: str, body: bytes, number: int
    ) -> AttachmentBytes | None:
        """Return the file of `ParsedMail.attachments[number]` from a stored request, if it may be downloaded.
        Never raises."""

    def parse_events(self, body: bytes) -> Sequence[DeliveryEvent]:
        """Return the delivery events of a request. Raises ValueError if the body is not valid."""


_providers: dict[str, MailProvider] = {}


def register(provider: MailProvider) -> None:
    """Add a provider as a value of MAIL_PROVIDER."""
    _providers[provider.name] = provider


def find(name: str) -> MailProvider:
    """Return a provider. Raises ValueError for an unknown name."""
    _register_built_in()
    if name not in _providers:
        raise ValueError(f"{name!r} is not known; use one of {', '.join(sorted(_providers))}")
    return _providers[name]


@cache
def _register_built_in() -> None:
    from mailagent.adapters.sendgrid.provider import SendGrid  # slow to import

    register(SendGrid())
