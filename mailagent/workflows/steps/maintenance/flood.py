"""Throttled mail: enqueues it slowly, and gives it to people when it has waited too long.

`web/webhooks` decides which mail is throttled, and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import DAY, HOUR, HandOverReason
from mailagent.domain.mail.message import Identity, Purpose
from mailagent.domain.mail.redaction import inert_address
from mailagent.store.database import Row
from mailagent.store.mail import conversations, outbound, throttled
from mailagent.workflows.steps.conversation.people import write_loop_case
from mailagent.workflows.steps.maintenance.rows import process_each
from mailagent.workflows.steps.notices import tell_team_of_unanswered
from mailagent.workflows.steps.recording import step

THROTTLED_SECONDS = 3600
# With more cases than this in an hour, the team gets one notice with counts instead.
CASES_PER_HOUR = 20
SENDERS_NAMED = 20
LOOPS_AT_ONCE = 500


@step
def release_throttled_mail() -> int:
    """Give people the mail that the loop guard stopped and the mail that waited too long, and enqueue the
    oldest of the rest. Returns how many mails were enqueued."""
    live = services.current()
    with live.database.snapshot() as connection:
        in_loop = throttled.list_conversations_in_loop(connection, LOOPS_AT_ONCE)
    process_each(in_loop, str, _tell_of_loop)
    give_overdue_to_people()
    return let_in()


def _tell_of_loop(conversation_id: str) -> int:
    live = services.current()
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, conversation_id)
        outbound_ids = write_loop_case(connection, conversation)
        live.workflow_client.queue.enqueue_deliveries(connection, outbound_ids)
    return len(outbound_ids)


def let_in() -> int:
    """Enqueue mail that was throttled at least an hour ago: the oldest of each sender, and in all at most a
    sixtieth of `mails_per_hour`, because the sweep runs every minute. Returns how many."""
    live = services.current()
    # Older unconfirmed mail has gone to people, so there is no need to look further back.
    asked_since = live.now() - DAY - timedelta(seconds=live.waits.unanswered_seconds)
    before = live.now() - timedelta(seconds=THROTTLED_SECONDS)
    most = max(1, live.limits.mails_per_hour // 60)
    with live.database.snapshot() as connection:
        waiting = throttled.list_waiting(connection, before, asked_since, most)
    return process_each(waiting, lambda row: str(row.mail_id), _let_in)


def _let_in(row: Row) -> int:
    live = services.current()
    with live.database.transaction() as connection:
        run_id = live.workflow_client.queue.enqueue_conversation(
            connection, row.conversation_id, row.mail_id, proven=Identity(row.identity).proven
        )
        throttled.release(connection, row.mail_id, run_id)
    return 1


def give_overdue_to_people() -> None:
    """Give people what was throttled for longer than mail may stay unanswered: each conversation as a case, or
    all in one notice if there are too many for an hour."""
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.unanswered_seconds)
    with live.database.snapshot() as connection:
        overdue = throttled.list_overdue_conversations(connection, before, CASES_PER_HOUR + 1)
    if are_few(overdue):
        process_each(overdue, str, _give_to_people)
    else:
        _sum_up()


def are_few(cases: Sequence[object]) -> bool:
    """Return whether these cases, with those of the last hour, are few enough for one mail to the team about
    each."""
    live = services.current()
    with live.database.snapshot() as connection:
        member = live.shop.team_emails[0]
        lately = outbound.count_to(connection, member, Purpose.HAND_OVER, live.now() - HOUR)
    return len(cases) + lately <= CASES_PER_HOUR


def is_told(connection: sa.Connection, key: str) -> bool:
    """Return whether the team has had the notice with this key."""
    return outbound.is_recorded(connection, f"{key}:{services.current().shop.team_emails[0]}")


def _give_to_people(conversation_id: str) -> int:
    live, why = services.current(), HandOverReason.LEFT_UNANSWERED
    before = live.now() - timedelta(seconds=live.waits.unanswered_seconds)
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, conversation_id)
        if not throttled.close_overdue(connection, before, why.value, conversation_id):
            return 0  # another sweep was faster
        key = f"throttled:{conversation_id}:{live.now():%Y-%m-%dT%H:%M:%S.%f}"
        mailers.hand_to_team(connection, conversation, why, key)
    return 1


def _sum_up() -> None:
    """Tell the team of the overdue mail in one notice, at most once in each clock hour. What
    becomes overdue later waits for the next notice."""
    live = services.current()
    key, waited = f"flood:{live.now():%Y-%m-%dT%H}", live.waits.unanswered_seconds
    with live.database.transaction() as connection:
        if is_told(connection, key):
            return
        before = live.now() - timedelta(seconds=waited)
        senders = throttled.close_overdue(connection, before, throttled.SUMMED_UP)
        if not senders:
            return
        lines = [
            f"They waited for {waited // 60} minutes: they came faster than they could be let in, or "
            "their senders did not confirm their addresses.",
            *count_senders(senders),
        ]
        title = f"{len(senders)} mails of a flood were not answered"
        tell_team_of_unanswered(connection, key, title, lines)


def count_senders(senders: Sequence[str]) -> list[str]:
    """Return lines that say how many mails came from each sender, most first."""
    counted = Counter(senders).most_common()
    more = len(counted) - SENDERS_NAMED
    return [
        *(f"{count} from {inert_address(address)}" for address, count in counted[:SENDERS_NAMED]),
        *([f"and from {more} more senders"] if more > 0 else []),
    ]
