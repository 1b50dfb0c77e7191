"""Mail in a database that was restored from a backup. What waits there may have been sent or answered since the
backup was made. A second answer must not go out, so people are told of it instead.

All of it may be interrupted and run again: each row is settled in the transaction that tells people of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from mailagent import mailers, services
from mailagent.domain.mail.conversation import HandOverReason
from mailagent.domain.mail.message import OutboundStatus
from mailagent.store.mail import assignments, conversations, drafts, outbound, throttled
from mailagent.workflows.steps.delivery.undeliverable import record_as_lost
from mailagent.workflows.steps.maintenance.flood import CASES_PER_HOUR, count_senders
from mailagent.workflows.steps.notices import tell_team_of_unanswered

_WHY = "a backup was restored: it may have gone out in the time that is lost"

DOUBTED: Final = "mail doubted after a restore"


@dataclass(frozen=True, slots=True)
class Doubtful:
    """What waits: `ours` are mails to be sent; `mails` counts mails of customers. Each of `conversation_ids`
    becomes a case. `flooded`: one notice tells of conversations in which only throttled mail waits."""

    ours: tuple[str, ...]
    conversation_ids: tuple[str, ...]
    flooded: bool
    mails: int
    drafts: int


def find_doubtful() -> Doubtful:
    """Return what may have been sent or answered since the backup."""
    with services.current().database.snapshot() as connection:
        waiting = assignments.list_doubtful_conversations(connection)
        only_throttled = {row.conversation_id for row in waiting if row.mails == row.flooded}
        flooded = len(only_throttled) > CASES_PER_HOUR
        cases = [row.conversation_id for row in waiting]
        if flooded:
            cases = [each for each in cases if each not in only_throttled]
        return Doubtful(
            ours=tuple(assignments.list_doubtful_outbound(connection)),
            conversation_ids=tuple(cases),
            flooded=flooded,
            mails=sum(row.mails for row in waiting),
            drafts=drafts.count_waiting(connection),
        )


def give_to_people(found: Doubtful) -> None:
    """Tell people of all that was found, and keep it from going out by itself."""
    for outbound_id in found.ours:
        _doubt_ours(outbound_id)
    for conversation_id in found.conversation_ids:
        _hand_over(conversation_id)
    if found.flooded:
        _sum_up()


@contextmanager
def _writing() -> Iterator[sa.Connection]:
    """Yield a transaction. The mails that it writes are not doubtful when this is run again."""
    live = services.current()
    with live.database.transaction() as connection:
        begun_at = live.now()
        yield connection
        assignments.record_written_since(connection, begun_at, live.now())


def _doubt_ours(outbound_id: str) -> None:
    """Record a mail of ours as unknown. Events about it may be lost, so nothing waits for them."""
    with _writing() as connection:
        row = outbound.row_of(connection, outbound_id, lock=True)
        if row.status in (OutboundStatus.QUEUED, OutboundStatus.SENDING):
            record_as_lost(connection, row, OutboundStatus.UNKNOWN, DOUBTED, _WHY)


def _hand_over(conversation_id: str) -> None:
    """Give a conversation to the team, who see in the provider's activity what was answered. Its drafts are
    taken back: one may have been sent since the backup."""
    live, why = services.current(), HandOverReason.RESTORED
    with _writing() as connection:
        conversation = conversations.lock(connection, conversation_id)
        if not assignments.leave_doubtful(connection, conversation_id, why.value):
            return
        key = f"restored:{conversation_id}:{live.now():%Y-%m-%dT%H:%M:%S.%f}"
        mailers.hand_to_team(connection, conversation, why, key)


def _sum_up() -> None:
    """Tell the team of a throttled flood in one notice."""
    live = services.current()
    with _writing() as connection:
        now = live.now()
        senders = throttled.close_overdue(connection, now, throttled.SUMMED_UP)
        key = f"restored-flood:{now:%Y-%m-%dT%H:%M:%S.%f}"
        title = (
            f"{len(senders)} mails of a flood may have been answered before a backup was restored"
        )
        tell_team_of_unanswered(connection, key, title, count_senders(senders))
