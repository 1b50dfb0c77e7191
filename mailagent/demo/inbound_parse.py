"""The body of the request that SendGrid's Inbound Parse webhook makes for one letter (Send Raw on)."""

from __future__ import annotations

import json
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr

from mailagent.demo.mailboxes import Letter

BOUNDARY = "xYzZY"  # the same in every request that SendGrid makes
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
SENDER_IP = "192.0.2.10"


def build_body(letter: Letter) -> bytes:
    """Return the multipart body for `letter`: CRLF between parts, LF inside values.

    Raises ValueError for a letter that is no mail, such as one with a line break in its subject.
    """
    domain = letter.from_address.rpartition("@")[2]
    fields = {
        "email": _received_line(letter) + _source(letter),
        "to": letter.to.encode(),
        "from": formataddr((letter.from_name, letter.from_address)).encode(),
        "subject": letter.subject.encode(),
        "dkim": f"{{@{domain} : pass}}".encode() if letter.aligned else b"none",
        "SPF": b"pass" if letter.aligned else b"softfail",
        "sender_ip": SENDER_IP.encode(),
        "envelope": json.dumps({"to": [letter.to], "from": letter.from_address}).encode(),
        "charsets": json.dumps({"to": "UTF-8", "from": "UTF-8", "subject": "UTF-8"}).encode(),
    }
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
        + value
        + b"\r\n"
        for name, value in fields.items()
    ]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def _source(letter: Letter) -> bytes:
    message = EmailMessage(policy=SMTP.clone(linesep="\n"))
    if letter.aligned:
        message["DKIM-Signature"] = _signature(letter)
    message["From"] = formataddr((letter.from_name, letter.from_address))
    message["To"] = letter.to
    message["Subject"] = letter.subject
    message["Date"] = format_datetime(datetime.fromisoformat(letter.sent_at))
    message["Message-ID"] = f"<{letter.message_id}>"
    if letter.in_reply_to:
        message["In-Reply-To"] = f"<{letter.in_reply_to}>"
        message["References"] = f"{letter.references} <{letter.in_reply_to}>".strip()
    # A boundary in the text would end the part early; base64 cannot hold one.
    encoding = "base64" if f"--{BOUNDARY}" in letter.text else "quoted-printable"
    message.set_content(letter.text, cte=encoding)
    return message.as_bytes()


def _signature(letter: Letter) -> str:
    """Return what the author's mail server signs; the `dkim` field of the request says that it is sound."""
    domain = letter.from_address.rpartition("@")[2]
    return (
        f"v=1; a=rsa-sha256; c=relaxed/relaxed; d={domain}; s=demo;"
        " h=from:to:subject:date:message-id:in-reply-to:references; bh=ZGVtbw==; b=ZGVtbw=="
    )


def _received_line(letter: Letter) -> bytes:
    """Return the line that SendGrid's own mail server puts on top."""
    date = format_datetime(datetime.fromisoformat(letter.sent_at))
    return (
        f"Received: from mail.example.net (mxd [{SENDER_IP}]) by mx.sendgrid.net with ESMTP id "
        f"{letter.letter_id} for <{letter.to}>; {date}\n"
    ).encode()
