"""Signed webhook calls as SendGrid makes them: Inbound Parse and the Event Webhook.

Retries as SendGrid does (mail after 5xx, never after 3xx and 4xx; events until 2xx), after a second.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mailagent.demo.fakes.mailboxes import CustomerMailState, Mailboxes, MailContent, SentMail

PAUSE_SECONDS = 1.0


class WebhookSender:
    """Delivers mail and events in two threads, so that mail which cannot be delivered delays no event."""

    def __init__(
        self, mailboxes: Mailboxes, app_url: str, inbound_key: WebhookKey, events_key: WebhookKey
    ) -> None:
        self._mailboxes = mailboxes
        self._app_url = app_url
        self._inbound_key = inbound_key
        self._events_key = events_key
        self._stopping = threading.Event()

    def start(self) -> None:
        for deliver, waiting in (
            (self.deliver_mails, self._mails_waiting),
            (self.deliver_events, self._events_waiting),
        ):
            threading.Thread(target=self._run, args=(deliver, waiting), daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self, deliver: Callable[[], bool], waiting: Callable[[], bool]) -> None:
        while not self._stopping.is_set():
            if self._mailboxes.wait_for(waiting, PAUSE_SECONDS) and not deliver():
                self._stopping.wait(PAUSE_SECONDS)

    def _mails_waiting(self) -> bool:
        return any(_is_waiting(letter) for letter in self._mailboxes.letters())

    def _events_waiting(self) -> bool:
        return any(not mail.reported for mail in self._mailboxes.sent())

    def deliver_mails(self) -> bool:
        """Try every waiting mail once; return whether all were delivered or given up."""
        for letter in filter(_is_waiting, self._mailboxes.letters()):
            body = build_body(letter)
            headers = {"Content-Type": CONTENT_TYPE, "User-Agent": "Sendlib/1.0"}
            signed = {**headers, **self._inbound_key.sign(body)}
            answer = _post(f"{self._app_url}/webhooks/sendgrid/inbound", body, signed)
            self._mailboxes.queue_mail(_tried(letter, answer))
        return not self._mails_waiting()

    def deliver_events(self) -> bool:
        """Report every mail that is not yet reported, in one batch; return whether the app took it."""
        batch = [mail for mail in self._mailboxes.sent() if not mail.reported]
        events = [event for mail in batch for event in _events_of(mail)]
        # SendGrid ends every event with CRLF. A receiver that checks the signature over its own JSON
        # instead of the received bytes must fail here too.
        body = b"[" + b",\r\n".join(json.dumps(event).encode() for event in events) + b"]\r\n"
        headers = {"Content-Type": "application/json", "User-Agent": "SendGrid Event API"}
        signed = {**headers, **self._events_key.sign(body)}
        answer = _post(f"{self._app_url}/webhooks/sendgrid/events", body, signed)
        if not isinstance(answer, int) or not 200 <= answer < 300:
            return False
        for mail in batch:
            self._mailboxes.record_sent(replace(mail, reported=True))
        return True


def _is_waiting(letter: MailContent) -> bool:
    return letter.state in (CustomerMailState.WAITING, CustomerMailState.RETRYING)


def _tried(letter: MailContent, answer: int | str) -> MailContent:
    """Return the mail after one attempt; `answer` is a status, or the name of an error."""
    if isinstance(answer, str) or answer >= 500:
        state = CustomerMailState.RETRYING
    elif 200 <= answer < 300:
        state = CustomerMailState.DELIVERED
    else:
        state = CustomerMailState.LOST
    return replace(letter, state=state, attempts=letter.attempts + 1, answer=str(answer))


def _events_of(mail: SentMail) -> list[dict[str, Any]]:
    common = {
        **mail.custom_args,
        "email": mail.to,
        "timestamp": int(datetime.fromisoformat(mail.sent_at).timestamp()),
        "smtp-id": f"<{mail.mail_id}@geopod-ismtpd-0>",
        "sg_message_id": f"{mail.mail_id}.recvd-0-0.0",
    }
    return [
        {**common, "event": "processed", "sg_event_id": secrets.token_urlsafe(16)},
        {
            **common,
            "event": "delivered",
            "sg_event_id": secrets.token_urlsafe(16),
            "response": "250 2.0.0 OK",
        },
    ]


def _post(url: str, body: bytes, headers: dict[str, str]) -> int | str:
    """Return the status of one POST, or the name of an error. Redirects are not followed."""
    target = urlsplit(url)
    connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=30)
    try:
        connection.request("POST", target.path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException) as problem:
        return type(problem).__name__
    finally:
        connection.close()


# --- inbound parse --------------------------------------------------------------------------------


BOUNDARY = "xYzZY"  # the same in every request that SendGrid makes
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
SENDER_IP = "192.0.2.10"


def build_body(letter: MailContent) -> bytes:
    """Return the multipart body for `letter`: CRLF between parts, LF inside values.

    Raises ValueError for invalid mail, such as a line break in its subject.
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


def _source(letter: MailContent) -> bytes:
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
    # A boundary in the text would end the part early; base64 cannot contain one.
    encoding = "base64" if f"--{BOUNDARY}" in letter.text else "quoted-printable"
    message.set_content(letter.text, cte=encoding)
    if letter.html:
        message.add_alternative(letter.html, subtype="html", cte="base64")
    for file in letter.files:
        kind, _, subkind = file.content_type.partition("/")
        message.add_attachment(
            file.content, maintype=kind, subtype=subkind or "octet-stream", filename=file.name
        )
    return message.as_bytes()


def _signature(letter: MailContent) -> str:
    """Return a DKIM-Signature header; the `dkim` field of the request says that it is valid."""
    domain = letter.from_address.rpartition("@")[2]
    return (
        f"v=1; a=rsa-sha256; c=relaxed/relaxed; d={domain}; s=demo;"
        " h=from:to:subject:date:message-id:in-reply-to:references; bh=ZGVtbw==; b=ZGVtbw=="
    )


def _received_line(letter: MailContent) -> bytes:
    """Return the header that SendGrid's own mail server puts on top."""
    date = format_datetime(datetime.fromisoformat(letter.sent_at))
    return (
        f"Received: from mail.example.net (mxd [{SENDER_IP}]) by mx.sendgrid.net with ESMTP id "
        f"{letter.mail_number} for <{letter.to}>; {date}\n"
    ).encode()


# --- webhook key ----------------------------------------------------------------------------------


class WebhookKey:
    """A P-256 key pair in a file that only its owner can read; created if the file does not exist."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            _write(path, ec.generate_private_key(ec.SECP256R1()))
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{path} does not hold a P-256 key; remove it and start again")
        self._key = key

    def public_text(self) -> str:
        """Return the public key as SendGrid shows it: base64 of its DER form."""
        der = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return base64.b64encode(der).decode()

    def sign(self, body: bytes, at: datetime | None = None) -> dict[str, str]:
        """Return the two headers for `body`, signed now, or `at` another time."""
        timestamp = str(int(at.timestamp() if at else time.time()))
        signature = self._key.sign(timestamp.encode() + body, ec.ECDSA(hashes.SHA256()))
        return {
            "X-Twilio-Email-Event-Webhook-Signature": base64.b64encode(signature).decode(),
            "X-Twilio-Email-Event-Webhook-Timestamp": timestamp,
        }


def _write(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
