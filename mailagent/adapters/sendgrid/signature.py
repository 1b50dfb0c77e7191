"""Verifies the signature of SendGrid's webhooks, Inbound Parse and Event Webhook.

The helper of the `sendgrid` package accepts the body only as text, but mail is bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

SIGNATURE_HEADER = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP_HEADER = "X-Twilio-Email-Event-Webhook-Timestamp"

_ALGORITHM = ec.ECDSA(Prehashed(SHA256()))
_SIGNATURE_MAX_LENGTH = 200  # base64 of a P-256 signature has at most 96 characters
_TIMESTAMP_MAX_LENGTH = 20


def can_verify(timestamp: str, signature: str) -> bool:
    """Return whether these two headers are well formed: Unix seconds, and a DER signature in base64."""
    return timestamp.isdecimal() and _parse_signature(timestamp, signature) is not None


def verify(
    public_keys: Sequence[str], timestamp: str, signature: str, body: Iterable[bytes]
) -> bool:
    """Return whether one of `public_keys` signed `timestamp` (as in the header) followed by `body`.

    ECDSA on P-256 with SHA-256; keys are base64 of the DER form, as SendGrid shows them. Reads all of `body`.
    With an unreadable key or signature, return False. Raises only what `body` raises. The caller checks the
    timestamp's age.
    """
    digest = hashlib.sha256(timestamp.encode("ascii", "replace"))
    for piece in body:
        digest.update(piece)
    hashed = digest.digest()
    der = _parse_signature(timestamp, signature)
    return der is not None and any(_verifies(key, der, hashed) for key in public_keys)


def _parse_signature(timestamp: str, signature: str) -> bytes | None:
    if len(signature) > _SIGNATURE_MAX_LENGTH or len(timestamp) > _TIMESTAMP_MAX_LENGTH:
        return None
    if not timestamp.isascii():
        return None
    try:
        der = base64.b64decode(signature.strip(), validate=True)
        decode_dss_signature(der)
    except (binascii.Error, ValueError):
        return None
    return der


def _verifies(public_key: str, signature: bytes, digest: bytes) -> bool:
    try:
        parse_public_key(public_key).verify(signature, digest, _ALGORITHM)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=16)
def parse_public_key(text: str) -> ec.EllipticCurvePublicKey:
    """Return the verification key that SendGrid shows as base64 text.

    Raises ValueError, whose text fits into a settings error.
    """
    try:
        key = load_der_public_key(base64.b64decode(text.strip(), validate=True))
    except (binascii.Error, ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(
            "not a webhook verification key: expected the base64 text that SendGrid shows "
            "for the security policy, beginning with MFkwEwYHKoZIzj0"
        ) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise ValueError("not a webhook verification key: SendGrid's keys are elliptic, P-256")
    return key
