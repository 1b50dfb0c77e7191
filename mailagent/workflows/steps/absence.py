"""Mail that waits because the model is not asked: its provider is away, its limits are used up, or the day's
budget is spent. No run holds it, and the sweep brings it back."""

from __future__ import annotations

from dbos import DBOS

from mailagent import services
from mailagent.domain.breaker import Provider, Standing, standing
from mailagent.store import breakers, mailbox
from mailagent.store.database import Row
from mailagent.workflows.steps.batch import Batch
from mailagent.workflows.steps.recording import step
from mailagent.workflows.steps.spending import why_stopped

# So many of the mails that were put off are looked at by each sweep, and so many are queued at most.
BROUGHT_BACK_AT_ONCE = 500


@step
def put_off(batch: Batch) -> int:
    """Count for its mails that a run ended because the model's provider is away. Returns for how many."""
    with services.current().database.transaction() as connection:
        return mailbox.put_off(
            connection, batch["conversation_id"], batch["mail_ids"], DBOS.workflow_id
        )


def list_to_bring_back() -> tuple[list[Row], int]:
    """Return mails that were put off, those longest left alone first, and how many of them may be rung
    for: as many as its limits bear when the provider is well, one to try it, or none."""
    live = services.current()
    with live.database.snapshot() as connection:
        if why_stopped() is not None:
            return [], 0
        match standing(breakers.find(connection, Provider.OPENAI), live.now()):
            case Standing.OPEN:
                return [], 0
            case Standing.PROBE:
                most = 1
            case Standing.CLOSED:
                most = min(BROUGHT_BACK_AT_ONCE, live.pace.mails_a_minute or BROUGHT_BACK_AT_ONCE)
        return list(mailbox.list_put_off(connection, BROUGHT_BACK_AT_ONCE)), most
