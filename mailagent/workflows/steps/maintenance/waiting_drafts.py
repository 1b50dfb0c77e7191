"""Drafts that nobody has looked at for a while: the team is told, once of each, of all in one notice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.draft import Draft
from mailagent.store.mail import conversations, drafts

DRAFTS_NAMED = 20


def remind() -> int:
    """Mail the team about drafts that have waited too long; return how many there were."""
    live = services.current()
    now = live.now()
    before = now - timedelta(seconds=live.waits.draft_reminder_seconds)
    with live.database.transaction() as connection:
        due = drafts.take_due(connection, before, now)
        if due:
            _tell(connection, due)
    return len(due)


def _tell(connection: sa.Connection, due: Sequence[Draft]) -> None:
    live = services.current()
    many = f"{len(due)} answers wait" if len(due) > 1 else "An answer waits"
    notice = mailers.Notice(
        f"drafts:{due[0].draft_id}",
        f"{many} for somebody of the team to send",
        list(_lines(connection, due)),
    )
    for outbound_id in mailers.write_notice(connection, notice, live.shop.team_emails):
        live.doorbell.ring_delivery(connection, outbound_id)


def _lines(connection: sa.Connection, due: Sequence[Draft]) -> Iterator[str]:
    base = f"{services.current().shop.public_url}/ops/drafts"
    yield f"The agent has written them, and no customer has got one yet. All of them: {base}"
    for draft in due[:DRAFTS_NAMED]:
        customer = conversations.load(connection, draft.conversation_id).customer_email
        since = f"{draft.created_at:%Y-%m-%d %H:%M} UTC"
        yield f"To {customer}, since {since}: {base}/{draft.draft_id}"
    if len(due) > DRAFTS_NAMED:
        yield f"{len(due) - DRAFTS_NAMED} more wait."
    yield "You are not reminded of these again."
