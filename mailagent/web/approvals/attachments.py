"""Files that came with a refund's conversation, handed to the manager whose link it is: only ever to be
saved, never shown, because a stranger made them. Of a photo the picture is shown that a worker made of it; no
image is decoded here."""

from __future__ import annotations

import sqlalchemy as sa
from flask import Blueprint, Response
from markupsafe import escape

from mailagent import services
from mailagent.adapters.mime.attachment import AttachmentBytes, content_disposition
from mailagent.domain.mail.message import MailKind
from mailagent.store.database import Row
from mailagent.store.mail import inbound, photo_previews
from mailagent.store.refunds import cases
from mailagent.web.approvals import case_files, decision
from mailagent.web.approvals.pages import find_asked, find_refusal, page
from mailagent.web.guard import signed_link

blueprint = Blueprint("attachments", __name__)

_DIGITS_MAX = 4


@blueprint.get("/approvals/<token>/attachments/<mail_id>/<number>")
@signed_link
def download(token: str, mail_id: str, number: str) -> Response:
    """Hand out one file that the manager's page lists; whatever it does not list is not there."""
    position = _find(token, mail_id, number)
    if not isinstance(position, int):
        return position
    live = services.current()
    with live.database.snapshot() as connection:
        raw = inbound.find_raw(connection, mail_id)
    if raw is None:
        return page("approvals/no_longer_kept.html", 410, days=live.waits.raw_mail_days)
    file = live.mail_provider.find_attachment(raw.content_type, raw.body, position)
    if file is None:
        return page("approvals/not_valid.html", 404)
    if may_be_key(file):
        return page("approvals/file_kept_back.html", 403, name=file.name)
    return saved(file)


@blueprint.get("/approvals/<token>/photos/<mail_id>/<number>")
@signed_link
def preview(token: str, mail_id: str, number: str) -> Response:
    """Show what a photo shows, in a picture made by us; 404 for what has none."""
    position = _find(token, mail_id, number)
    return shown(mail_id, position) if isinstance(position, int) else position


def _find(token: str, mail_id: str, number: str) -> int | Response:
    """Return the number of a file that the manager's page lists, or the page that says why there is none."""
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
        if not decision.shows_case(refund, found[0].approval):
            return page("approvals/no_longer_shown.html", 410, days=decision.CASE_SHOWN.days)
        if position is None or not is_listed(connection, refund.conversation_id, mail_id, position):
            return page("approvals/not_valid.html", 404)
    return position


def parse_number(text: str) -> int | None:
    """Return the number of a file, as it stands in an address, or None for what is none."""
    readable = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if readable else None


def is_listed(connection: sa.Connection, conversation_id: str, mail_id: str, position: int) -> bool:
    """Say whether a customer's mail of a conversation has such a file, and it may be downloaded."""
    # PostgreSQL refuses a NUL in a text, which an address can hold.
    mail = inbound.find(connection, mail_id) if mail_id.isprintable() else None
    if mail is None or mail.conversation_id != conversation_id:
        return False
    if mail.kind is not MailKind.CUSTOMER or position >= len(mail.attachments):
        return False
    return not case_files.find_problem(mail.attachments[position], mail.from_address)


def may_be_key(file: AttachmentBytes) -> bool:
    """Say whether a link stands in a file by which its reader could decide, or log in, as somebody else."""
    with services.current().database.snapshot() as connection:
        return case_files.holds_key(connection, file.data)


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


def shown(mail_id: str, position: int) -> Response:
    """Return the picture of a photo that a worker made, or one that says that there is none, or none yet."""
    with services.current().database.snapshot() as connection:
        preview = photo_previews.find(connection, mail_id, position)
    status = 404 if preview is not None and preview.picture is None else 200
    return Response(
        _picture(preview),
        status,
        {
            "Content-Type": "image/jpeg" if preview and preview.picture else "image/svg+xml",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "Cache-Control": "no-store",
        },
    )


def _picture(preview: Row | None) -> bytes:
    if preview is None:
        return _placeholder("The preview is being made.", "Reload in a minute.")
    if preview.picture is None:
        return _placeholder("No preview:", f"{preview.problem}.")
    return bytes(preview.picture)


def _placeholder(*lines: str) -> bytes:
    """Return a picture of some words, legible on a light and on a dark page."""
    words = "".join(
        f'<text x="200" y="{100 + 28 * at}">{escape(line)}</text>' for at, line in enumerate(lines)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 240" fill="#777" '
        f'font-family="sans-serif" font-size="17" text-anchor="middle">{words}</svg>'
    ).encode()
