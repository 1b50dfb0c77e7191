"""What a mail that comes in is judged by, apart from its thread: asked of the database in one question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent.domain.mail.conversation import HOUR
from mailagent.domain.mail.dkim import CLOCK_ERROR
from mailagent.domain.mail.message import MailKind, ParsedMail
from mailagent.store import schema
from mailagent.store.console import sessions
from mailagent.store.mail import traffic

_mails = schema.inbound_mails

_SAME_MESSAGE_ID = sa.select(sa.func.count()).where(
    _mails.c.message_id == sa.bindparam("known_message_id")
)
# Of a mail that is known by author and Date: a signature that leaves out the Message-ID covers both.
_SAME_DATE = sa.select(_mails.c.mail_id).where(
    _mails.c.from_address == sa.bindparam("address"),
    _mails.c.received_at >= sa.bindparam("not_before", type_=_mails.c.received_at.type),
    _mails.c.sent_at == sa.bindparam("signed_date", type_=_mails.c.sent_at.type),
    _mails.c.kind != MailKind.MALFORMED.value,
)
_SAME_MAIL = sa.select(_mails.c.mail_id).where(_mails.c.dedup_key == sa.bindparam("known_key"))


def _look_up(proven: bool) -> sa.Select[Any]:
    return sa.select(
        sa.exists(_SAME_MAIL),
        _SAME_MESSAGE_ID.scalar_subquery(),
        _SAME_MESSAGE_ID.where(_mails.c.kind != MailKind.MALFORMED.value).scalar_subquery(),
        sa.exists(_SAME_DATE),
        sa.exists(traffic.of_sender(proven)),
        sa.exists(sessions.LIVE),
    )


# Only one of them counts mail of a sender: of the other sort there may be any number, which stops at no limit.
_LOOK_UP = {proven: _look_up(proven) for proven in (False, True)}


@dataclass(frozen=True, slots=True)
class Known:
    """What is on record when a mail comes in. `stored`: this very mail; `same_message_id`: how many mails with
    its Message-ID; `message_id`: one of them could be read, for else it may come again, whole; `signed_date`: a
    mail with its author and Date, if it is known by them.

    `is_used_up`: whether its sender has sent as many mails within an hour as they may, parked or not; only
    mails count that are `proven` to be theirs, or only others. `live_logins`: whether any link logs somebody
    in.
    """

    stored: bool
    same_message_id: int
    message_id: bool
    signed_date: bool
    proven: bool
    is_used_up: bool
    live_logins: bool


def look_up(
    connection: sa.Connection, mail: ParsedMail, now: datetime, most_of_sender: int
) -> Known:
    """Return what is on record of a mail and its sender, before the mail is."""
    proven = mail.identity.proven
    signed_date = mail.sent_at if mail.known_by_date else None
    values = {
        "known_key": mail.dedup_key,
        "known_message_id": mail.message_id,
        "signed_date": signed_date,
        "not_before": signed_date and signed_date - CLOCK_ERROR,
        "address": mail.from_address,
        "since": now - HOUR,
        "before": most_of_sender - 1,
        "now": now,
    }
    row = connection.execute(_LOOK_UP[proven], values).one()
    return Known(
        stored=bool(row[0]),
        same_message_id=row[1],
        message_id=row[2] > 0,
        signed_date=bool(row[3]),
        proven=proven,
        is_used_up=bool(row[4]),
        live_logins=bool(row[5]),
    )
