"""A customer's mail with a file."""

from __future__ import annotations

from email.message import EmailMessage

from mailagent.store.ids import new_id
from tests.adapters.parse_requests import raw_request
from tests.cast import ADA, SUPPORT
from tests.harness import Harness

NAME = "Ada Canaryname"


def write_with_file(
    shop: Harness, text: str, file: bytes = b"\xff\xd8\xff", **headers: str
) -> None:
    """Let Ada write a mail with a file and a subject that name her."""
    message = EmailMessage()
    message["From"], message["To"] = f"{NAME} <{ADA}>", SUPPORT
    message["Subject"] = "Canarysubject"
    message["Message-ID"] = f"<{new_id('letter')}@example.com>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    message.add_attachment(file, "image", "jpeg", filename="Canaryfile.jpg")
    body = raw_request(message.as_bytes(), dkim="{@example.com : pass}", envelope_from=ADA)
    assert shop.post_inbound(body).status_code == 200
