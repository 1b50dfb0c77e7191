"""Mail that a budget throttled: let in bit by bit, and given to people when its time is up.

What is throttled, and why, is decided where mail comes in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HOUR, HandOverReason
from mailagent.domain.mail.message import Identity, Purpose
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.mail import conversations, correspondence, outbound, throttled
from mailagent.workflows.steps.maintenance.rows import see_to_each

# An hour's budget, a minute at a time; of each sender one mail a minute.
THROTTLED_SECONDS = 3600
# More cases than these in an hour are no help to the team: one notice with counts is.
CASES_PER_HOUR = 20
SENDERS_NAMED = 20


def let_in() -> int:
    """Let throttled mail in, slowly and fairly: after an hour, the oldest mail of each sender a minute."""
    live = services.current()
    before = live.now() - timedelta(seconds=THROTTLED_SECONDS)
    most = max(1, live.limits.mails_per_hour // 60)
    with live.database.snapshot() as connection:
        waiting = throttled.list_waiting(connection, before, most)
    return see_to_each(waiting, lambda row: str(row.mail_id), _let_in)


def _let_in(row: Row) -> int:
    live = services.current()
    with live.database.transaction() as connection:
        run_id = live.workflow_client.queue.enqueue_conversation(
            connection, row.conversation_id, row.mail_id, proven=Identity(row.identity).proven
        )
        throttled.release(connection, row.mail_id, run_id)
    return 1


def give_overdue_to_people() -> None:
    """Give people what was throttled for longer than mail may stay unanswered.

    Each thread as a case, unless there are too many for an hour: then all in one notice, with counts.
    """
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.unanswered_seconds)
    with live.database.snapshot() as connection:
        overdue = throttled.list_overdue_conversations(connection, before, CASES_PER_HOUR + 1)
        member = live.shop.team_emails[0]
        cases = correspondence.count_to(connection, member, Purpose.HAND_OVER, live.now() - HOUR)
    if len(overdue) + cases > CASES_PER_HOUR:
        _sum_up()
        return
    see_to_each(overdue, str, _give_to_people)


def _give_to_people(conversation_id: str) -> int:
    live = services.current()
    before = live.now() - timedelta(seconds=live.waits.unanswered_seconds)
    why = HandOverReason.LEFT_UNANSWERED.value
    with live.database.transaction() as connection:
        conversation = conversations.lock(connection, conversation_id)
        if not throttled.close_overdue(connection, before, why, conversation_id):
            return 0  # another sweep was faster
        conversations.hand_over(connection, conversation_id, why, live.now())
        audit.record(
            connection, live.now(), audit.CLOCK, "conversation handed over", conversation_id
        )
        key = f"throttled:{conversation_id}:{live.now():%Y-%m-%dT%H:%M:%S.%f}"
        for outbound_id in mailers.write_to_team(connection, conversation, why, None, key):
            live.workflow_client.queue.enqueue_delivery(connection, outbound_id)
    return 1


def _sum_up() -> None:
    """Tell the team in one notice an hour; what is overdue by then waits for the next."""
    live = services.current()
    now = live.now()
    key = f"flood:{now:%Y-%m-%dT%H}"
    with live.database.transaction() as connection:
        if outbound.is_recorded(connection, f"{key}:{live.shop.team_emails[0]}"):
            return
        before = now - timedelta(seconds=live.waits.unanswered_seconds)
        senders = throttled.close_overdue(connection, before, throttled.SUMMED_UP)
        if not senders:
            return
        notice = mailers.Notice(
            key,
            f"{len(senders)} mails of a flood were not answered",
            _lines(senders, live.waits.unanswered_seconds),
        )
        for outbound_id in mailers.write_notice(connection, notice, live.shop.team_emails):
            live.workflow_client.queue.enqueue_delivery(connection, outbound_id)


def _lines(senders: Sequence[str], waited_seconds: int) -> list[str]:
    return [
        f"They came faster than they could be let in, and waited for {waited_seconds // 60} minutes.",
        *count_senders(senders),
        "They are kept, and the agent does not answer them any more. Whoever writes again is "
        "answered as always. To read them: flask conversations list.",
    ]


def count_senders(senders: Sequence[str]) -> list[str]:
    """Return lines that say how many mails came from whom, most first."""
    counted = Counter(senders).most_common()
    more = len(counted) - SENDERS_NAMED
    return [
        *(f"{count} from {address}" for address, count in counted[:SENDERS_NAMED]),
        *([f"and from {more} more senders"] if more > 0 else []),
    ]
