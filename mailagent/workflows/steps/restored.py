"""Mail in a database that was restored from a backup: what waits there may have gone out, or been answered,
in the time that is lost. Sent once more it would be a second answer, so people are told of it instead."""

from __future__ import annotations

from collections.abc import Sequence

from mailagent import services
from mailagent.domain.mail import OutboundStatus
from mailagent.store import audit, mailbox, outbox
from mailagent.store.database import Row
from mailagent.workflows.steps.lost_mail import act_on_lost
from mailagent.workflows.steps.sweep import give_to_people

_MOST = 100_000
_WHY = "a backup was restored: it may have gone out in the time that is lost"

DOUBTED = "mail doubted after a restore"


def find_doubtful() -> tuple[Sequence[str], Sequence[Row]]:
    """Return mails of ours that wait to go out, and mails of customers that wait for the agent."""
    live = services.current()
    with live.database.snapshot() as connection:
        unsent = outbox.list_under_way(connection, live.now(), _MOST)
        return unsent, mailbox.list_waiting(connection, live.now(), _MOST)


def doubt_ours(outbound_ids: Sequence[str]) -> None:
    """Note that it is not known whether these went out. Events of SendGrid's that would tell may be among
    what is lost, so nobody waits for them."""
    live = services.current()
    for outbound_id in outbound_ids:
        with live.database.transaction() as connection:
            row = outbox.row_of(connection, outbound_id, lock=True)
            if row.status not in (OutboundStatus.QUEUED, OutboundStatus.SENDING):
                continue
            outbox.settle(connection, outbound_id, OutboundStatus.UNKNOWN, live.now())
            audit.record(connection, live.now(), audit.CLOCK, DOUBTED, outbound_id)
            act_on_lost(
                connection, outbox.load(connection, outbound_id), OutboundStatus.UNKNOWN, _WHY
            )


def give_doubtful_to_people(mails: Sequence[Row]) -> None:
    """Give mails of customers to the team, who see in SendGrid's activity what was answered."""
    live = services.current()
    for row in mails:
        with live.database.transaction() as connection:
            give_to_people(connection, row)
