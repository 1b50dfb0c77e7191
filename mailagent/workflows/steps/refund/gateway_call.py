"""One call of the payment gateway. If the gateway may have been asked before, the payment is looked up first.
Two workers never ask at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from mailagent import services
from mailagent.domain.operations.provider import LEDGER
from mailagent.domain.refunds.payment import (
    CALL_IS_UNDER_WAY_FOR,
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    RefundRequest,
    Refused,
)
from mailagent.domain.text import NeedsOperatorError
from mailagent.store.refunds import external_refunds, refund_payments
from mailagent.telemetry import spans

NOT_ASKED = OutcomeUnknown("it is settled, or another worker asks at this moment", answered=True)


@dataclass(frozen=True, slots=True)
class Intent:
    """A refund payment to request from the gateway. `asked_before`: it may have been requested under its
    key before. `stopped`: why it must not be requested any more, such as an order that was cancelled
    meanwhile. `stopped_if_not_made`: a reason that counts only if the look-up finds that the gateway has
    not made it. `asking_since`: when a worker last began a call that may still be under way."""

    request: RefundRequest
    asked_before: bool
    stopped: str | None
    stopped_if_not_made: str | None
    asking_since: datetime | None


def gateway_of(request: RefundRequest) -> str:
    """Return the name of the gateway that a request goes to, by today's settings."""
    gateway = services.current().gateway
    return gateway.name if gateway.is_remote(request) else LEDGER.name


def check_gateways(requests: Iterable[RefundRequest]) -> None:
    """Raise NeedsOperatorError if another gateway than today's has one of these refunds, or may have it: asking
    today's could pay twice."""
    for each in requests:
        asked = each.asked_gateway
        if asked not in (None, gateway_of(each)):
            raise NeedsOperatorError(
                f"refund {each.refund_id} cannot be paid: {asked} was asked to refund payment "
                f"{each.payment_id} and may have done it, but PAYMENT_GATEWAY is "
                f"{services.current().gateway.name} now; set PAYMENT_GATEWAY={asked} again and replay this "
                f"run, or if you see at {asked} that it was not refunded and will not be: flask refunds "
                f"ask-again {each.refund_id}, then replay this run"
            )


def ask_gateway(intent: Intent) -> PaymentOutcome:
    """Return the outcome of an earlier call; if there was none, make the call, unless the intent is
    stopped. Return NOT_ASKED if the intent is settled, or if another worker may be making the call."""
    gateway, stopped = services.current().gateway, intent.stopped
    if intent.asked_before:
        with spans.call(gateway.name, "look up"):
            known = gateway.look_up(intent.request)
        if not isinstance(known, NotDone):
            return _unless_under_way(intent, known)
        if known.failed and not stopped and not _is_known_failure(known.failed):
            return known  # for an operator, whose replay calls the gateway again
        stopped = stopped or intent.stopped_if_not_made
    begun_at = services.current().now()
    # Begin even if it is stopped: a worker that read the intent before us can then no longer make the call.
    if (stopped and _may_be_under_way(intent)) or not _begin(intent, begun_at):
        return NOT_ASKED
    if stopped:
        return Refused(stopped)
    with spans.call(gateway.name, "refund"):
        outcome = gateway.refund(intent.request)
    if isinstance(outcome, NotDone) and not intent.request.may_be_made:
        _end(intent, begun_at)  # this call was the only one
    return outcome


def _unless_under_way(intent: Intent, known: PaymentOutcome) -> PaymentOutcome:
    """Return an outcome, but ask no people while another worker's call may be under way."""
    if isinstance(known, OutcomeUnknown) and known.for_people and _may_be_under_way(intent):
        return replace(known, for_people=False, answered=True)
    return known


def _may_be_under_way(intent: Intent) -> bool:
    since = intent.asking_since
    return since is not None and services.current().now() - since < CALL_IS_UNDER_WAY_FOR


def _begin(intent: Intent, now: datetime) -> bool:
    """Record that the gateway is asked now. Return False if another worker has begun, or if the intent is
    settled or withdrawn."""
    key, gateway = intent.request.idempotency_key, gateway_of(intent.request)
    with services.current().database.transaction() as connection:
        return refund_payments.begin_asking(connection, key, intent.asking_since, now, gateway)


def _end(intent: Intent, begun_at: datetime) -> None:
    with services.current().database.transaction() as connection:
        refund_payments.end_asking(connection, intent.request.idempotency_key, begun_at)


def _is_known_failure(reference: str) -> bool:
    with services.current().database.snapshot() as connection:
        return external_refunds.is_known_failure(connection, reference)
