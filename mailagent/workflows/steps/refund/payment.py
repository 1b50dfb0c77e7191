"""The step of the refund workflow that moves money.

A refund is paid once: its intent is a row before the gateway is called, the idempotency key is made from the
refund's id, and if an answer was lost the step looks the payment up under that key before it calls again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.circuit_breaker import Failure, look_again_seconds
from mailagent.domain.operations.incident import IncidentKind
from mailagent.domain.operations.provider import LEDGER
from mailagent.domain.operations.retry import (
    PAYMENT_IS_STUCK_AFTER,
    PAYMENT_NEEDS_OPERATOR_AFTER,
    PENDING_NEEDS_OPERATOR_AFTER,
    backoff_seconds,
)
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.payment import (
    INTENDED,
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    Pending,
    Refunded,
    RefundRequest,
    Refused,
    key_of,
    may_have_been_asked,
)
from mailagent.domain.refunds.refund import Refund, RefundStatus
from mailagent.domain.refunds.settlement import SettlementState
from mailagent.domain.text import NeedsOperatorError, tell_error, tell_moment
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.operations import circuit_breakers
from mailagent.store.refunds import (
    external_refunds,
    gateway_events,
    orders,
    refund_payments,
    refunds,
    settlements,
    stops,
)
from mailagent.workflows.steps.circuit_breaker import (
    Permit,
    claim_permit,
    free_permit,
    note_outcome,
)
from mailagent.workflows.steps.maintenance.incidents import open_incident
from mailagent.workflows.steps.recording import async_step, declare_marks, mark
from mailagent.workflows.steps.refund.condition import fail, list_restocks
from mailagent.workflows.steps.refund.decision import State, promise, state_of
from mailagent.workflows.steps.refund.gateway_call import (
    NOT_ASKED,
    Intent,
    ask_gateway,
    check_gateways,
    gateway_of,
)
from mailagent.workflows.steps.refund.order_check import (
    STOPS,
    check_before_payment,
)
from mailagent.workflows.steps.refund.returns import wait_for_remedy

declare_marks("pay_refund", "intended", "asked")

_OUR_STOPS = frozenset({*stops.STOPS, *STOPS})


@async_step
def pay_refund(refund_id: str) -> State:
    """Pay an approved refund through the gateway. The returned State says how long to wait: for a
    cancellation or return that must come first, or while the circuit breaker of the gateway or of the order
    source is open.

    Raises NeedsOperatorError if an operator must act, after too many attempts, or if the gateway or the
    order source is unavailable for too long. The refund stays approved: a replay pays what is unpaid."""
    waits = wait_for_remedy(refund_id)
    if waits is not None:
        return waits
    checked = check_before_payment(refund_id)
    if isinstance(checked, dict):
        return checked
    intents = _intend(refund_id, checked)
    if intents is None:
        with services.current().database.snapshot() as connection:
            return state_of(refunds.load(connection, refund_id).status)
    mark("pay_refund", "intended")
    check_gateways(intent.request for intent in intents)
    pending: Pending | None = None  # the one to look up again first
    for intent in intents:
        permit = _claim_permit(intent.request)
        if permit is None:
            return _wait_for_gateway(refund_id)
        outcome = ask_gateway(intent)
        mark("pay_refund", "asked")
        state = _record_outcome(intent.request, outcome, permit)
        if state is not None:
            return state
        if isinstance(outcome, Pending):
            pending = min(pending or outcome, outcome, key=lambda each: each.look_again_seconds)
        elif not isinstance(outcome, Refunded | Refused):
            _stop_for_operator(refund_id, outcome)
            return _wait_or_give_up(refund_id, outcome)
    return _wait_or_give_up(refund_id, pending) if pending else _conclude_again(refund_id)


def _intend(refund_id: str, stop: str | None) -> list[Intent] | None:
    """Record the intents to pay, under the order's lock, and return those without an answer; None
    if there is nothing to pay. `stop`: the order source's reason why no more may be paid."""
    live = services.current()
    with live.database.transaction() as connection:
        order = orders.lock_of_refund(connection, refund_id)
        refund = refunds.lock(connection, refund_id)
        if refund.status is not RefundStatus.APPROVED or order is None:
            return None
        # A gateway event and its order may have been recorded at the same moment, without seeing each other.
        order = gateway_events.apply_earlier_events(connection, order, live.now())
        rows = before = refund_payments.list_payments(connection, refund_id)
        asked_before = may_have_been_asked(bool(rows), refund.requested_at, live.now())
        looked_up = live.order_source is not None
        stopped = stop or stops.find_stop(connection, order, refund, knows_all=looked_up)
        if not rows:
            written = stopped or _write_intents(connection, refund, order)
            if isinstance(written, str):
                fail(connection, refund, written, None)
                return None
            rows = written
        # Payments by the shop's people come last, so that they hold up no card payment.
        requests = sorted(
            refund_payments.list_requests(refund, rows),
            key=lambda each: not live.gateway.is_remote(each),
        )
        # Only the first payment restocks: units must not be put in stock twice.
        requests[0] = replace(requests[0], restocks=list_restocks(connection, refund))
        asked = {row.idempotency_key: row for row in rows if row.state == INTENDED}
        again = [row.idempotency_key for row in before if looked_up and row.state == INTENDED]
        not_made = {key: stops.find_stop_if_not_made(connection, order, {key}) for key in again}
        since = stops.find_stop_since_approval(connection, order, refund, rows)
        return [
            Intent(
                request,
                # Look it up first: after a restored backup, what was refunded elsewhere may be ours.
                asked_before or since is not None,
                stopped,
                not_made.get(request.idempotency_key) or since,
                asked[request.idempotency_key].asking_since,
            )
            for request in requests
            if request.idempotency_key in asked
        ]


