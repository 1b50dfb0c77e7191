"""The mail of the demo's people: what the app sent them, and what they wrote to the shop.

It is kept in memory, and `webhooks` delivers it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class CustomerMailState(StrEnum):
    WAITING = "waiting"  # not yet tried
    RETRYING = "retrying"  # the app was down or answered 5xx: SendGrid tries again
    DELIVERED = "delivered"
    LOST = "lost"  # the app answered 3xx or 4xx: SendGrid gives up at once


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file of a mail."""

    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class SentMail:
    """A mail the app sent to one person. Message-IDs are bare. `reported`: its events arrived."""

    mail_id: str
    to: str
    from_address: str
    from_name: str
    reply_to: str | None
    subject: str
    text: str
    html: str | None
    message_id: str | None
    references: str
    custom_args: dict[str, str]
    sent_at: str
    reported: bool = False
    files: tuple[AttachedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class MailContent:
    """A mail that a person wrote to the shop. `aligned`: SPF and DKIM vouch for the From address."""

    mail_number: str
    from_name: str
    from_address: str
    to: str
    subject: str
    text: str
    message_id: str
    in_reply_to: str | None
    references: str
    aligned: bool
    sent_at: str
    state: CustomerMailState = CustomerMailState.WAITING
    attempts: int = 0
    answer: str = ""
    files: tuple[AttachedFile, ...] = ()
    html: str = ""


def _as_data(mail: SentMail | MailContent) -> dict[str, Any]:
    """Return a mail as plain JSON data, with the names of its files."""
    names = {"files": [file.name for file in mail.files]}
    return asdict(replace(mail, files=())) | names


class Mailboxes:
    """All mail of the demo, oldest first."""

    def __init__(self) -> None:
        self._sent: dict[str, SentMail] = {}
        self._letters: dict[str, MailContent] = {}
        self._changed = threading.Condition()

    def record_sent(self, mail: SentMail) -> None:
        with self._changed:
            self._sent[mail.mail_id] = mail
            self._changed.notify_all()

    def queue_mail(self, letter: MailContent) -> None:
        with self._changed:
            self._letters[letter.mail_number] = letter
            self._changed.notify_all()

    def sent(self, to: str | None = None) -> list[SentMail]:
        """Return what the app sent, to one address or to all."""
        with self._changed:
            return [mail for mail in self._sent.values() if to in (None, mail.to)]

    def letters(self) -> list[MailContent]:
        with self._changed:
            return list(self._letters.values())

    def find_sent(self, mail_id: str) -> SentMail | None:
        with self._changed:
            return self._sent.get(mail_id)

    def wait_for(self, condition: Callable[[], bool], timeout_seconds: float) -> bool:
        """Wait until `condition` holds, checked after each change; return whether it does."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_seconds)

    def as_data(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        with self._changed:
            return {
                "sent": [_as_data(mail) for mail in self._sent.values()],
                "letters": [_as_data(letter) for letter in self._letters.values()],
            }
