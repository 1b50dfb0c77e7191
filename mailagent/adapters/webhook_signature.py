"""The signature that SendGrid puts on its webhooks (Inbound Parse and Event Webhook alike).

The `sendgrid` package's own helper cannot be used: it wants the body as text, and mail is bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

SIGNATURE_HEADER = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP_HEADER = "X-Twilio-Email-Event-Webhook-Timestamp"

_ALGORITHM = ec.ECDSA(Prehashed(SHA256()))
_SIGNATURE_MAX_LENGTH = 200  # base64 of a P-256 signature has at most 96 characters
_TIMESTAMP_MAX_LENGTH = 20


def verify(public_keys: Sequence[str], timestamp: str, signature: str, body: bytes) -> bool:
    """Verify that one of `public_keys` signed `timestamp` (as in the header) followed by `body`.

    ECDSA on P-256 with SHA-256; keys as SendGrid shows them (base64 of the DER form). Whatever
    cannot be read, key or signature, does not verify; nothing is raised. The timestamp's age is the
    caller's to judge.
    """
    if len(signature) > _SIGNATURE_MAX_LENGTH or len(timestamp) > _TIMESTAMP_MAX_LENGTH:
        return False
    try:
        der = base64.b64decode(signature.strip(), validate=True)
        stamp = timestamp.encode("ascii")
    except (binascii.Error, ValueError):
        return False
    # Hashed in two pieces: joining them would copy a 30 MB mail.
    digest = hashlib.sha256(stamp)
    digest.update(body)
    hashed = digest.digest()
    return any(_verifies(key, der, hashed) for key in public_keys)


def _verifies(public_key: str, signature: bytes, digest: bytes) -> bool:
    try:
        _known_key(public_key).verify(signature, digest, _ALGORITHM)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=16)
def _known_key(text: str) -> ec.EllipticCurvePublicKey:
    """Return the key of a text, read once: each request is verified with the same few. A wrong one is read,
    and refused, each time."""
    return parse_public_key(text)


def parse_public_key(text: str) -> ec.EllipticCurvePublicKey:
    """Return the verification key that SendGrid shows as base64 text.

    Raises ValueError, fit to be shown to whoever set the key, for anything else.
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
