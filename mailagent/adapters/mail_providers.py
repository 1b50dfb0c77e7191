"""Mail providers: who brings us mail, sends ours, and tells what became of it.

A new one is a folder beside this module, with a class that satisfies `MailProvider`, and one line in
`_register_built_in`. Its name stands in its webhooks' addresses and in MAIL_PROVIDER.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from mailagent.adapters.mime.attachment import AttachmentBytes
from mailagent.domain.mail.delivery import DeliveryEvent, SendOutcome, Trace
from mailagent.domain.mail.message import OutboundMail, ParsedMail
from mailagent.domain.shop import ShopAddresses

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

    from mailagent.settings import Settings


class MailSender(Protocol):
    """What delivery needs of a mail provider."""

    def send(self, mail: OutboundMail) -> SendOutcome:
        """Hand a mail to the provider, once: the caller decides whether to try again."""

    def find_trace(self, outbound_id: str) -> Trace:
        """Ask the provider's records for a mail."""


class MailProvider(Protocol):
    """A mail provider. Headers are those of its webhook request."""

    @property
    def name(self) -> str:
        """Its name in addresses and settings, such as `sendgrid`."""

    @property
    def title(self) -> str:
        """Its name for people."""

    @property
    def key_setting(self) -> str:
        """The environment variable that holds the key for sending."""

    def make_sender(self, settings: Settings) -> MailSender | None:
        """Return what sends mail, or None if its key is not set."""

    def looks_like_ours(self, headers: Headers) -> bool:
        """Say whether a request that reached no view has this provider's signature."""

    def signed_at(self, headers: Headers) -> str:
        """Return the time of the signature, in Unix seconds as text; empty without one."""

    def can_verify(self, headers: Headers) -> bool:
        """Say by the headers alone whether a request can be the provider's. Its body is read only then."""

    def verify(self, keys: Sequence[str], headers: Headers, body: Iterable[bytes]) -> bool:
        """Say whether one of `keys` signed a request. Takes all of `body`; does not judge its age."""

    def parse_mail(
        self, content_type: str, body: bytes, shop: ShopAddresses, received_at: datetime
    ) -> ParsedMail:
        """Return the mail of one inbound request. Never raises: what cannot be read is MALFORMED."""

    def find_attachment(
        self, content_type: str, body: bytes, number: int
    ) -> AttachmentBytes | None:
        """Return the file that `ParsedMail.attachments[number]` of a stored request lists, if it may be
        downloaded. Never raises."""

    def parse_events(self, body: bytes) -> Sequence[DeliveryEvent]:
        """Return the delivery events of one request. Raises ValueError for a body that has none."""


_providers: dict[str, MailProvider] = {}


def register(provider: MailProvider) -> None:
    """Let MAIL_PROVIDER name a provider."""
    _providers[provider.name] = provider


def find(name: str) -> MailProvider:
    """Return a provider. Raises ValueError, with the names that are known, if there is none."""
    if name not in _providers:
        raise ValueError(f"{name!r} is not known; use one of {', '.join(sorted(_providers))}")
    return _providers[name]


def _register_built_in() -> None:
    from mailagent.adapters.sendgrid.provider import SendGrid

    register(SendGrid())


_register_built_in()
