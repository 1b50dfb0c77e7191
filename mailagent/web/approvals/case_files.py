"""The files that a customer sent, as the pages of a refund name them. Their bytes are for `attachments`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.mail.message import Attachment, Identity
from mailagent.domain.mail.photo import is_photo
from mailagent.store.database import Row
from mailagent.store.mail import inbound
from mailagent.web.approvals.file_rules import find_problem

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
