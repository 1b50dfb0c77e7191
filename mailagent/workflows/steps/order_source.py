"""Calls the order source through its circuit breaker, and saves what it returns. Call this within steps
only."""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import sqlalchemy as sa

from mailagent import services
from mailagent.adapters.http import limited
from mailagent.domain.operations.circuit_breaker import Failure
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.orders.freshness import Freshness, is_fresh
from mailagent.domain.orders.source import NotYet, OrderSource, OutOfTime, SourceProblem
from mailagent.domain.refunds.order import Order, OrderProblem
from mailagent.store.operations import incidents
from mailagent.store.orders import problems, versions
from mailagent.store.orders.versions import Kept, Mark, Told
from mailagent.store.refunds import order_import, orders
from mailagent.telemetry import spans
from mailagent.workflows.steps.circuit_breaker import Permit, claim_permit, note_outcome
from mailagent.workflows.steps.maintenance.incidents import open_incident
from mailagent.workflows.steps.recording import retry_outages, step

logger = logging.getLogger(__name__)

T = TypeVar("T")
# How often at most an order is asked for, if other look-ups of it are saved meanwhile.
_MOST_TRIES = 5


def ask(call: Callable[[OrderSource], T], ends_at: datetime | None = None) -> T:
    """Call the order source, and return its answer. `ends_at`: when all its requests must have ended.

    Raises SourceProblem if it does not answer, if the adapter cannot read the answer, or while the circuit
    breaker is open. Of its subclasses, NotYet is no failure for the breaker, and OutOfTime says that `ends_at`
    came. Raises OrderProblem if an order's record is wrong, and RuntimeError if the shop imports its orders.
    """
    live = services.current()
    source, provider = live.order_source, live.providers.orders
    if source is None or provider is None:
        raise RuntimeError("orders are imported: there is no source to ask")
    left = (ends_at - live.now()).total_seconds() if ends_at else math.inf
    if left <= 0:
        raise OutOfTime(f"no time is left to ask {provider.title}", not_done=True)
    with live.database.transaction() as connection:
        permit = claim_permit(connection, provider)
    if permit is None:
        raise SourceProblem(f"the circuit breaker of {provider.title} is open", not_done=True)
    try:
        with spans.call(provider.name, "look up"), limited(left):
            answer = call(source)
    except (OrderProblem, NotYet):
        _note(permit, None)
        raise
    except SourceProblem as problem:
        told = str(problem)
        _note(permit, Failure(told, problem.retry_after_seconds, problem.operator))
        raise
    except Exception as problem:  # noqa: BLE001 - after any error the probe is over
        # Leave out the error's text: it may quote a customer's data.
        told = f"the answer of {provider.title} cannot be read ({type(problem).__name__})"
        place = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{place.filename}:{place.lineno}"
        logger.error("event=answer_unreadable: %s: correct the adapter, %s", told, where)
        _note(permit, Failure(told))
        raise SourceProblem(told) from None
    _note(permit, None)
    return answer


def _note(permit: Permit, failure: Failure | None) -> None:
    if failure is None and not permit.failed_lately:
        return

    def record() -> None:
        with services.current().database.transaction() as connection:
            note_outcome(connection, permit, failure)
            if failure is not None and failure.needs_operator:
                open_incident(connection, IncidentKind.ORDER_SOURCE, failure.why)

    retry_outages(record)


