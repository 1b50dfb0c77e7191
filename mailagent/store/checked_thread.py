"""What an answer is held against of its thread, in one question: its newest mails, and what else there is."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.domain.mail import InboundMail
from mailagent.store import mailbox, past
from mailagent.store.database import END_OF_TIME

_THREAD = mailbox.LATEST.add_columns(
    past.was_written(sa.bindparam("conversation_id")).label("has_ours"),
    past.has_codes(sa.bindparam("conversation_id"), sa.bindparam("email")).label("has_codes"),
)


@dataclass(frozen=True, slots=True)
class CheckedThread:
    """`mails`: the newest of the customer's, oldest of them first. `has_ours`: mails of ours may be in the
    thread; `has_codes`: the customer may have been given a discount."""

    mails: tuple[InboundMail, ...]
    has_ours: bool = True
    has_codes: bool = True


def load(connection: sa.Connection, conversation_id: str, email: str, most: int) -> CheckedThread:
    """Return what is known of a thread, with its `most` newest mails."""
    values = {"conversation_id": conversation_id, "email": email, "most": most}
    rows = connection.execute(_THREAD, {**values, "until": END_OF_TIME}).all()
    mails = tuple(mailbox.from_row(row) for row in rows)
    if not rows:  # nobody has said anything of the rest
        return CheckedThread(mails)
    return CheckedThread(mails, bool(rows[0].has_ours), bool(rows[0].has_codes))
