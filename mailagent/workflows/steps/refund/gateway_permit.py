"""Leave to ask the payment gateway about a refund. The ledger is our own database and is always asked."""

from __future__ import annotations

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.operations.circuit_breaker import Failure, Provider, look_again_seconds
from mailagent.domain.operations.retry import PAYMENT_IS_STUCK_AFTER
from mailagent.domain.refunds.payment import NotDone, OutcomeUnknown, PaymentOutcome, RefundRequest
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.domain.text import NeedsOperatorError
from mailagent.store.operations import circuit_breakers
from mailagent.store.refunds import refund_payments
from mailagent.workflows.steps.circuit_breaker import Permit, find_permit, note_outcome
from mailagent.workflows.steps.refund.decision import State, state_of


def find_gateway_permit(request: RefundRequest) -> Permit | None:
    """Return leave to ask about a refund, look-ups included, or None while its gateway is away."""
    if not _is_remote(request):
        return Permit(Provider.STRIPE)
    with services.current().database.transaction() as connection:
        return find_permit(connection, Provider.STRIPE)


def _is_remote(request: RefundRequest) -> bool:
    return services.current().gateway.is_remote(request.payment_id)


def note_answer(
    connection: sa.Connection, leave: Permit, request: RefundRequest, outcome: PaymentOutcome
) -> None:
    """Record whether the gateway has answered or failed."""
    if _is_remote(request):
        note_outcome(connection, leave, failure_of(outcome))


def failure_of(outcome: PaymentOutcome) -> Failure | None:
    """Return how the gateway has failed, or None if it is well, whatever it made of this refund."""
    match outcome:
        case NotDone(why, operator=True) | OutcomeUnknown(why, operator=True):
            return Failure(why, needs_operator=True)
        case NotDone(why, seconds, for_people=False):
            return Failure(why, wish_seconds=seconds)
        case OutcomeUnknown(why, for_people=False, answered=False):
            return Failure(why)
    return None


def wait_for_gateway(refund_id: str) -> State:
    """Return the state of a refund whose gateway is not asked because it is away: no attempt.

    Raises NeedsOperatorError when it is away for so long that an operator has to look.
    """
    live = services.current()
    with live.database.snapshot() as connection:
        rows = refund_payments.list_payments(connection, refund_id)
        away = circuit_breakers.find(connection, Provider.STRIPE)
    now = live.now()
    waited = now - min(row.intended_at for row in rows)
    since = away.opened_at if away else None
    # Both: Stripe may have failed long ago, and nobody may have had to ask it since.
    if away and since and min(now - since, waited) >= PAYMENT_IS_STUCK_AFTER:
        raise NeedsOperatorError(
            f"refund {refund_id} cannot be paid: Stripe is away since {since:%Y-%m-%d %H:%M} "
            f"UTC ({away.why}); when it works again, replay this run: it looks up what was paid first"
        )
    return state_of(
        RefundStatus.APPROVED, look_again_seconds(refund_id, waited.total_seconds()), wakes=False
    )
