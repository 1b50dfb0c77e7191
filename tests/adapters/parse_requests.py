"""Requests as SendGrid Inbound Parse makes them, from letters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mailagent.adapters.sendgrid.inbound import parse_request
from mailagent.domain.mail.message import ParsedMail
from mailagent.domain.shop import ShopAddresses
from tests.cast import ADA, NOW, SUPPORT

CONTENT_TYPE = "multipart/form-data; boundary=xYzZY"
RECEIVED = b"Received: from mx.example.com (mxd [192.0.2.1]) by mx.sendgrid.net with ESMTP id %s\n"
SIGNED_FIELDS = "from:to:cc:subject:date:message-id:content-type"
FACTS = ShopAddresses(SUPPORT, "reply.shop.example")

File = tuple[str, str, str, bytes]  # field, file name, type, bytes


def form(
    fields: Mapping[str, bytes | str], files: Sequence[File] = (), newline: bytes = b"\r\n"
) -> bytes:
    """Return a form body; values as they are."""
    out = b""
    for name, value in fields.items():
        data = value.encode() if isinstance(value, str) else value
        head = f'Content-Disposition: form-data; name="{name}"'.encode()
        out += b"--xYzZY" + newline + head + newline * 2 + data + newline
    for field, file_name, content_type, data in files:
        head = f'Content-Disposition: form-data; name="{field}"; filename="{file_name}"'.encode()
        kind = f"Content-Type: {content_type}".encode()
        out += b"--xYzZY" + newline + head + newline + kind + newline * 2 + data + newline
    return out + b"--xYzZY--" + newline


def common_fields(
    envelope_to: Sequence[str] = (SUPPORT,),
    envelope_from: str | None = ADA,
    dkim: str = "{@example.com : pass}",
    spf: str = "pass",
) -> dict[str, bytes | str]:
    """Return the fields that both modes have. Without `envelope_from` the envelope has no sender."""
    envelope: dict[str, object] = {"to": list(envelope_to)}
    if envelope_from is not None:
        envelope["from"] = envelope_from
    return {"dkim": dkim, "SPF": spf, "envelope": json.dumps(envelope), "sender_ip": "192.0.2.1"}


def signature(domain: str = "example.com", fields: str = SIGNED_FIELDS, more: str = "") -> str:
    """Return a DKIM-Signature field of a domain; SendGrid's `dkim` field says whether it is sound."""
    return f"v=1; a=rsa-sha256; d={domain}; s=a; h={fields};{more} bh=aGFzaA==; b=c2lnbg=="


def raw_request(mail: bytes | str, received: bytes = b"a1", **common: object) -> bytes:
    """Return the body of a raw-mode request for a mail, which SendGrid posts with bare LF."""
    source = mail.encode() if isinstance(mail, str) else mail
    fields = common_fields(**common)  # type: ignore[arg-type]  # passed through by name
    return form({"email": RECEIVED % received + source, **fields})


def letter(text: str | bytes = "My kettle is broken.", **changes: str) -> bytes:
    """Return Ada's letter to the shop, signed. A header in `changes` replaces or adds; empty leaves it out.

    Underscores in names stand for dashes.
    """
    headers = {
        "From": f"Ada Example <{ADA}>",
        "To": SUPPORT,
        "Subject": "Broken kettle",
        "Date": "Fri, 20 Nov 2026 11:00:00 +0100",
        "Message-ID": "<m1@example.com>",
        "Content-Type": "text/plain; charset=utf-8",
        "DKIM-Signature": signature(),
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    head = "".join(f"{name}: {value}\n" for name, value in headers.items() if value)
    body = text.encode() if isinstance(text, str) else text
    return head.encode() + b"\n" + body


def parse(body: bytes) -> ParsedMail:
    """Parse a request of this shop."""
    return parse_request(CONTENT_TYPE, body, FACTS, NOW)


def parse_letter(text: str | bytes = "My kettle is broken.", **changes: str) -> ParsedMail:
    """Parse the raw-mode request for `letter`."""
    return parse(raw_request(letter(text, **changes)))
