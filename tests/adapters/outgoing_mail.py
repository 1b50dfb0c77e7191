"""A mail to send, and a certificate for a local mail provider."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mailagent.domain.mail.message import OutboundMail, Purpose

MAIL = OutboundMail(
    outbound_id="o_17",
    purpose=Purpose.REPLY,
    to_address="ada@example.com",
    from_address="support@shop.example",
    subject="Re: My kettle",
    text="Hello Ada",
    html="<p>Hello Ada</p>",
    message_id="o-17.x@shop.example",
    reply_to="case+abcdefghijklmnop@shop.example",
    in_reply_to="1@example.com",
    references=("0@example.com", "1@example.com"),
)


def write_certificate(folder: Path) -> Path:
    """Return a file with a key and a certificate that it signed itself, for 127.0.0.1."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file
