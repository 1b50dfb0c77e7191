"""SendGrid as a mail provider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mailagent.adapters.mime.attachment import AttachmentBytes
from mailagent.adapters.sendgrid import signature
from mailagent.adapters.sendgrid.events import parse_events
from mailagent.adapters.sendgrid.inbound import find_attachment, parse_request
from mailagent.adapters.sendgrid.signature import SIGNATURE_HEADER, TIMESTAMP_HEADER
from mailagent.domain.mail.delivery import DeliveryEvent
from mailagent.domain.mail.message import ParsedMail
from mailagent.domain.shop import ShopAddresses

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

    from mailagent.adapters.sendgrid.sender import MailSender
    from mailagent.settings import Settings


class SendGrid:
    """Satisfies `adapters.mail_providers.MailProvider`."""

    name = "sendgrid"
    title = "SendGrid"
    key_setting = "SENDGRID_API_KEY"

    def make_sender(self, settings: Settings) -> MailSender | None:
        """Return the sender of SENDGRID_API_KEY."""
        if not settings.sendgrid_api_key:
            return None
        from mailagent.adapters.sendgrid.sender import MailSender  # web processes need no client

        url = settings.sendgrid_base_url
        return MailSender(settings.sendgrid_api_key, url, support_name=settings.shop.name)

    def looks_like_ours(self, headers: Headers) -> bool:
        """Say whether a request has SendGrid's signature."""
        return SIGNATURE_HEADER in headers

    def signed_at(self, headers: Headers) -> str:
        """Return the time of the signature."""
        return headers.get(TIMESTAMP_HEADER, "")

    def can_verify(self, headers: Headers) -> bool:
        """Say whether a request has a timestamp and a signature of SendGrid's form."""
        return signature.can_verify(self.signed_at(headers), headers.get(SIGNATURE_HEADER, ""))

    def verify(self, keys: Sequence[str], headers: Headers, body: Iterable[bytes]) -> bool:
        """Verify the signature over timestamp and body."""
        return signature.verify(
            keys, self.signed_at(headers), headers.get(SIGNATURE_HEADER, ""), body
        )

    def parse_mail(
        self, content_type: str, body: bytes, shop: ShopAddresses, received_at: datetime
    ) -> ParsedMail:
        """Return the mail of one Inbound Parse request."""
        return parse_request(content_type, body, shop, received_at)

    def find_attachment(
        self, content_type: str, body: bytes, number: int
    ) -> AttachmentBytes | None:
        """Return a file of a stored Inbound Parse request."""
        return find_attachment(content_type, body, number)

    def parse_events(self, body: bytes) -> Sequence[DeliveryEvent]:
        """Return the events of one Event Webhook request."""
        return parse_events(body)
