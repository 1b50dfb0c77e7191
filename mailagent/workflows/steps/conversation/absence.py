"""Mail that waits because the model is not asked: its provider is away, its limits are used up, or the day's
budget is spent. No run holds it, and the sweep brings it back."""

from __future__ import annotations

from collections.abc import Callable

from dbos import DBOS

from mailagent import services
from mailagent.domain.operations.circuit_breaker import Provider, Standing, standing
from mailagent.engine import Run
from mailagent.store.database import Row
from mailagent.store.mail import inbound
from mailagent.store.operations import circuit_breakers
from mailagent.workflows.steps.conversation.batch import Batch
from mailagent.workflows.steps.conversation.rate_limit import why_stopped
from mailagent.workflows.steps.recording import step

# So many of the mails that were put off are looked at at once, and so many are queued by a sweep at most.
BROUGHT_BACK_AT_ONCE = 500


@step
def put_off(batch: Batch) -> int:
    """Count for its mails that a run ended because the model's provider is away. Returns for how many."""
    with services.current().database.transaction() as connection:
        return inbound.put_off(
            connection, batch["conversation_id"], batch["mail_ids"], DBOS.workflow_id
        )


def list_to_bring_back(is_over: Callable[[Run | None], bool]) -> list[Row]:
    """Return the mails that were put off and are to be enqueued for: as many as its limits bear when the
    provider is well, by turns of the customers; one to try it, of those put off least often, so that none
    of them is all that it is ever tried with; or none. Not those whose run is at it or has failed, by
    `is_over`."""
    most, by_turns = _most_to_bring_back()
    due: list[Row] = []
    looked_at = 0
    while len(due) < most:
        with services.current().database.snapshot() as connection:
            page = inbound.list_put_off(connection, BROUGHT_BACK_AT_ONCE, looked_at, by_turns)
        runs = services.current().workflow_client.runs.find_latest(
            [row.run_id for row in page if row.run_id]
        )
        due += [row for row in page if is_over(runs.get(row.run_id))]
        looked_at += len(page)
        if len(page) < BROUGHT_BACK_AT_ONCE:
            break
    return due[:most]


def _most_to_bring_back() -> tuple[int, bool]:
    """Return how many mails may be enqueued for, and whether by turns of the customers."""
    live = services.current()
    if why_stopped() is not None:
        return 0, True
    with live.database.snapshot() as connection:
        state = standing(circuit_breakers.find(connection, Provider.OPENAI), live.now())
    match state:
        case Standing.OPEN:
            return 0, True
        case Standing.PROBE:
            return 1, False
        case Standing.CLOSED:
            most = live.pace.mails_a_minute or BROUGHT_BACK_AT_ONCE
            return min(BROUGHT_BACK_AT_ONCE, most), True
