"""Effects of the refund workflow: asking a manager, looking at the decision, paying, telling.

Paid once: the intent is a row before the gateway is asked, the key is the refund's own id, and an
answer that was lost is looked up under that key before anything is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired, TypedDict

import sqlalchemy as sa
from dbos import DBOS

from mailagent import letters, services
from mailagent.domain.conversation import HandOverReason
from mailagent.domain.mail import OutboundStatus
from mailagent.domain.money import Money
from mailagent.domain.order import Order, OrderStatus
from mailagent.domain.payment import (
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    Pending,
    Refunded,
    RefundRequest,
    Refused,
)
from mailagent.domain.refund import Refund, RefundStatus, split_over_payments
from mailagent.domain.retry import (
    PAYMENT_NEEDS_OPERATOR_AFTER,
    PENDING_NEEDS_OPERATOR_AFTER,
    backoff_seconds,
)
from mailagent.store import (
    approvals,
    audit,
    cases,
    conversations,
    gateway_words,
    orders,
    outbox,
    payments,
    refunds,
)
from mailagent.store.database import Row
from mailagent.workflows.steps.recording import async_step, declare_marks, mark

# A bell wakes the run at once. A fork made from the console has lost its bells and looks this often.
LONGEST_SLEEP_SECONDS = 3600.0


class State(TypedDict):
    """Where a refund stands, and how long its run may sleep before it looks again. `outbound_ids`:
    mail to be sent first, such as the question to a second manager; older records have none.
    `wakes`: a bell ends the sleep, because the gateway itself says when there is something to see."""

    status: str
    wait_seconds: float
    outbound_ids: NotRequired[list[str]]
    wakes: NotRequired[bool]


def _state(status: RefundStatus, wait_seconds: float = 0) -> State:
    return State(status=status.value, wait_seconds=wait_seconds)


@async_step
def claim_refund(refund_id: str) -> State:
    """Make this run the one that bells for the refund reach."""
    with services.current().database.transaction() as connection:
        refund = refunds.lock(connection, refund_id)
        refunds.claim(connection, refund_id, DBOS.workflow_id or "")
    return _state(refund.status)


@async_step
def request_approval(refund_id: str) -> list[str]:
    """Write to the manager who is to decide, unless the refund was decided meanwhile."""
    with services.current().database.transaction() as connection:
        refund = refunds.lock(connection, refund_id)
        if refund.status is not RefundStatus.AWAITING_APPROVAL:
            return []
        return [letters.ask_manager(connection, refund)]


@async_step
def look_at_decision(refund_id: str) -> State:
    """Look whether a manager has decided; when the date has passed, expire the refund: closed.

    Where one manager has approved and a second one must, that one is written to.
    """
    live = services.current()
    with live.database.transaction() as connection:
        # The order first, as everywhere: to expire a refund changes what its order has left.
        orders.lock(connection, refunds.load(connection, refund_id).order_id)
        refund = refunds.lock(connection, refund_id)
        if refund.status is not RefundStatus.AWAITING_APPROVAL:
            return _state(refund.status)
        approval = approvals.find_of_refund(connection, refund_id)
        if approval is None:
            raise LookupError(f"refund {refund_id} waits for a manager but has no approval")
        left = (approval.expires_at - live.now()).total_seconds()
        if left > 0:
            state = _state(refund.status, min(left, LONGEST_SLEEP_SECONDS))
            asked = _ask_second_manager(connection, refund)
            return State(**state, outbound_ids=asked) if asked else state
        refunds.move(connection, refund, RefundStatus.EXPIRED, decided_at=live.now())
        audit.record(connection, live.now(), audit.CLOCK, "refund expired", refund_id)
    return _state(RefundStatus.EXPIRED)


def _ask_second_manager(connection: sa.Connection, refund: Refund) -> list[str]:
    """Write to a second manager once the first has approved; nothing to send when that has gone out."""
    if not refund.four_eyes or approvals.find_first_of_refund(connection, refund.refund_id) is None:
        return []
    outbound_id = letters.ask_manager(connection, refund)
    waits = outbox.row_of(connection, outbound_id).status == OutboundStatus.QUEUED.value
    return [outbound_id] if waits else []


# --- paying -----------------------------------------------------------------------------------

declare_marks("pay_refund", "intended", "asked")

_CANCELLED = "the order was cancelled after the refund was approved and before it was paid"
_CHARGED_BACK = "the customer's bank took the payment back (chargeback) before the refund was paid"


@async_step
def pay_refund(refund_id: str) -> State:
    """Have the gateway pay an approved refund, as far as that is possible now.

    Raises RuntimeError when it was tried too often: an operator has to look.
    """
    intents = _intend(refund_id)
    if intents is None:
        with services.current().database.snapshot() as connection:
            return _state(refunds.load(connection, refund_id).status)
    mark("pay_refund", "intended")
    for intent in intents:
        request, outcome = intent.request, _ask_gateway(intent)
        mark("pay_refund", "asked")
        _record_outcome(request, outcome)
        if not isinstance(outcome, Refunded | Refused):
            return _wait_or_give_up(refund_id, outcome)
    return _conclude(refund_id)


@dataclass(frozen=True, slots=True)
class _Intent:
    """What the gateway is to be asked. `asked_before`: perhaps it was, under this key; `stopped`: why
    what was not paid by now is not paid any more, such as an order that was cancelled meanwhile."""

    request: RefundRequest
    asked_before: bool
    stopped: str | None


def _intend(refund_id: str) -> list[_Intent] | None:
    """Write down, under the order's lock, what the gateway will be asked; None when nothing is to pay."""
    live = services.current()
    with live.database.transaction() as connection:
        order = orders.lock(connection, refunds.load(connection, refund_id).order_id)
        refund = refunds.lock(connection, refund_id)
        if refund.status is not RefundStatus.APPROVED or order is None:
            return None
        # An event and its order may have been recorded at the same moment, neither seeing the other.
        gateway_words.catch_up(connection, order, live.now())
        known = refunds.list_payments(connection, refund_id)
        stopped = _stopped(order, refund)
        if not known:
            stopped = stopped or _write_intents(connection, refund, order)
        if not known and stopped:
            _fail(connection, refund, stopped)
            return None
        return [
            _Intent(_request(refund, row), asked_before=bool(known), stopped=stopped)
            for row in refunds.list_payments(connection, refund_id)
            if row.state == "asked"
        ]


