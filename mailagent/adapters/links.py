"""Signed links: what a mailed address may stand for, and whether we really mailed it. Whether the
approval is still open is said by its row, never by the link."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from itsdangerous import BadData, URLSafeSerializer
from itsdangerous.encoding import base64_decode, base64_encode


@dataclass(frozen=True, slots=True)
class ApprovalLink:
    """What a manager's link names: the approval, and whom it was sent to. Never a workflow run, so
    that it works after any replay."""

    approval_id: str
    manager_email: str


class Links:
    """Signs and verifies links with a list of keys, newest first: the newest signs, all verify."""

    def __init__(self, secret_keys: Sequence[str], public_url: str) -> None:
        """Raises ValueError when there is no key, or an empty one: anybody could sign with it."""
        if isinstance(secret_keys, str) or not secret_keys or not all(secret_keys):
            raise ValueError("SECRET_KEY needs a list of keys, newest first, none of them empty")
        self._public_url = public_url.rstrip("/")
        self._approvals = URLSafeSerializer(
            list(reversed(secret_keys)),  # itsdangerous signs with the last of its list
            salt="mailagent.approval",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    def sign_approval(self, approval_id: str, manager_email: str) -> str:
        """Return the URL of an approval's page for one manager."""
        token = self._approvals.dumps([approval_id, manager_email])
        return f"{self._public_url}/approvals/{token}"

    def verify_approval(self, token: str) -> ApprovalLink | None:
        """Return what `token` names, or None when we did not sign it with a key still in use."""
        try:
            named = self._approvals.loads(token) if _is_canonical(token) else None
        except (BadData, UnicodeError):  # a lone surrogate in a path cannot even be encoded
            return None
        match named:
            case [str(approval_id), str(manager_email)]:
                return ApprovalLink(approval_id, manager_email)
        return None


def _is_canonical(token: str) -> bool:
    """Whether the signature is spelt as we spell it. Base64 has bits to spare in its last character
    and skips characters that it does not know, so a changed link could still verify."""
    signature = token.rpartition(".")[2]
    return base64_encode(base64_decode(signature)) == signature.encode()