def save(
    found: Sequence[Order],
    before: Mapping[str, Mark],
    note: Callable[[sa.Connection, Kept], None] | None = None,
) -> Kept:
    """Save orders as the source returned them. `before`: the marks of the stored orders from before the
    source was asked. `note` records more in the same transaction. Returns the saved versions, the orders that
    another look-up has `overtaken` (refresh these), and why others could not be saved. The first new problem
    opens the ORDER_RECORDS incident, unless it is open; the incident closes when no problem is left."""
    from mailagent.adapters.order_files.record import render_order  # loads pydantic

    live = services.current()
    told = [Told(order, render_order(order)) for order in map(order_import.bare_if_erased, found)]
    name = live.order_source_name or ""
    now = live.now()  # read before an outage of the database, not after it

    def record() -> tuple[Kept, list[str]]:
        with live.database.transaction() as connection:
            kept = versions.keep(connection, told, name, now, live.gateway.is_remote, before)
            new = [
                f"order {order_id}: {why}; people decide on its refunds"
                for order_id, why in kept.problems.items()
                if problems.note(connection, order_id, Freshness.REFUSED, now)
            ]
            if kept.noted - kept.problems.keys():
                _end_incident(connection)
            if note is not None:
                note(connection, kept)
            return kept, new

    kept, new = retry_outages(record)
    report(new)
    return kept


def _end_incident(connection: sa.Connection) -> None:
    """Close the incident of wrong records, unless an order that was noted since it opened is still wrong."""
    known = incidents.find_open(connection, IncidentKind.ORDER_RECORDS)
    if known is not None and not problems.has_any(connection, known.since):
        now = services.current().now()
        incidents.close_incident(connection, now, IncidentKind.ORDER_RECORDS)


def report(told: Sequence[str]) -> None:
    """Open the incident of wrong records with the first of these lines, and mail it to the operators, unless
    the incident is open. The other lines are not told."""
    if told:
        with services.current().database.transaction() as connection:
            open_incident(connection, IncidentKind.ORDER_RECORDS, told[0])


def refresh(order_id: str, ends_at: datetime | None = None) -> Freshness:
    """Look up a stored order at the source until `ends_at`, save it, and return what that showed. If it fails,
    record why. If the source's answer was wrong, tell the operators.

    If another look-up is saved after we asked, ask again, because its answer may be newer."""
    for _ in range(_MOST_TRIES):
        found = _refresh_once(order_id, ends_at)
        if found is not None:
            return found
    return _note_problem(order_id, Freshness.AWAY)


def _refresh_once(order_id: str, ends_at: datetime | None) -> Freshness | None:
    with services.current().database.snapshot() as connection:
        before = versions.find_marks(connection, order_id=order_id)
    try:
        order = ask(lambda source: source.load_order(order_id), ends_at)
    except SourceProblem:
        return _note_problem(order_id, Freshness.AWAY)
    except OrderProblem as problem:
        return _note_problem(order_id, Freshness.UNUSABLE, str(problem))
    if order is None:
        return _note_problem(
            order_id,
            Freshness.GONE,
            "is not in the shop's system any more; put it back, or decide on its refunds yourself",
        )
    if order.order_id != order_id:
        why = f"the answer is another order, {order.order_id}"
        return _note_problem(order_id, Freshness.UNUSABLE, why)
    kept = save([order], before)
    if kept.overtaken:
        return None
    return Freshness.FRESH if kept.versions else Freshness.REFUSED


def _note_problem(order_id: str, found: Freshness, why: str | None = None) -> Freshness:
    live = services.current()
    with live.database.transaction() as connection:
        problems.note(connection, order_id, found, live.now())
    report([f"order {order_id}: {why}"] if why else [])
    return found


def refresh_if_old(order_id: str) -> None:
    """Look up an order again if the stored one is too old for people to decide on. If the source does not
    answer, the stored order stays. Does nothing in a shop that imports its orders."""
    live = services.current()
    if live.order_source is None:
        return
    with live.database.snapshot() as connection:
        order = orders.load(connection, order_id)
    if not is_fresh(order, live.now()):
        refresh(order_id)


@step
def look_up_order(order_id: str) -> None:
    """Look a stored order up for a page or an open task, even if it is fresh: a look-up that was under way when
    it changed may have saved the old one. Does nothing in a shop that imports its orders."""
    if services.current().order_source is not None:
        refresh(order_id)
