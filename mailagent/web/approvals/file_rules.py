"""Which files of the mails that came in are handed out. Not those that may hold a link by which their reader
would decide, or log in, as somebody else."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.attachment_bytes import may_be_downloaded
from mailagent.adapters.mime.secret_scan import may_hold_key
from mailagent.domain.mail.message import Attachment
from mailagent.domain.shop import person_of
from mailagent.store.console import sessions

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
