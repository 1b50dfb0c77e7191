"""Time-based one-time passwords (RFC 6238), with secrets that are encrypted in the database."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from datetime import datetime

import pyotp
import segno
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from markupsafe import Markup

# Accept one step of 30 seconds before and after now (RFC 6238 section 5.2).
WINDOW_STEPS = 1
_SIX_DIGITS = re.compile(r"[0-9]{6}")


class Totp:
    """Makes secrets and checks codes. It encrypts secrets with the newest key, and decrypts with all keys."""

    def __init__(self, secret_keys: Sequence[str], issuer: str) -> None:
        """`secret_keys` are newest first; `issuer` is the name that an authenticator app shows."""
        self._fernet = MultiFernet([Fernet(_derive(key)) for key in secret_keys])
        self._issuer = issuer

    def make_secret(self) -> str:
        """Return a new secret of 160 bits, encrypted."""
        return self._fernet.encrypt(pyotp.random_base32().encode()).decode()

    def reveal(self, encrypted: str) -> str | None:
        """Return the secret in base 32; None if none of our keys decrypts it."""
        try:
            return self._fernet.decrypt(encrypted).decode()
        except InvalidToken:
            return None

    def uri(self, secret: str, email: str) -> str:
        """Return the otpauth URI that authenticator apps read."""
        return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=self._issuer)

    def find_step(self, encrypted: str, typed: str, now: datetime) -> int | None:
        """Return the time step of the typed code; None if the code is wrong, or the secret cannot be
        decrypted."""
        secret, code = self.reveal(encrypted), "".join(typed.split())
        if secret is None or not _SIX_DIGITS.fullmatch(code):
            return None
        try:
            return pyotp.TOTP(secret).verify_and_get_timecode(
                code, for_time=now, valid_window=WINDOW_STEPS
            )
        except pyotp.OTPVerificationError:
            return None


def draw(uri: str) -> Markup:
    """Return a QR code as SVG for a page: dark on light in any colour scheme, as scanners need it."""
    return Markup(segno.make_qr(uri).svg_inline(scale=4, light="#fff"))  # noqa: S704 - shapes only, no text


def _derive(key: str) -> bytes:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"mailagent.totp")
    return base64.urlsafe_b64encode(derived.derive(key.encode()))
