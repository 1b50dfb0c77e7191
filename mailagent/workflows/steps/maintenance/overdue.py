"""Hands mail that was not answered in time to people, and reminds of drafts that wait. Many at once are
one notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HOUR, Conversation, HandOverReason
from mailagent.domain.mail.draft import Draft
from mailagent.domain.mail.message import Purpose
from mailagent.domain.operations.incident import IncidentKind
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.mail import conversations, correspondence, drafts, inbound, outbound
from mailagent.store.operations import incidents
from mailagent.workflows.steps.conversation.rate_limit import why_stopped
from mailagent.workflows.steps.maintenance.flood import CASES_PER_HOUR, count_senders
from mailagent.workflows.steps.maintenance.rows import see_to_each

# Mail that has waited for longer is people's by all accounts.
LOOKS_BACK = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When mail has waited for too long. `budget_back_at`: when there was a budget for the model again after
    one was spent, oldest first; `has_budget`: whether there is one now."""

    now: datetime
    longest: timedelta
    budget_back_at: Sequence[datetime]
    has_budget: bool

    def are_over(self, row: Row) -> bool:
        """Say whether a mail, as `mailbox.list_waiting` gives it, is to go to people.

        While the budget is why it waits it is left alone, and its time begins when there is one again. Once:
        what the next day's budget does not last for either goes to people in the end.
        """
        since = _waits_since(row)
        if row.put_off:
            back_at = next((at for at in self.budget_back_at if at > since), None)
            if back_at is None and not self.has_budget:
                return False
            since = back_at or since
        return self.now - since >= self.longest


def find_deadlines() -> Deadlines:
    """Return when mail has waited for too long, by the budget and what operators were told of it."""
    live = services.current()
    now, incident = live.now(), IncidentKind.BUDGET_SPENT
    with live.database.snapshot() as connection:
        back_at = incidents.list_closed_at(connection, incident, now - LOOKS_BACK)
        is_open = incidents.find_open(connection, incident) is not None
    longest = timedelta(seconds=live.waits.unanswered_seconds)
    return Deadlines(now, longest, back_at, not is_open and why_stopped() is None)


def _waits_since(row: Row) -> datetime:
    moments: tuple[datetime | None, ...] = (row.received_at, row.taken_back_at, row.given_back_at)
    return max(moment for moment in moments if moment is not None)


def give_to_people(rows: Sequence[Row]) -> int:
    """Leave mails that `mailbox.list_waiting` gave to the team. Returns for how many.

    Each as a case, unless there are too many for an hour: then one notice says how many there are, and all
    conversations are theirs. What comes on top within the hour waits for the next notice.
    """
    if not rows:
        return 0
    live = services.current()
    with live.database.snapshot() as connection:
        member = live.shop.team_emails[0]
        cases = correspondence.count_to(connection, member, Purpose.HAND_OVER, live.now() - HOUR)
    if len(rows) + cases <= CASES_PER_HOUR:
        return see_to_each(rows, lambda row: str(row.mail_id), lambda row: _give(row, True))
    if not _sum_up(rows):
        return 0
    return see_to_each(rows, lambda row: str(row.mail_id), lambda row: _give(row, False))


def _sum_up(rows: Sequence[Row]) -> bool:
    """Tell the team in one notice; False if they had one within this hour. It is written before the mails
    are theirs: if that is broken off, the next one has the rest."""
    live = services.current()
    key = f"overdue:{live.now():%Y-%m-%dT%H}"
    with live.database.transaction() as connection:
        if outbound.is_recorded(connection, f"{key}:{live.shop.team_emails[0]}"):
            return False
        lines = [
            "The agent could not answer them in time.",
            *count_senders([row.from_address for row in rows]),
            "There are too many for a mail about each. Their conversations are the team's now, and stand "
            f"in the inbox: {live.shop.public_url}/ops",
        ]
        notice = mailers.Notice(key, f"{len(rows)} mails were not answered in time", lines)
        for outbound_id in mailers.write_notice(connection, notice, live.shop.team_emails):
            live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
    return True


def _give(row: Row, with_case: bool) -> int:
    """Leave a mail to the team. Returns for how many: none that was answered, drafted for or given back since
    it was read."""
    live = services.current()
    reason = HandOverReason.LEFT_UNANSWERED.value
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, row.conversation_id)
        still = inbound.find_waiting(connection, row.mail_id)
        if still is None or _waits_since(still) != _waits_since(row):
            return 0
        inbound.leave_unanswered(connection, [row.mail_id], reason)
        conversation_id = conversation.conversation_id
        conversations.hand_over(connection, conversation_id, reason, live.now())
        audit.record(
            connection, live.now(), audit.CLOCK, "conversation handed over", conversation_id
        )
        if with_case:
            _write_case(connection, conversation, row)
    return 1


def _write_case(connection: sa.Connection, conversation: Conversation, row: Row) -> None:
    # People who gave it back are told once more if the agent still cannot answer it.
    again = f":{row.given_back_at:%Y-%m-%dT%H:%M:%S.%f}" if row.given_back_at else ""
    key, why = f"unanswered:{row.mail_id}{again}", HandOverReason.LEFT_UNANSWERED.value
    for outbound_id in mailers.write_to_team(connection, conversation, why, None, key):
        services.current().workflow_client.queue.enqueue_delivery(connection, outbound_id)


# --- waiting drafts -------------------------------------------------------------------------------


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
        live.workflow_client.queue.enqueue_delivery(connection, outbound_id)


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
