"""Effects of the refund workflow until there is a decision: claiming the refund, asking managers, looking
whether one has decided, expiring it closed."""

from __future__ import annotations

import sqlalchemy as sa
from dbos import DBOS

from mailagent import mailers, services
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.store import audit
from mailagent.store.refunds import approvals, order_rows, refunds
from mailagent.workflows.steps.recording import async_step, declare_marks, mark
from mailagent.workflows.steps.refund.state import State, state_of

# A bell wakes the run at once; one that it has missed is rung again by the sweep. It looks this often anyway,
# and not oftener: each look is three records, which a restart reads again for every refund that waits.
LONGEST_SLEEP_SECONDS = 6 * 3600.0
# Where nobody may decide: whoever is made a manager is to be asked soon.
NOBODY_SLEEP_SECONDS = 3600.0

declare_marks("claim_refund", "claimed")


@async_step
def claim_refund(refund_id: str) -> State:
    """Make this run the one that bells for the refund reach. If it waits for a manager, look as
    `look_at_decision` does, which writes to whoever is to decide: from now on no bell is missed."""
    with services.current().database.transaction() as connection:
        status = refunds.claim(connection, refund_id, DBOS.workflow_id or "")
    mark("claim_refund", "claimed")
    if status is not RefundStatus.AWAITING_APPROVAL:
        return state_of(status)
    return _look(refund_id)


@async_step
def look_at_decision(refund_id: str) -> State:
    """Look whether a manager has decided; when the date has passed, expire the refund: closed.

    While it waits, whoever is due is asked or reminded: the next manager after a while, a second one
    where the first has approved and the policy wants two.
    """
    with services.current().database.snapshot() as connection:
        status = refunds.status_of(connection, refund_id)
    if status is not RefundStatus.AWAITING_APPROVAL:
        return state_of(status)  # what is decided waits no more
    return _look(refund_id)


def _look(refund_id: str) -> State:
    live = services.current()
    with live.database.transaction() as connection:
        # The order first, as everywhere: to expire a refund changes what its order has left.
        order_rows.lock_row_of_refund(connection, refund_id)
        refund = refunds.lock(connection, refund_id)
        if refund.status is not RefundStatus.AWAITING_APPROVAL:
            return state_of(refund.status)
        standing = approvals.find_standing_of_refund(connection, refund_id)
        if standing is None:
            raise LookupError(f"refund {refund_id} waits for a manager but has no approval")
        if live.now() < standing.approval.expires_at:
            return _wait(connection, refund, standing)
        refunds.move(connection, refund, RefundStatus.EXPIRED, decided_at=live.now())
        audit.record(connection, live.now(), audit.CLOCK, "refund expired", refund_id)
        mailers.write_expired(connection, refund, standing.first)
    return state_of(RefundStatus.EXPIRED)


def _wait(connection: sa.Connection, refund: Refund, standing: approvals.Standing) -> State:
    """Ask and remind whoever is due; say what is to be sent, and when there is more to do."""
    now = services.current().now()
    asking = mailers.ask_managers(connection, refund, standing)
    longest = LONGEST_SLEEP_SECONDS if asking.candidates else NOBODY_SLEEP_SECONDS
    wait_seconds = max(0.0, min((asking.due.next_at - now).total_seconds(), longest))
    asked = mailers.list_unsent_requests(connection, refund.refund_id)
    return state_of(refund.status, wait_seconds, asked)
