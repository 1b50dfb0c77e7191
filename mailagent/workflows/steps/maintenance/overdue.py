"""Gives mail that was not answered in time to people, and reminds them of drafts. Many at once become one
notice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import Conversation, ConversationStatus, HandOverReason
from mailagent.domain.mail.draft import Draft
from mailagent.domain.mail.message import Identity, MailKind
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.text import tell_moment
from mailagent.store.database import Row
from mailagent.store.mail import assignments, conversations, drafts, inbound
from mailagent.store.operations import incidents
from mailagent.workflows.steps.conversation.rate_limit import why_stopped
from mailagent.workflows.steps.maintenance.flood import are_few, count_senders, is_told
from mailagent.workflows.steps.maintenance.rows import process_each
from mailagent.workflows.steps.notices import tell_team

# Mail that has waited for longer is overdue in any case.
LOOKS_BACK = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When mail has waited too long. `budget_back_at`: the times when the model had a budget again after it was
    spent, oldest first. `has_budget`: whether it has one now."""

    now: datetime
    longest: timedelta
    budget_back_at: Sequence[datetime]
    has_budget: bool

    def are_over(self, row: Row) -> bool:
        """Return whether a mail of `inbound.list_waiting` has waited too long, and goes to people.

        Mail that was put off does not, while the model's budget is spent. Its time restarts when there
        is a budget again, but only once: if that budget is spent, too, the mail goes to people.
        """
        since = _waits_since(row)
        if row.put_off:
            back_at = next((at for at in self.budget_back_at if at > since), None)
            if back_at is None and not self.has_budget:
                return False
            since = back_at or since
        return self.now - since >= self.longest


def find_deadlines() -> Deadlines:
    """Read when mail has waited too long, at this moment."""
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
    """Give mails of `inbound.list_waiting` to the team, tell their customers, and return how many.

    Each is a case of its own, unless there are too many in an hour: then one notice counts them.
    Mail that becomes overdue later in the same clock hour waits for the next notice."""
    if not rows:
        return 0
    as_cases = are_few(rows)
    if not as_cases and not _sum_up(rows):
        return 0
    # A customer is told only while the conversation is open, so mail that is proven to be theirs goes first.
    by_proof = sorted(rows, key=lambda row: row.identity == Identity.NONE.value)
    return process_each(by_proof, lambda row: str(row.mail_id), lambda row: _give(row, as_cases))


def _sum_up(rows: Sequence[Row]) -> bool:
    """Tell the team in one notice; return False if they had one within this hour. It is written before the
    mails are given to them: if that is interrupted, the next notice has the rest."""
    live = services.current()
    key = f"overdue:{live.now():%Y-%m-%dT%H}"
    with live.database.transaction() as connection:
        if is_told(connection, key):
            return False
        lines = [
            "The agent could not answer them in time.",
            *count_senders([row.from_address for row in rows]),
            "There are too many for a mail about each. Their conversations are the team's now, and stand "
            f"in the inbox: {live.shop.public_url}/ops",
        ]
        tell_team(connection, key, f"{len(rows)} mails were not answered in time", lines)
    return True


def _give(row: Row, as_case: bool) -> int:
    """Give a mail to the team. Returns 0 if it was answered, drafted for or given back since it was read."""
    live, why = services.current(), HandOverReason.LEFT_UNANSWERED
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, row.conversation_id)
        still = inbound.find_waiting(connection, row.mail_id)
        if still is None or _waits_since(still) != _waits_since(row):
            return 0
        # Mail that people gave back is a new case if the agent still cannot answer it.
        again = f":{row.given_back_at:%Y-%m-%dT%H:%M:%S.%f}" if row.given_back_at else ""
        subject = f"{row.mail_id}{again}"
        if not _tell_customer(connection, conversation, row.mail_id, subject):
            inbound.leave_unanswered(connection, [row.mail_id], why.value)
        mailers.hand_to_team(
            connection, conversation, why, f"unanswered:{subject}" if as_case else None
        )
    return 1


def _tell_customer(
    connection: sa.Connection, conversation: Conversation, mail_id: str, subject: str
) -> bool:
    """Answer a mail by saying that a person takes over, and return whether this was done. Not told: the team,
    senders who are not proven, and customers whose conversation the team has already."""
    (mail,) = inbound.list_by_id(connection, [mail_id])
    is_theirs = mail.kind is MailKind.CUSTOMER and mail.identity.proven
    if not is_theirs or conversation.status is not ConversationStatus.OPEN:
        return False
    key = f"{assignments.HAND_OVER}:{subject}"
    told = mailers.write_handed_over(connection, conversation, [mail], untrue=False, dedup_key=key)
    inbound.answer(connection, [mail_id], told)
    services.current().workflow_client.queue.enqueue_deliveries(connection, [told])
    return True


# --- waiting drafts -------------------------------------------------------------------------------


DRAFTS_NAMED = 20


def remind() -> int:
    """Mail the team about drafts that have waited too long; return how many there are."""
    live = services.current()
    now = live.now()
    before = now - timedelta(seconds=live.waits.draft_reminder_seconds)
    with live.database.transaction() as connection:
        due = drafts.take_due(connection, before, now)
        if due:
            many = f"{len(due)} answers wait" if len(due) > 1 else "An answer waits"
            title = f"{many} for somebody of the team to send"
            lines = list(_lines(connection, due))
            tell_team(connection, f"drafts:{due[0].draft_id}", title, lines)
    return len(due)


def _lines(connection: sa.Connection, due: Sequence[Draft]) -> Iterator[str]:
    base = f"{services.current().shop.public_url}/ops/drafts"
    yield f"The agent has written them, and no customer has got one yet. All of them: {base}"
    for draft in due[:DRAFTS_NAMED]:
        customer = conversations.load(connection, draft.conversation_id).customer_email
        since = tell_moment(draft.created_at)
        yield f"To {customer}, since {since}: {base}/{draft.draft_id}"
    if len(due) > DRAFTS_NAMED:
        yield f"{len(due) - DRAFTS_NAMED} more wait."
    yield "You are not reminded of these again."
