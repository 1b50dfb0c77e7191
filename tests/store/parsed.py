"""A parsed mail for tests of the store."""

from __future__ import annotations

from typing import Any

from mailagent.domain.mail.message import Identity, MailKind, ParsedMail
from tests.cast import ADA, NOW, SUPPORT


def parsed_mail(**changes: Any) -> ParsedMail:
    """Return Ada's mail about her kettle."""
    values: dict[str, Any] = {
        "from_address": ADA,
        "from_name": "Ada Example",
        "envelope_from": ADA,
        "envelope_to": (SUPPORT,),
        "subject": "Broken kettle",
        "message_id": "m1@example.com",
        "in_reply_to": (),
        "references": (),
        "sent_at": NOW,
        "body": "My kettle W1001 arrived broken.",
        "new_text": "My kettle W1001 arrived broken.",
        "identity": Identity.DKIM,
        "kind": MailKind.CUSTOMER,
        "dedup_key": "key-1",
    }
    return ParsedMail(**(values | changes))
