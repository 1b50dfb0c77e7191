"""Mails with files, and the refund asked for in one."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import EmailMessage

from werkzeug.test import TestResponse

from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, MONA, SUPPORT, big_order
from tests.harness import Harness
from tests.web.questions import record_refund

JPEG = b"\xff\xd8\xff\xe0<script>alert(1)</script>" * 30


def mail_with(
    *files: tuple[str, str, bytes], sender: str = ADA, message_id: str = "m1@example.com"
) -> bytes:
    """Return the raw-mode request for a mail with these files: name, type, bytes."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, SUPPORT, "My desk"
    message["Message-ID"] = f"<{message_id}>"
    message.set_content("My desk of order W2001 wobbles.")
    for name, content_type, data in files:
        main, _, sub = content_type.partition("/")
        message.add_attachment(data, maintype=main, subtype=sub, filename=name)
    domain = sender.partition("@")[2]
    return raw_request(message.as_bytes(), dkim=f"{{@{domain} : pass}}", envelope_from=sender)


@dataclass
class Desk:
    """A refund that waits for Mona, asked for in a mail with files."""

    shop: Harness
    approval_id: str
    mail_id: str
    conversation_id: str

    def link(self, manager: str = MONA) -> str:
        signed = self.shop.live.links.sign_approval(self.approval_id, manager)
        return signed.replace(self.shop.live.shop.public_url, "")

    def page(self) -> str:
        page = self.shop.client.get(self.link())
        assert page.status_code == 200
        return page.text

    def get(self, number: object = 0, mail_id: str | None = None) -> TestResponse:
        path = f"{self.link()}/attachments/{mail_id or self.mail_id}/{number}"
        return self.shop.client.get(path)


def ask(shop: Harness, body: bytes) -> Desk:
    """Let a mail come in and a refund wait on it."""
    shop.stock(big_order())
    assert shop.post_inbound(body).status_code == 200
    mail = shop.rows(
        "SELECT mail_id, conversation_id FROM inbound_mails ORDER BY received_at DESC LIMIT 1"
    )[0]
    approval_id = record_refund(shop, mail, days=60)
    return Desk(shop, approval_id, mail.mail_id, mail.conversation_id)
