"""Files that came with a refund's conversation, handed to the manager whose link it is: only ever to be
saved, never shown, because a stranger made them. Of a photo a picture of our own is shown."""

from __future__ import annotations

import sqlalchemy as sa
from flask import Blueprint, Response

from mailagent import services
from mailagent.adapters.attachment import content_disposition
from mailagent.adapters.attachment_bytes import AttachmentBytes, find_attachment
from mailagent.adapters.photo_preview import make_preview
from mailagent.domain.mail import MailKind
from mailagent.store import cases, mailbox
from mailagent.web import file_rules
from mailagent.web.approvals import find_asked, find_refusal, page
from mailagent.web.guard import signed_link

blueprint = Blueprint("attachments", __name__)

_DIGITS_MAX = 4


@blueprint.get("/approvals/<token>/attachments/<mail_id>/<number>")
@signed_link
def download(token: str, mail_id: str, number: str) -> Response:
    """Hand out one file that the manager's page lists; whatever it does not list is not there."""
    found = _find(token, mail_id, number)
    if not isinstance(found, AttachmentBytes):
        return found
    if may_be_key(found):
        return page("approvals/file_kept_back.html", 403, name=found.name)
    return saved(found)


@blueprint.get("/approvals/<token>/photos/<mail_id>/<number>")
@signed_link
def preview(token: str, mail_id: str, number: str) -> Response:
    """Show what a photo shows, in a picture made by us; 404 for what is none."""
    found = _find(token, mail_id, number)
    return shown(found) if isinstance(found, AttachmentBytes) else found


def _find(token: str, mail_id: str, number: str) -> AttachmentBytes | Response:
    """Return a file that the manager's page lists, or the page that says why there is none."""
    live = services.current()
    link = live.links.verify_approval(token)
    position = parse_number(number)
    with live.database.snapshot() as connection:
        found = find_asked(connection, link)
        if link is None or found is None:
            return page("approvals/not_valid.html", 404)
        refund = found[1]
        refusal = find_refusal(link, refund, cases.list_owners(connection, refund))
        if refusal is not None:
            return refusal
        if position is None or not is_listed(connection, refund.conversation_id, mail_id, position):
            return page("approvals/not_valid.html", 404)
        raw = mailbox.find_raw(connection, mail_id)
    if raw is None:
        return page("approvals/no_longer_kept.html", 410, days=live.waits.raw_mail_days)
    file = find_attachment(raw.content_type, raw.body, position)
    return file or page("approvals/not_valid.html", 404)


def parse_number(text: str) -> int | None:
    """Return the number of a file, as it stands in an address, or None for what is none."""
    readable = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if readable else None


def is_listed(connection: sa.Connection, conversation_id: str, mail_id: str, position: int) -> bool:
    """Say whether a customer's mail of a conversation has such a file, and it may be downloaded."""
    # PostgreSQL refuses a NUL in a text, which an address can hold.
    mail = mailbox.find(connection, mail_id) if mail_id.isprintable() else None
    if mail is None or mail.conversation_id != conversation_id:
        return False
    if mail.kind is not MailKind.CUSTOMER or position >= len(mail.attachments):
        return False
    return not file_rules.find_problem(mail.attachments[position], mail.from_address)


def may_be_key(file: AttachmentBytes) -> bool:
    """Say whether a link stands in a file by which its reader could decide, or log in, as somebody else."""
    with services.current().database.snapshot() as connection:
        return file_rules.holds_key(connection, file.data)


def saved(file: AttachmentBytes) -> Response:
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


def shown(file: AttachmentBytes) -> Response:
    """Return a picture of ours of a photo: small, and without anything else that the file carried."""
    picture = make_preview(file.data)
    if picture is None:
        return Response("there is no preview of this file\n", 404, mimetype="text/plain")
    return Response(
        picture,
        headers={
            "Content-Type": "image/jpeg",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "Cache-Control": "no-store",
        },
    )