def _stopped(order: Order, refund: Refund) -> str | None:
    """Return why nothing more is to be paid of a refund, or None: an order that was cancelled since it
    was approved may have been refunded by whoever cancelled it."""
    if order.status is OrderStatus.CANCELLED and not refund.despite_cancel:
        return _CANCELLED
    return _CHARGED_BACK if order.charged_back.minor else None


def _write_intents(connection: sa.Connection, refund: Refund, order: Order) -> str | None:
    """Write down which payments give back how much; return why that cannot be, or None."""
    payments.lock(connection, order)
    earlier = payments.given_back(connection, order)
    try:
        parts = split_over_payments(order, refund.amount, earlier)
    except ValueError as problem:
        return f"{problem}: something was refunded elsewhere since it was asked for"
    now = services.current().now()
    for number, (payment_id, amount) in enumerate(parts):
        key = refund.refund_id if number == 0 else f"{refund.refund_id}.{number + 1}"
        refunds.intend_payment(connection, key, refund.refund_id, payment_id, amount, now)
    return None


def _request(refund: Refund, row: Row) -> RefundRequest:
    return RefundRequest(
        idempotency_key=row.idempotency_key,
        refund_id=refund.refund_id,
        order_id=refund.order_id,
        payment_id=row.payment_id,
        amount=Money(row.amount_minor, refund.amount.currency),
    )


def _ask_gateway(intent: _Intent) -> PaymentOutcome:
    gateway = services.current().gateway
    if intent.asked_before:
        known = gateway.look_up(intent.request)
        if not isinstance(known, NotDone):
            return known
    return Refused(intent.stopped) if intent.stopped else gateway.refund(intent.request)


def _record_outcome(request: RefundRequest, outcome: PaymentOutcome) -> None:
    live = services.current()
    with live.database.transaction() as connection:
        orders.lock(connection, request.order_id)
        refunds.lock(connection, request.refund_id)
        match outcome:
            case Refunded(reference):
                refunds.record_payment(
                    connection,
                    request.idempotency_key,
                    "done",
                    reference=reference,
                    problem=None,
                    done_at=live.now(),
                )
                _heed_failure(connection, request, reference)
            case Refused(why):
                refunds.record_payment(connection, request.idempotency_key, "refused", problem=why)
            case Pending(reference):
                problem = refunds.pending_problem(reference)
                refunds.record_payment(
                    connection, request.idempotency_key, "asked", problem=problem
                )
            case NotDone(why) | OutcomeUnknown(why):
                # A look that failed does not make a pending refund an unanswered one.
                kept = _pending_problem(connection, request)
                refunds.record_payment(
                    connection, request.idempotency_key, "asked", problem=kept or why
                )


def _heed_failure(connection: sa.Connection, request: RefundRequest, reference: str) -> None:
    """Heed a word of failure that overtook the answer: the answer is the older one."""
    why = gateway_words.find_failure(connection, request.payment_id, reference)
    if why is not None:
        refunds.mark_returned(connection, request.idempotency_key, services.current().now(), why)


