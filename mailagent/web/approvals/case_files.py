"""The customer's files on the pages of a refund: which are listed and which may be opened. Their bytes
are served by `attachments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.mime.attachment import may_be_downloaded, may_hold_key
from mailagent.domain.mail.message import Attachment, Identity, is_photo
from mailagent.domain.shop import person_of
from mailagent.store.console import sessions
from mailagent.store.database import Row
from mailagent.store.mail import inbound

# What a manager looks through; more is in the raw mails and in `flask conversations show`.
MAILS_WITH_FILES_MAX = 50


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file of the conversation. `number` counts from 0 within its mail; `problem` says why it cannot
    be downloaded, and is empty if it can. `photo` says whether a picture of it may be shown."""

    mail_id: str
    number: int
    name: str
    content_type: str
    size: str
    received_at: datetime
    sender_proven: bool
    problem: str
    photo: bool = False


def list_files(connection: sa.Connection, conversation_id: str) -> tuple[ShownFile, ...]:
    """Return the files of a conversation, oldest first."""
    mails = inbound.list_with_files(connection, conversation_id, MAILS_WITH_FILES_MAX)
    return tuple(
        _file(mail, number, Attachment(**each))
        for mail in mails
        for number, each in enumerate(mail.attachments)
    )


def _file(mail: Row, number: int, file: Attachment) -> ShownFile:
    problem = find_problem(file, mail.from_address) if mail.kept else "no longer kept"
    return ShownFile(
        mail_id=mail.mail_id,
        number=number,
        name=file.name,
        content_type=file.content_type,
        size=_size(file.size_bytes),
        received_at=mail.received_at,
        sender_proven=Identity(mail.identity).proven,
        problem=problem,
        photo=not problem and is_photo(file),
    )


def _size(size_bytes: int) -> str:
    if size_bytes < 1_000:
        return "1 byte" if size_bytes == 1 else f"{size_bytes} bytes"
    if size_bytes < 999_500:
        return f"{size_bytes / 1_000:.0f} kB"
    return f"{size_bytes / 1_000_000:.1f} MB"


def count_files(files: Sequence[ShownFile]) -> str:
    """Say how many photos and other files there are, for the top of the page."""
    photos = sum(each.content_type.startswith("image/") for each in files)
    others = len(files) - photos
    parts = [f"{photos} photo{'s' * (photos > 1)}"] if photos else []
    if others:
        parts.append(f"{others} {'other ' * bool(photos)}file{'s' * (others > 1)}")
    return " and ".join(parts)


# --- file rules -----------------------------------------------------------------------------------


_MAIL_TYPES = frozenset(
    {"application/mbox", "application/ms-tnef", "application/vnd.ms-tnef"}
    | {"application/vnd.ms-outlook", "application/x-mimearchive", "multipart/related"}
)
_MAIL_ENDINGS = (".eml", ".emlx", ".msg", ".mbox", ".mbx", ".mht", ".mhtml", ".oft", ".pst")

TOO_LARGE = "not kept for download: too large"
OURS = "not handed out: mail of the shop's own people may hold a link that decides"
MAIL = "not handed out: a mail may hold a link that decides"


def find_problem(file: Attachment, from_address: str) -> str:
    """Return why nobody can save a file of a mail from this address; empty if they can, as long as
    nothing is found in it."""
    if not may_be_downloaded(file):
        return TOO_LARGE
    people = services.current().shop.people
    if person_of(from_address) in {person_of(each) for each in people}:
        return OURS
    return MAIL if _is_mail(file) else ""


def _is_mail(file: Attachment) -> bool:
    name, kind = file.name.casefold().rstrip("_"), file.content_type
    mailed = kind.startswith("message/") or kind in _MAIL_TYPES
    return mailed or name.endswith(_MAIL_ENDINGS) or name == "winmail.dat"


def holds_key(connection: sa.Connection, data: bytes) -> bool:
    """Whether the bytes of a file hold a link that decides or logs in."""
    return may_hold_key(data, sessions.find_live(connection, services.current().now()))
