"""Multipart mails to read."""

from __future__ import annotations

import base64


def part(content_type: str, body: str, *headers: str) -> str:
    return "\n".join([f"Content-Type: {content_type}", *headers, "", body])


def multipart(subtype: str, *parts: str, boundary: str = "b") -> str:
    framed = "".join(f"--{boundary}\n{one}\n" for one in parts)
    return part(
        f'multipart/{subtype}; boundary="{boundary}"', f"preamble\n{framed}--{boundary}--\n"
    )


PLAIN = part("text/plain; charset=utf-8", "plain")
HTML = part("text/html; charset=utf-8", "<p>html</p>")
PHOTO = part(
    "image/jpeg; name=photo.jpg",
    base64.b64encode(b"\xff\xd8" * 50).decode(),
    "Content-Transfer-Encoding: base64",
    "Content-Disposition: attachment",
)
