"""What follows when people say that they have paid an entry of the ledger, or could not: rows, and a message
that wakes the refund's run. The run then reads the ledger, and tells the customer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.provider import LEDGER
from mailagent.domain.refunds.settlement import (
    Outcome,
    ReportedAgain,
    Settlement,
    SettlementFileProblem,
    SettlementProblem,
    SettlementState,
    check_again,
    check_outcome,
)
from mailagent.domain.text import ERASED_NAME, Fill, fill
from mailagent.payment_events import follow_refund
from mailagent.store import audit
from mailagent.store.mail import conversations, suppressions
from mailagent.store.refunds import orders, refunds, settlements, stops


@contextmanager
def reports_of(person: str) -> Iterator[sa.Connection]:
    """Open a transaction in which a person reports payments. If it is rolled back because some were reported
    before, those go into the audit log in another one."""
    live = services.current()
    try:
        with live.database.transaction() as connection:
            yield connection
    except (ReportedAgain, SettlementFileProblem) as problem:
        if problem.again:
            with live.database.transaction() as connection:
                for known, outcome in problem.again:
                    told = _details(connection, known, outcome, outcome.reason)
                    now = live.now()
                    audit.record(connection, now, person, audit.PAID_AGAIN, known.refund_id, told)
        raise


def settle(connection: sa.Connection, outcome: Outcome, person: str, _: Fill = fill) -> bool:
    """Record what a person, named by their address, says of an entry of the ledger. Returns False if it is
    recorded already. Raises SettlementProblem, translated by `_`, if it may not be recorded. Open the
    transaction by `reports_of`."""
    orders.lock_rows_of_settlements(connection, [outcome.idempotency_key])
    return _settle(connection, outcome, person, False, _)


def _settle(
    connection: sa.Connection, outcome: Outcome, person: str, in_file: bool, _: Fill
) -> bool:
    known = settlements.lock(connection, outcome.idempotency_key)
    refund_ids = [known.refund_id] if known else []
    stop = next(iter(stops.find_stops(connection, refund_ids).values()), None)
    is_news = check_outcome(known, outcome, stop, _)
    if known is None:
        return False
    if not is_news:
        check_again(known, outcome, person, in_file, _)
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
        _details(connection, known, outcome, outcome.reason or stop),
    )
    told = replace(known, state=outcome.state, reason=outcome.reason).as_refund(LEDGER.name)
    again = f"{outcome.state.value}-{known.idempotency_key.partition('_')[2]}"
    follow_refund(connection, told, again)
    return True


def _details(
    connection: sa.Connection, known: Settlement, outcome: Outcome, why: str | None
) -> dict[str, str | None]:
    """Return what the audit log keeps of a report; not its words if the customer was erased."""
    if why:
        refund = refunds.load(connection, known.refund_id)
        asked_by = conversations.load(connection, refund.conversation_id).customer_email
        is_erased = known.customer_name == ERASED_NAME or suppressions.is_erased(asked_by)
        why = ERASED_NAME if is_erased else why
    return {"amount": str(known.amount), "reference": outcome.bank_reference, "why": why}


def settle_all(
    connection: sa.Connection, outcomes: Sequence[tuple[int, Outcome]], person: str, _: Fill = fill
) -> int:
    """Record what a file says of entries of the ledger. `outcomes`: with the line number of each. Returns how
    many are new. `_` translates the problems.

    Raises SettlementFileProblem with every line that cannot be recorded; then nothing may be committed. Open
    the transaction by `reports_of`.
    """
    news, problems = 0, []
    again: list[tuple[Settlement, Outcome]] = []
    # All orders first, then the settlements by their keys, so that concurrent transactions cannot deadlock.
    orders.lock_rows_of_settlements(
        connection, [each.idempotency_key for _line_no, each in outcomes]
    )
    for line_no, outcome in sorted(outcomes, key=lambda each: each[1].idempotency_key):
        try:
            news += _settle(connection, outcome, person, True, _)
        except SettlementProblem as problem:
            problems.append((line_no, str(problem)))
            again += problem.again if isinstance(problem, ReportedAgain) else ()
    if problems:
        raise SettlementFileProblem(problems, _, again)
    return news