def _write_intents(connection: sa.Connection, refund: Refund, order: Order) -> list[Row] | str:
    """Record how much each payment gives back, and return the rows; or return why it cannot be paid."""
    orders.lock_payments(connection, order)
    try:
        parts = refund_payments.split(connection, order, refund)
    except ValueError as problem:
        return f"{problem}: something was refunded elsewhere since it was asked for"
    intend = partial(refund_payments.intend_payment, connection, now=services.current().now())
    intents = []
    for number, (payment_id, amount) in enumerate(parts, start=1):
        key = key_of(refund.refund_id, number)
        intents.append(intend(key, refund.refund_id, payment_id, amount))
    return intents


def _record_outcome(
    request: RefundRequest, outcome: PaymentOutcome, permit: Permit
) -> State | None:
    """Record the gateway's answer to one intent. If no intent is open any more, conclude the refund and
    return its state."""
    live = services.current()
    with live.database.transaction() as connection:
        if live.gateway.is_remote(request):
            _note_call(connection, permit, outcome)
        orders.lock_row(connection, request.order_id)
        refund = refunds.lock(connection, request.refund_id)
        _record_answer(connection, request, _look_again(connection, request, outcome))
        rows = refund_payments.list_payments(connection, request.refund_id)
        if any(row.state == INTENDED for row in rows):
            return None
        return _conclude(connection, refund, rows)


def _note_call(connection: sa.Connection, permit: Permit, outcome: PaymentOutcome) -> None:
    if outcome is NOT_ASKED:
        free_permit(connection, permit)
    else:
        note_outcome(connection, permit, failure_of(outcome))


def _look_again(
    connection: sa.Connection, request: RefundRequest, outcome: PaymentOutcome
) -> PaymentOutcome:
    """Return `outcome`; but Refused if, between the ledger's answer and the lock on the order,
    people recorded that the ledger's entry could not be paid."""
    if services.current().gateway.is_remote(request) or not isinstance(outcome, Refunded):
        return outcome
    found = settlements.find(connection, request.idempotency_key)
    is_failed = found is not None and found.state is SettlementState.FAILED
    return Refused(found.reason or "") if found and is_failed else outcome


def _record_answer(
    connection: sa.Connection, request: RefundRequest, outcome: PaymentOutcome
) -> None:
    live, key = services.current(), request.idempotency_key
    record = partial(refund_payments.record_payment, connection, key)
    has_it = {"asked_gateway": gateway_of(request)}
    match outcome:
        case Refunded(reference):
            record("done", reference=reference, problem=None, done_at=live.now(), **has_it)
            # An event that says that the refund has failed may have come before this older answer.
            failure = gateway_events.find_failure(connection, request.payment_id, reference)
            if failure is not None:
                refund_payments.mark_returned(connection, key, live.now(), failure)
        case Refused(why):
            record("refused", problem=why)
        case Pending(reference):
            record(INTENDED, problem=refund_payments.pending_problem(reference), **has_it)
        case NotDone(why, failed=str(reference)):
            external_refunds.record_failed(
                connection, reference, request, live.gateway.name, live.now()
            )
            record(INTENDED, problem=why)
        case NotDone(why) | OutcomeUnknown(why):
            row = refund_payments.find_payment(connection, key)
            is_pending = row is not None and refund_payments.pending_reference(row)
            # A refund that was pending stays so when a look-up fails.
            record(INTENDED, problem=row.problem if row and is_pending else why)


# --- a gateway that does not pay now --------------------------------------------------------------


def _claim_permit(request: RefundRequest) -> Permit | None:
    """Claim a permit to call the gateway, also for a look-up; None while its circuit breaker is open. The
    ledger is our own database and is always called."""
    live = services.current()
    if not live.gateway.is_remote(request):
        return Permit(LEDGER)
    with live.database.transaction() as connection:
        return claim_permit(connection, live.providers.gateway)