def _pending_problem(connection: sa.Connection, request: RefundRequest) -> str | None:
    row = refunds.find_payment(connection, request.idempotency_key)
    reference = refunds.pending_reference(row) if row else None
    return refunds.pending_problem(reference) if reference else None


def _wait_or_give_up(refund_id: str, outcome: Pending | NotDone | OutcomeUnknown) -> State:
    with services.current().database.snapshot() as connection:
        rows = refunds.list_payments(connection, refund_id)
    waiting = [row for row in rows if row.state == "asked"]
    attempts = max((row.attempts for row in waiting), default=1)
    pending = any(refunds.pending_reference(row) for row in waiting)
    most = PENDING_NEEDS_OPERATOR_AFTER if pending else PAYMENT_NEEDS_OPERATOR_AFTER
    match outcome:
        case Pending(reference, wanted):
            why = f"{reference} is not settled"
        case NotDone(why, wanted):
            pass
        case OutcomeUnknown(why):
            wanted = 0
    if isinstance(outcome, OutcomeUnknown) and outcome.for_people:
        raise RuntimeError(f"refund {refund_id}: {why}; see to it at the gateway")
    if attempts >= most:
        raise RuntimeError(
            f"refund {refund_id} could not be paid in {attempts} attempts ({why}); "
            "when the gateway works again, replay this run: it looks up what was paid first"
        )
    if isinstance(outcome, Pending):
        return State(**_state(RefundStatus.APPROVED, wanted), wakes=True)
    return _state(RefundStatus.APPROVED, max(wanted, backoff_seconds(attempts)))


def _conclude(refund_id: str) -> State:
    live = services.current()
    with live.database.transaction() as connection:
        order_id = refunds.load(connection, refund_id).order_id
        orders.lock(connection, order_id)
        refund = refunds.lock(connection, refund_id)
        if refund.status is not RefundStatus.APPROVED:
            return _state(refund.status)
        rows = refunds.list_payments(connection, refund_id)
        if any(row.state == "refused" or row.returned_at for row in rows):
            _fail(connection, refund, cases.describe_payments(connection, refund))
            return _state(RefundStatus.FAILED)
        references = ", ".join(row.reference for row in rows)
        refunds.move(
            connection,
            refund,
            RefundStatus.PAID,
            gateway=live.gateway.name,
            gateway_reference=references,
            paid_at=live.now(),
        )
        audit.record(
            connection,
            live.now(),
            live.gateway.name,
            "refund paid",
            refund_id,
            {"amount": str(refund.amount), "reference": references},
        )
    return _state(RefundStatus.PAID)


def _fail(connection: sa.Connection, refund: Refund, why: str) -> None:
    live = services.current()
    refunds.move(connection, refund, RefundStatus.FAILED, gateway=live.gateway.name, failure=why)
    audit.record(
        connection, live.now(), live.gateway.name, "refund failed", refund.refund_id, {"why": why}
    )


# --- telling ----------------------------------------------------------------------------------

_TEMPLATES = {
    RefundStatus.PAID: "receipt",
    RefundStatus.REJECTED: "refund_rejected",
    RefundStatus.EXPIRED: "refund_expired",
    RefundStatus.FAILED: "refund_failed",
}


@async_step
def tell_customer(refund_id: str) -> list[str]:
    """Write to the customer how the refund ended; a failed one also goes to the team, as a case."""
    live = services.current()
    with live.database.transaction() as connection:
        refund = refunds.lock(connection, refund_id)
        template = _TEMPLATES.get(refund.status)
        if template is None:
            return []
        outbound_ids = [letters.write_refund_outcome(connection, refund, template)]
        if refund.returned and refunds.list_told_before_return(connection, refund_id):
            outbound_ids.append(letters.write_refund_returned(connection, refund))
        if refund.status is RefundStatus.FAILED:
            outbound_ids += _give_to_team(connection, refund)
    return outbound_ids


def _give_to_team(connection: sa.Connection, refund: Refund) -> list[str]:
    """Write the case of a failed refund to the team; once, and once more if money turns out to have
    been given back after all. A replay must not take from the agent what the team gave back to it."""
    live = services.current()
    matter = f"failed:{refund.refund_id}"
    if refund.returned is not None:
        matter = f"returned:{refund.refund_id}:{refund.returned.minor}"
    if refund.part_paid is not None:
        matter += f":{refund.part_paid.minor}"
    conversation = conversations.lock(connection, refund.conversation_id)
    written = outbox.list_of_matter(connection, conversation.conversation_id, matter)
    if written:
        return written
    failed, returned = HandOverReason.PAYMENT_FAILED, HandOverReason.PAYMENT_RETURNED
    why = (returned if refund.returned else failed).value
    conversations.hand_over(connection, conversation.conversation_id, why, live.now())
    return letters.write_to_team(connection, conversation, why, None, matter)
