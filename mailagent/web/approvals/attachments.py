"""The customer's files on the pages of a refund, and their downloads.

Strangers made the files: a browser may only save them. For a photo we show a preview that a worker made;
no image is decoded here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from flask import Response
from markupsafe import escape

from mailagent import services
from mailagent.adapters.mime.attachment import (
    AttachmentBytes,
    content_disposition,
    may_be_downloaded,
    may_hold_key,
)
from mailagent.domain.mail.message import Attachment, Identity, MailKind, is_photo
from mailagent.domain.shop import person_of
from mailagent.store.console import sessions
from mailagent.store.mail import inbound, raw_mail
from mailagent.web.language import _, ngettext, translate

# A page lists the files of so many mails. `flask conversations show` lists the others.
MAILS_WITH_FILES_MAX = 50
_DIGITS_MAX = 4

_MAIL_TYPES = frozenset(
    {"application/mbox", "application/ms-tnef", "application/vnd.ms-tnef"}
    | {"application/vnd.ms-outlook", "application/x-mimearchive", "multipart/related"}
)
_MAIL_ENDINGS = (".eml", ".emlx", ".msg", ".mbox", ".mbx", ".mht", ".mhtml", ".oft", ".pst")

NOT_KEPT = "no longer kept"
TOO_LARGE = "not kept for download: too large"
OURS = "not handed out: mail of the shop's own people may hold a link that decides"
MAIL = "not handed out: a mail may hold a link that decides"


# --- list -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file of a conversation. `number` counts from 0 within its mail. `problem`: why it cannot be downloaded;
    empty if it can. `photo`: there may be a preview."""

    mail_id: str
    number: int
    name: str
    content_type: str
    size_bytes: int
    received_at: datetime
    sender_proven: bool
    problem: str
    photo: bool = False


def list_files(connection: sa.Connection, conversation_id: str) -> tuple[ShownFile, ...]:
    """Return the files of a conversation, oldest first."""
    mails = raw_mail.list_with_files(connection, conversation_id, MAILS_WITH_FILES_MAX)
    return tuple(file for mail in mails for file in files_of(mail._asdict()))


def files_of(mail: Mapping[str, Any]) -> list[ShownFile]:
    """Return the files of a customer's mail; `mail` has the columns of `raw_mail.list_with_files`."""
    files = []
    for number, stored in enumerate(mail["attachments"]):
        file = Attachment(**stored)
        problem = find_problem(file, mail["from_address"]) if mail["kept"] else NOT_KEPT
        shown_file = ShownFile(
            mail_id=mail["mail_id"],
            number=number,
            name=file.name,
            content_type=file.content_type,
            size_bytes=file.size_bytes,
            received_at=mail["received_at"],
            sender_proven=Identity(mail["identity"]).proven,
            problem=problem,
            photo=not problem and is_photo(file),
        )
        files.append(shown_file)
    return files


def count_files(files: Sequence[ShownFile]) -> str:
    """Return how many photos and how many other files there are, in words."""
    photos = sum(each.content_type.startswith("image/") for each in files)
    others = len(files) - photos
    parts = [ngettext("%(num)s photo", "%(num)s photos", photos)] if photos else []
    if others:
        parts.append(ngettext("%(num)s file", "%(num)s files", others))
    return ", ".join(parts)


# --- rules ----------------------------------------------------------------------------------------


def find_problem(file: Attachment, from_address: str) -> str:
    """Return why a file of a mail from this address cannot be downloaded; empty if it can."""
    if not may_be_downloaded(file):
        return TOO_LARGE
    people = services.current().shop.people
    if person_of(from_address) in {person_of(each) for each in people}:
        return OURS
    name, kind = file.name.casefold().rstrip("_"), file.content_type
    mailed = kind.startswith("message/") or kind in _MAIL_TYPES
    return MAIL if mailed or name.endswith(_MAIL_ENDINGS) or name == "winmail.dat" else ""


def find_position(
    connection: sa.Connection, conversation_id: str, mail_id: str, number: str
) -> int | None:
    """Return `number`, from a URL, as an integer, if a customer's mail of the conversation has such a file and
    it may be downloaded; else None."""
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
        return None
    # PostgreSQL refuses a NUL, which a URL can contain.
    mail = inbound.find(connection, mail_id) if mail_id.isprintable() else None
    if mail is None or mail.conversation_id != conversation_id:
        return None
    if mail.kind is not MailKind.CUSTOMER or int(number) >= len(mail.attachments):
        return None
    problem = find_problem(mail.attachments[int(number)], mail.from_address)
    return None if problem else int(number)


def may_be_key(file: AttachmentBytes) -> bool:
    """Return whether a file contains a link by which its reader could decide or log in as another person."""
    live = services.current()
    with live.database.snapshot() as connection:
        is_secret = sessions.find_live(connection, live.now())
    return may_hold_key(file.data, is_secret)  # takes seconds for a large file


# --- serve ----------------------------------------------------------------------------------------


def fetch(mail_id: str, position: int) -> AttachmentBytes | None:
    """Return the bytes of a mail's file; None if the raw mail was purged."""
    live = services.current()
    with live.database.snapshot() as connection:
        raw = raw_mail.find(connection, mail_id)
    return live.mail_provider.find_attachment(raw.content_type, raw.body, position) if raw else None


def saved(file: AttachmentBytes) -> Response:
    """Return a response with a file that browsers save, and neither run, show nor cache."""
    response = _uncached(file.data, "application/octet-stream")
    response.headers["Content-Disposition"] = content_disposition(file.name)
    return response


def shown(mail_id: str, position: int) -> Response:
    """Return a response with the preview of a photo, or with an image that says why there is none (yet)."""
    with services.current().database.snapshot() as connection:
        preview = raw_mail.find_preview(connection, mail_id, position)
    if preview is None:
        return _placeholder(200, _("The preview is being made."), _("Reload in a minute."))
    if preview.picture is None:
        return _placeholder(404, _("No preview:"), f"{translate(preview.problem)}.")
    return _uncached(bytes(preview.picture), "image/jpeg")


def _uncached(data: bytes, content_type: str, status: int = 200) -> Response:
    headers = {
        "Content-Type": content_type,
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "no-store",
    }
    return Response(data, status, headers)


def _placeholder(status: int, *lines: str) -> Response:
    """Return an image of some text, legible on a light and on a dark page."""
    words = "".join(
        f'<text x="200" y="{100 + 28 * at}">{escape(line)}</text>' for at, line in enumerate(lines)
    )
    picture = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 240" fill="#777" '
        f'font-family="sans-serif" font-size="17" text-anchor="middle">{words}</svg>'
    )
    return _uncached(picture.encode(), "image/svg+xml", status)
