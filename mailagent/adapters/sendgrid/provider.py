"""SendGrid as a mail provider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mailagent.adapters.sendgrid import signature
from mailagent.adapters.sendgrid.events import parse_events
from mailagent.adapters.sendgrid.inbound import find_attachment, parse_request
from mailagent.adapters.sendgrid.signature import SIGNATURE_HEADER, TIMESTAMP_HEADER

if TYPE_CHECKING:
    from werkzeug.datastructures import Headers

    from mailagent.adapters.sendgrid.sender import MailSender
    from mailagent.settings import Settings


class SendGrid:
    """Satisfies `adapters.mail_providers.MailProvider`."""

    name = "sendgrid"
    title = "SendGrid"
    key_setting = "SENDGRID_API_KEY"
    inbound_key_setting = "SENDGRID_INBOUND_PUBLIC_KEY"
    events_key_setting = "SENDGRID_EVENTS_PUBLIC_KEY"

    def inbound_keys(self, settings: Settings) -> Sequence[str]:
        """Return the keys of SENDGRID_INBOUND_PUBLIC_KEY."""
        return settings.sendgrid_inbound_keys

    def events_keys(self, settings: Settings) -> Sequence[str]:
        """Return the keys of SENDGRID_EVENTS_PUBLIC_KEY."""
        return settings.sendgrid_events_keys

    def make_sender(self, settings: Settings) -> MailSender | None:
        """Return the sender of SENDGRID_API_KEY."""
        if not settings.sendgrid_api_key:
            return None
        from mailagent.adapters.sendgrid.sender import MailSender  # web processes need no client

        url = settings.sendgrid_base_url
        return MailSender(settings.sendgrid_api_key, url, support_name=settings.shop.name)

    def looks_like_ours(self, headers: Headers) -> bool:
        """Return whether a request has SendGrid's signature header, valid or not."""
        return SIGNATURE_HEADER in headers

    def signed_at(self, headers: Headers) -> str:
        """Return the time of the signature, in Unix seconds as text; empty if there is none."""
        return headers.get(TIMESTAMP_HEADER, "")

    def can_verify(self, headers: Headers) -> bool:
        """Return whether the headers have a timestamp and a signature in SendGrid's form."""
        return signature.can_verify(self.signed_at(headers), headers.get(SIGNATURE_HEADER, ""))

    def verify(self, keys: Sequence[str], headers: Headers, body: Iterable[bytes]) -> bool:
        """Verify the signature over timestamp and body."""
        return signature.verify(
            keys, self.signed_at(headers), headers.get(SIGNATURE_HEADER, ""), body
        )

    parse_mail = staticmethod(parse_request)
    find_attachment = staticmethod(find_attachment)
    parse_events = staticmethod(parse_events)
