"""Signs and verifies the links of approval requests and of votes, and the addresses of test mails. A valid link
does not mean that the approval is still open: its row says that."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from itsdangerous import BadData, URLSafeSerializer
from itsdangerous.encoding import base64_decode, base64_encode


@dataclass(frozen=True, slots=True)
class ApprovalLink:
    """The content of an approval's link: the approval, and the manager who got the link. It names no run, so
    that it still works after a replay."""

    approval_id: str
    manager_email: str


class Links:
    """Signs links with the newest of the secret keys, and verifies links of all keys."""

    def __init__(self, secret_keys: Sequence[str], public_url: str) -> None:
        """`secret_keys`: newest first. Raises ValueError if there is no key, or an empty one."""
        if isinstance(secret_keys, str) or not secret_keys or not all(secret_keys):
            raise ValueError("SECRET_KEY needs a list of keys, newest first, none of them empty")
        self._public_url = public_url.rstrip("/")
        self._secret_keys = tuple(secret_keys)
        self._approvals, self._votes = (
            URLSafeSerializer(
                list(reversed(secret_keys)),  # itsdangerous signs with the last key
                salt=f"mailagent.{purpose}",
                signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
            )
            for purpose in ("approval", "vote")
        )

    def sign_votes(self, mail_id: str) -> dict[str, str]:
        """Return the URLs by which a customer says whether the answer to a mail helped: `yes` and `no`."""
        page = f"{self._public_url}/helped"
        return {
            name: f"{page}/{self._votes.dumps([mail_id, helped])}"
            for name, helped in (("yes", True), ("no", False))
        }

    def verify_vote(self, token: str) -> tuple[str, bool] | None:
        """Return the mail's id, and whether the answer helped; None if none of our keys signed `token`."""
        match _load(self._votes, token):
            case [str(mail_id), bool(helped)]:
                return mail_id, helped
        return None

    def sign_approval(self, approval_id: str, manager_email: str) -> str:
        """Return the URL of an approval's page for one manager."""
        token = self._approvals.dumps([approval_id, manager_email])
        return f"{self._public_url}/approvals/{token}"

    def verify_approval(self, token: str) -> ApprovalLink | None:
        """Return the content of a link's token; None if none of our keys signed it."""
        match _load(self._approvals, token):
            case [str(approval_id), str(manager_email)]:
                return ApprovalLink(approval_id, manager_email)
        return None

    def sign_test_mail(self) -> str:
        """Return a new token for the address of a test mail, in base32 without capitals (see `find_token`)."""
        nonce = _base32(secrets.token_bytes(10))
        return nonce + _test_signature(self._secret_keys[0], nonce)

    def verify_test_mail(self, token: str) -> bool:
        """Return whether one of our keys signed the token of a test mail."""
        nonce, signature = token[:_NONCE_LENGTH], token[_NONCE_LENGTH:]
        return any(
            hmac.compare_digest(signature, _test_signature(key, nonce)) for key in self._secret_keys
        )


_NONCE_LENGTH = 16  # characters of 10 bytes in base32


def _test_signature(key: str, nonce: str) -> str:
    return _base32(
        hmac.digest(key.encode(), f"mailagent.test-mail {nonce}".encode(), "sha256")[:10]
    )


def _base32(value: bytes) -> str:
    return base64.b32encode(value).decode().lower()


def _load(signed: URLSafeSerializer, token: str) -> object:
    """Return the content of a token; None if none of our keys signed it."""
    try:
        return signed.loads(token) if _is_canonical(token) else None
    except (BadData, UnicodeError):  # a lone surrogate in a path cannot even be encoded
        return None


def _is_canonical(token: str) -> bool:
    """Return whether the signature is canonical base64. The decoder ignores the last bits and unknown
    characters, so that otherwise a changed link would be valid, too."""
    signature = token.rpartition(".")[2]
    return base64_encode(base64_decode(signature)) == signature.encode()
