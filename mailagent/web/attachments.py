"""Files that came with a refund's conversation, handed to the manager whose link it is: only ever to be
saved, never shown, because a stranger made them."""

from __future__ import annotations

import sqlalchemy as sa
from flask import Blueprint, Response

from mailagent import services
from mailagent.adapters.attachment import content_disposition
from mailagent.adapters.attachment_bytes import (
    AttachmentBytes,
    find_attachment,
    may_be_downloaded,
)
from mailagent.domain.mail import MailKind
from mailagent.domain.refund import Refund
from mailagent.store import mailbox
from mailagent.web.approvals import find_asked, no_longer_decides, page, still_decides
from mailagent.web.guard import signed_link

blueprint = Blueprint("attachments", __name__)

_DIGITS_MAX = 4


@blueprint.get("/approvals/<token>/attachments/<mail_id>/<number>")
@signed_link
def download(token: str, mail_id: str, number: str) -> Response:
    """Hand out one file that the manager's page lists; whatever it does not list is not there."""
    live = services.current()
    link = live.links.verify_approval(token)
    position = _parse_number(number)
    with live.database.snapshot() as connection:
        found = find_asked(connection, link)
        if link is not None and found is not None and not still_decides(link):
            return no_longer_decides(link)
        if (
            found is None
            or position is None
            or not _is_listed(connection, found[1], mail_id, position)
        ):
            return page("approvals/not_valid.html", 404)
        raw = mailbox.find_raw(connection, mail_id)
    if raw is None:
        return page("approvals/no_longer_kept.html", 410, days=live.waits.raw_mail_days)
    file = find_attachment(raw.content_type, raw.body, position)
    return _saved(file) if file else page("approvals/not_valid.html", 404)


def _parse_number(text: str) -> int | None:
    readable = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if readable else None


def _is_listed(connection: sa.Connection, refund: Refund, mail_id: str, position: int) -> bool:
    # PostgreSQL refuses a NUL in a text, which an address can hold.
    mail = mailbox.find(connection, mail_id) if mail_id.isprintable() else None
    if mail is None or mail.conversation_id != refund.conversation_id:
        return False
    if mail.kind is not MailKind.CUSTOMER or position >= len(mail.attachments):
        return False
    return may_be_downloaded(mail.attachments[position])


def _saved(file: AttachmentBytes) -> Response:
    """Return a file so that no browser runs, shows or keeps it."""
    return Response(
        file.data,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": content_disposition(file.name),
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "Cache-Control": "no-store",
        },
    )
