"""The keys with which the demo's SendGrid signs its webhooks, as the real one does.

The signature covers timestamp and body: Twilio, "Getting Started with the Event Webhook Security
Features"; Inbound Parse signs the same way ("Securing Your Parse Webhooks").
"""

from __future__ import annotations

import base64
import os
import time
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class WebhookKey:
    """A P-256 key pair, kept in a file that only its owner can read; made when there is none."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            _write(path, ec.generate_private_key(ec.SECP256R1()))
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{path} does not hold a P-256 key; remove it and start again")
        self._key = key

    def public_text(self) -> str:
        """Return the public half as SendGrid shows it: base64 of its DER form."""
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
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