def failure_of(outcome: PaymentOutcome) -> Failure | None:
    """Return how the gateway has failed; None if it works, even if it refused this refund."""
    match outcome:
        case NotDone(why, operator=True) | OutcomeUnknown(why, operator=True):
            return Failure(why, needs_operator=True)
        case NotDone(why, seconds, for_people=False):
            return Failure(why, wish_seconds=seconds)
        case OutcomeUnknown(why, for_people=False, answered=False):
            return Failure(why)
    return None


def _wait_for_gateway(refund_id: str) -> State:
    """Return the state of a refund that waits because its gateway is away. This does not count as an attempt.

    Raises NeedsOperatorError when it is away for so long that an operator has to look.
    """
    live = services.current()
    with live.database.snapshot() as connection:
        rows = refund_payments.list_payments(connection, refund_id)
        away = circuit_breakers.find(connection, live.providers.gateway)
    waited = live.now() - min(row.intended_at for row in rows)
    # The refund may be new although the gateway failed long ago.
    if (
        away
        and away.opened_at
        and min(live.now() - away.opened_at, waited) >= PAYMENT_IS_STUCK_AFTER
    ):
        raise NeedsOperatorError(
            f"refund {refund_id} cannot be paid: {live.providers.gateway.title} is away since "
            f"{tell_moment(away.opened_at)} ({away.why}); when it works again, replay this run: it looks up "
            "what was paid first"
        )
    wait_seconds = look_again_seconds(refund_id, waited.total_seconds())
    return state_of(RefundStatus.APPROVED, wait_seconds, wakes=False)


def _stop_for_operator(refund_id: str, outcome: NotDone | OutcomeUnknown) -> None:
    """Raise NeedsOperatorError if another call does not help. If the gateway refuses our API key, only
    the first refund's run fails; the other refunds wait until the gateway can be called again."""
    stops = outcome.for_people
    if outcome.operator:
        with services.current().database.transaction() as connection:
            stops = open_incident(connection, IncidentKind.GATEWAY, outcome.why, refund_id)
    if stops:
        raise NeedsOperatorError(
            f"refund {refund_id} cannot be paid: {tell_error(outcome.why)}; put that right, then "
            "replay this run: it looks up what was paid first"
        )


def _wait_or_give_up(refund_id: str, outcome: Pending | NotDone | OutcomeUnknown) -> State:
    with services.current().database.snapshot() as connection:
        rows = refund_payments.list_payments(connection, refund_id)
    waiting = [row for row in rows if row.state == INTENDED]
    attempts = max((row.attempts for row in waiting), default=1)
    pending = any(refund_payments.pending_reference(row) for row in waiting)
    most = PENDING_NEEDS_OPERATOR_AFTER if pending else PAYMENT_NEEDS_OPERATOR_AFTER
    match outcome:
        case Pending(reference, wanted):
            why = f"{reference} is not settled"
        case NotDone(why, wanted):
            pass
        case OutcomeUnknown(why):
            wanted = 0
    if attempts >= most:
        raise NeedsOperatorError(
            f"refund {refund_id} could not be paid in {attempts} attempts ({tell_error(why)}); "
            "when the gateway works again, replay this run: it looks up what was paid first"
        )
    if isinstance(outcome, Pending):
        promise(refund_id)
        return state_of(RefundStatus.APPROVED, wanted)
    # No message ends a pause that the gateway asks for.
    pause = max(wanted, backoff_seconds(attempts))
    return state_of(RefundStatus.APPROVED, pause, wakes=False)


# --- the end --------------------------------------------------------------------------------------


def _conclude_again(refund_id: str) -> State:
    with services.current().database.transaction() as connection:
        orders.lock_row_of_refund(connection, refund_id)
        refund = refunds.lock(connection, refund_id)
        return _conclude(connection, refund, refund_payments.list_payments(connection, refund_id))


def _conclude(connection: sa.Connection, refund: Refund, rows: Sequence[Row]) -> State:
    """Record how a locked refund ends, now that all its payments are settled."""
    live = services.current()
    if refund.status is not RefundStatus.APPROVED:
        return state_of(refund.status)
    failed = [row for row in rows if row.state == "refused" or row.returned_at]
    if failed:
        by_gateway = [row for row in failed if row.problem not in _OUR_STOPS]
        gateway = _gateways_of(refund, by_gateway) if by_gateway else None
        fail(connection, refund, refund_payments.describe(connection, refund), gateway)
        return state_of(RefundStatus.FAILED)
    references, gateway = ", ".join(row.reference for row in rows), _gateways_of(refund, rows)
    refunds.move(
        connection,
        refund,
        RefundStatus.PAID,
        gateway=gateway,
        gateway_reference=references,
        paid_at=live.now(),
    )
    audit.record(
        connection,
        live.now(),
        gateway,
        "refund paid",
        refund.refund_id,
        {"amount": str(refund.amount), "reference": references},
    )
    return state_of(RefundStatus.PAID)


def _gateways_of(refund: Refund, rows: Sequence[Row]) -> str:
    requests = refund_payments.list_requests(refund, rows)
    return ", ".join(sorted({each.asked_gateway or gateway_of(each) for each in requests}))
