"""Asks the shop's system to cancel what nothing was paid for. Where a refund follows, its run asks."""

from __future__ import annotations

from mailagent import services
from mailagent.domain.remedies.remedy import RemedyKind, RemedyStatus
from mailagent.store.refunds import remedies
from mailagent.workflows.steps.maintenance.rows import process_each
from mailagent.workflows.steps.refund.condition import ask_to_cancel

AT_ONCE = 5  # a sweep must end within its minute


def see_to() -> int:
    """Ask for the cancellations without a refund that wait. Returns how many are settled: made, refused, or a
    task for the team."""
    with services.current().database.snapshot() as connection:
        asked = remedies.list_asked(connection, RemedyKind.CANCEL, AT_ONCE)
    return process_each(asked, str, _see_to)


def _see_to(remedy_id: str) -> int:
    with services.current().database.snapshot() as connection:
        remedy = remedies.find(connection, remedy_id)
    if remedy is None or remedy.status is not RemedyStatus.ASKED:
        return 0
    return int(ask_to_cancel(remedy) is None)
