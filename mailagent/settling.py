"""What follows when people say that they have paid an entry of the ledger, or could not: rows, and a message
that wakes the refund's run. The run then reads the ledger, and tells the customer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.provider import LEDGER
from mailagent.domain.refunds.settlement import (
    Outcome,
    SettlementFileProblem,
    SettlementProblem,
    SettlementState,
    check_outcome,
)
from mailagent.domain.text import Fill, fill
from mailagent.payment_events import follow_refund
from mailagent.store import audit
from mailagent.store.refunds import orders, settlements, stops


def settle(connection: sa.Connection, outcome: Outcome, person: str, _: Fill = fill) -> bool:
    """Record what a person, named by their address, says of an entry of the ledger. Returns False if it is
    recorded already. Raises SettlementProblem, translated by `_`, if it may not be recorded."""
    orders.lock_rows_of_settlements(connection, [outcome.idempotency_key])
    return _settle(connection, outcome, person, _)


def _settle(connection: sa.Connection, outcome: Outcome, person: str, _: Fill) -> bool:
    known = settlements.lock(connection, outcome.idempotency_key)
    refund_ids = [known.refund_id] if known else []
    stop = next(iter(stops.find_stops(connection, refund_ids).values()), None)
    if not check_outcome(known, outcome, stop, _) or known is None:
        return False
    now = services.current().now()
    settlements.record(connection, outcome, person, now)
    settled = outcome.state is SettlementState.SETTLED
    audit.record(
        connection,
        now,
        person,
        "payment settled" if settled else "payment failed",
        known.refund_id,
        {
            "amount": str(known.amount),
            "reference": outcome.bank_reference,
            "why": outcome.reason or stop,
        },
    )
    told = replace(known, state=outcome.state, reason=outcome.reason).as_refund(LEDGER.name)
    again = f"{outcome.state.value}-{known.idempotency_key.partition('_')[2]}"
    follow_refund(connection, told, again)
    return True


def settle_all(
    connection: sa.Connection, outcomes: Sequence[tuple[int, Outcome]], person: str, _: Fill = fill
) -> int:
    """Record what a file says of entries of the ledger. `outcomes`: with the line number of each. Returns how
    many are new. `_` translates the problems.

    Raises SettlementFileProblem with every line that cannot be recorded; then nothing may be committed.
    """
    news, problems = 0, []
    # All orders first, then the settlements by their keys, so that concurrent transactions cannot deadlock.
    orders.lock_rows_of_settlements(
        connection, [each.idempotency_key for _line_no, each in outcomes]
    )
    for line_no, outcome in sorted(outcomes, key=lambda each: each[1].idempotency_key):
        try:
            news += _settle(connection, outcome, person, _)
        except SettlementProblem as problem:
            problems.append((line_no, str(problem)))
    if problems:
        raise SettlementFileProblem(problems, _)
    return news
