"""Mail that is really signed, a verifier that really checks it, and what an attacker makes of it.

The verifier is dkimpy: where SendGrid has its own, this says what any sound one passes. Keys are made here.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache

import dkim
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tests.adapters.parse_requests import common_fields, form, raw_request
from tests.cast import MALLORY, SUPPORT

ALL_FIELDS = "from:to:subject:date:message-id:content-type"
MODES = ("raw", "parsed")


@cache
def key_of(domain: str) -> rsa.RSAPrivateKey:
    """Return the key by which a domain signs."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=1024)


def sign(mail: bytes, domain: str, fields: str = ALL_FIELDS, length: bool = False) -> bytes:
    """Return a mail as the server of `domain` sends it; `length` signs the text that is there and no more."""
    private = key_of(domain).private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    )
    names = [name.encode() for name in fields.split(":")]
    signer = dkim.DKIM(mail.replace(b"\n", b"\r\n"))
    canonical = (b"relaxed", b"relaxed")
    field = signer.sign(
        b"s1", domain.encode(), private, None, None, canonical, names, length=length
    )
    return bytes(field).replace(b"\r\n", b"\n") + mail


def verdict(mail: bytes) -> str:
    """Return SendGrid's `dkim` field for a mail: each signature's domain, and whether it is sound."""
    checked = dkim.DKIM(mail.replace(b"\n", b"\r\n"))
    results = []
    for index in range(sum(name.lower() == b"dkim-signature" for name, _value in checked.headers)):
        try:
            sound = checked.verify(index, dnsfunc=_public_key)
        except dkim.DKIMException:
            sound = False
        domain = bytes(checked.domain).decode("ascii", "replace") if checked.domain else "odd"
        results.append(f"@{domain} : {'pass' if sound else 'fail'}")
    return f"{{{', '.join(results)}}}" if results else "none"


def _public_key(name: bytes, timeout: float = 5) -> bytes:
    domain = name.decode().split("._domainkey.")[1].removesuffix(".")
    public = key_of(domain).public_key().public_bytes(Encoding.DER, PublicFormat.PKCS1)
    return b"v=DKIM1; k=rsa; p=" + b64encode(public)


def request(
    mode: str,
    mail: bytes,
    to: str = SUPPORT,
    sender: str = MALLORY,
    dkim_field: str | None = None,
) -> bytes:
    """Return the Inbound Parse request for a mail that `sender`'s server hands over: SPF is about that one."""
    found = verdict(mail) if dkim_field is None else dkim_field
    if mode == "raw":
        return raw_request(mail, dkim=found, envelope_from=sender, envelope_to=[to])
    head, _, text = mail.partition(b"\n\n")
    unfolded = head.replace(b"\n ", b" ").replace(b"\n\t", b" ")
    common = common_fields([to], sender, found)
    # Newer deliveries sort the fields by name.
    return form(
        {"headers": b"\n".join(sorted(unfolded.split(b"\n"))) + b"\n", "text": text, **common}
    )


def replaced(mail: bytes, **fields: str) -> bytes:
    """Return a mail with header fields of other values; an empty one is taken out."""
    head, _, text = mail.partition(b"\n\n")
    kept: Sequence[bytes] = head.replace(b"\n ", b"\0 ").replace(b"\n\t", b"\0\t").split(b"\n")
    names = {name.replace("_", "-").lower(): value for name, value in fields.items()}
    rest = [line for line in kept if line.split(b":")[0].decode().lower() not in names]
    new = [f"{name}: {value}".encode() for name, value in names.items() if value]
    return b"\n".join([*new, *rest]).replace(b"\0", b"\n") + b"\n\n" + text
