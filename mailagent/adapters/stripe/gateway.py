"""Refunds through Stripe. This module never retries by itself.

Stripe remembers an idempotency key for about 24 hours, but lists refunds for ever. Within a day the key
prevents a second refund; after that, the caller looks the refund up before it asks again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import requests
import stripe

from mailagent.adapters.http import retry_after_seconds
from mailagent.adapters.stripe.refunds import (
    FAILED,
    KEY_FIELD,
    PENDING,
    from_stripe,
    is_stripe_payment,
    read_refund,
    to_stripe,
)
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    ListingProblem,
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    Pending,
    Refunded,
    RefundRequest,
    Refused,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stripe.params import RefundCreateParams, RefundListParams

log = logging.getLogger(__name__)

# Stripe stores the answer under the idempotency key and repeats it for a day. If Stripe lists no refund, or the
# refund has failed, we ask under the next key: after a refusal or a failure, because a person may have removed
# its cause; after a 500, at most KEYS_WITH_500_MAX times. Then a person has to act.
KEYS_MAX = 40
KEYS_WITH_500_MAX = 3

LOOK_AGAIN_SECONDS = 3600.0
OPERATOR_SECONDS = 600.0

_OUR_KEY = (stripe.AuthenticationError, stripe.PermissionError)

# Final refusals, about the payment itself: https://docs.stripe.com/error-codes. All others (no balance, an id
# that this account does not know, a restriction) wait for an operator.
FINAL_CODES = {
    "charge_already_refunded": "refunded elsewhere",
    "charge_disputed": "charged back",
    "charge_not_refundable": "no longer refundable",
    "refund_disputed_payment": "disputed",
}
# Reasons of a failed refund (`failure_reason`) that are final. All others, also unknown ones, wait for an
# operator.
FINAL_FAILURES = frozenset(
    {
        "lost_or_stolen_card",
        "expired_or_canceled_card",
        "declined",
        "charge_for_pending_refund_disputed",
        "merchant_request",
    }
)
# An amount above the rest of the payment: the error has no code, but this parameter.
_AMOUNT, _TOO_MUCH = "amount", "more than is left of the payment"


class StripeGateway:
    """Satisfies `domain.refunds.payment.PaymentGateway`."""

    name = "stripe"

    def __init__(
        self,
        api_key: str,
        api_base: str | None,
        timeout_seconds: float = 30,
        look_again_seconds: float = LOOK_AGAIN_SECONDS,
    ) -> None:
        """Make the client; threads may share it.

        `api_base`: None for Stripe's own. `look_again_seconds`: when to look up a pending refund again.
        """
        self._look_again_seconds = look_again_seconds
        stripe.enable_telemetry = False  # it would write a file into the home directory
        logging.getLogger("stripe").setLevel(logging.WARNING)  # INFO has every request's path
        self._client = stripe.StripeClient(
            api_key,
            base_addresses={"api": api_base.rstrip("/")} if api_base else None,
            http_client=_Client(timeout=timeout_seconds),
            max_network_retries=0,  # the workflow retries
        )

    def is_remote(self, request: RefundRequest) -> bool:
        """Return whether the request refunds, in money, a payment that Stripe took."""
        return is_stripe_payment(request.payment_id) and request.credit is None

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Refund the money. The same request again refunds nothing more."""
        if not is_stripe_payment(request.payment_id):
            why = f"payment {request.payment_id} is not Stripe's (pi_…, ch_… or py_…): correct the order"
            return NotDone(why, 0, for_people=True)
        try:
            to_stripe(request.amount)
        except ValueError as problem:
            return Refused(str(problem))  # final: Stripe cannot express the amount
        try:
            paid_in = self._currency_of(request.payment_id)
        except stripe.StripeError as problem:
            return self._judge(request, problem)
        if paid_in != request.amount.currency:
            why = (
                f"payment {request.payment_id} was made in {paid_in}, but the refund is {request.amount}; "
                "correct the order's currency"
            )
            return NotDone(why, 0, for_people=True)
        return self._ask_under_fresh_key(request)

    def _ask_under_fresh_key(self, request: RefundRequest) -> PaymentOutcome:
        """Ask under the first key that is not spent. Under a spent key, Stripe repeats a stored error, or a
        refund that has failed since."""
        with_500 = 0
        for number in range(1, KEYS_MAX + 1):
            try:
                made = self._create(request, number)
                if not _is_repeated(made):
                    return self._outcome(request, made)
                # Stripe repeats the refund as it was when it was made.
                known = self._outcome(request, self._client.v1.refunds.retrieve(made.id))
            except stripe.StripeError as problem:
                if not _is_spent(problem):
                    return self._judge(request, problem)
                with_500 += (problem.http_status or 0) >= 500
                known = self.look_up(request)
            if not isinstance(known, NotDone):
                return known
            if with_500 == KEYS_WITH_500_MAX:
                why = f"Stripe repeats a stored error under {with_500} idempotency keys"
                return OutcomeUnknown(why, answered=True)
        why = f"Stripe repeats stored refusals under {KEYS_MAX} idempotency keys; they expire after a day"
        return NotDone(why, 0, for_people=True)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return the outcome of an earlier call; NotDone if Stripe has no refund of it, or only failed ones."""
        try:
            listed = self._client.v1.refunds.list(_listing(request.payment_id))
            ours = [
                each
                for each in listed.auto_paging_iter()
                if _key_of(each) == request.idempotency_key
            ]
        except stripe.StripeError as problem:
            words = f"the refunds could not be looked up: {_words(problem)}"
            # The key of another account sees neither the payment nor its refunds.
            return OutcomeUnknown(
                words,
                for_people=_is_refusal(problem),
                operator=isinstance(problem, _OUR_KEY),
                answered=_is_refusal(problem),
            )
        if not ours:
            return NotDone("Stripe has no such refund", 0)
        # If there are several, one that moved money, or may yet, goes before a failed one.
        ours.sort(key=lambda each: each.status in FAILED)
        return self._outcome(request, ours[0])

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return all refunds of a payment, newest first, also those from the dashboard. Raises
        ListingProblem."""
        try:
            listed = self._client.v1.refunds.list(_listing(payment_id))
            return [read_refund(each.to_dict()) for each in listed.auto_paging_iter()]
        except stripe.StripeError as problem:
            raise ListingProblem(_words(problem)) from problem

    def _create(self, request: RefundRequest, number: int) -> stripe.Refund:
        key = request.idempotency_key if number == 1 else f"{request.idempotency_key}:{number}"
        parameters: RefundCreateParams = {
            "amount": to_stripe(request.amount),
            "metadata": {
                KEY_FIELD: request.idempotency_key,
                "refund_id": request.refund_id,
                "order_id": request.order_id,
            },
        }
        if _is_intent(request.payment_id):
            parameters["payment_intent"] = request.payment_id
        else:
            parameters["charge"] = request.payment_id
        return self._client.v1.refunds.create(parameters, {"idempotency_key": key})

    def _currency_of(self, payment_id: str) -> str:
        """Return the currency of a payment. Stripe refunds in it, so ours must be the same."""
        if _is_intent(payment_id):
            return self._client.v1.payment_intents.retrieve(payment_id).currency.upper()
        return self._client.v1.charges.retrieve(payment_id).currency.upper()

    def _outcome(self, request: RefundRequest, made: stripe.Refund) -> PaymentOutcome:
        if getattr(made, "object", None) != "refund" or not made.id:
            return OutcomeUnknown("the answer was not a refund")
        if made.status in FAILED:
            return _failed(made)
        amount = from_stripe(made.amount, made.currency)
        if amount != request.amount:
            words = f"Stripe's refund {made.id} is of {amount}, not {request.amount}"
            return OutcomeUnknown(words, for_people=True)
        if made.status in PENDING:
            return Pending(made.id, self._look_again_seconds)
        if made.status != "succeeded":
            return OutcomeUnknown(
                f"Stripe's refund {made.id} has the unknown status {made.status!r}", answered=True
            )
        return Refunded(made.id)

    def _judge(self, request: RefundRequest, problem: stripe.StripeError) -> PaymentOutcome:
        """Return what an error means for the money: refused, not done, or unknown."""
        words = _words(problem)
        match problem:
            case stripe.RateLimitError():
                return NotDone(words, _retry_after(problem))
            case stripe.AuthenticationError() | stripe.PermissionError():
                log.error(
                    "event=stripe_key_refused: %s; no refund is paid. Check STRIPE_API_KEY", words
                )
                return NotDone(words, OPERATOR_SECONDS, operator=True)
            case stripe.IdempotencyError():
                return OutcomeUnknown(words, answered=True)
            case _ if not _is_refusal(problem):
                return OutcomeUnknown(words)
        final = _why_final(problem)
        if final is None:
            return NotDone(words, 0, for_people=True)
        known = self.look_up(request)
        return Refused(f"{final}: {words}") if isinstance(known, NotDone) else known


class _Client(stripe.RequestsClient):
    """The SDK's HTTP client without redirects: after one, it would repeat a POST as a GET."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout=timeout, session=_Session())


class _Session(requests.Session):
    def request(self, *args: Any, **options: Any) -> requests.Response:
        return super().request(*args, **{**options, "allow_redirects": False})


def _is_intent(payment_id: str) -> bool:
    return payment_id.startswith("pi_")


def _listing(payment_id: str) -> RefundListParams:
    if _is_intent(payment_id):
        return {"payment_intent": payment_id, "limit": 100}
    return {"charge": payment_id, "limit": 100}


def _key_of(refund: stripe.Refund) -> str | None:
    metadata = refund.metadata
    return metadata.to_dict().get(KEY_FIELD) if metadata else None


def _failed(made: stripe.Refund) -> PaymentOutcome:
    """Return the outcome of a failed or cancelled refund. A cancelled one is final: a person cancelled it, or
    the customer did not claim it."""
    why = getattr(made, "failure_reason", None)
    words = f"Stripe's refund {made.id} is {made.status}: {why or 'no reason given'}"
    if made.status == "canceled" or why in FINAL_FAILURES:
        return Refused(words)
    return NotDone(words, 0, for_people=True, failed=made.id)


def _is_repeated(made: stripe.Refund) -> bool:
    """Return whether Stripe repeats the answer that it has stored under the key."""
    answer = getattr(made, "last_response", None)  # a proxy's page has none
    return answer is not None and _says_replayed(answer.headers)


def _says_replayed(headers: Mapping[str, str] | None) -> bool:
    found = {name.lower(): value for name, value in (headers or {}).items()}
    return found.get("idempotent-replayed", "").lower() == "true"


def _is_spent(problem: stripe.StripeError) -> bool:
    """Return whether the key is spent: Stripe repeats a stored 5xx, or a stored refusal whose cause may be
    gone."""
    replayed = _says_replayed(problem.headers)
    if _is_refusal(problem):
        return replayed and _why_final(problem) is None
    return replayed and (problem.http_status or 0) >= 500


def _is_refusal(problem: stripe.StripeError) -> bool:
    """Return whether Stripe understood the request and refused it."""
    its = isinstance(problem, stripe.InvalidRequestError | stripe.CardError)
    return its and (problem.http_status or 0) in {400, 402, 404}


def _why_final(problem: stripe.StripeError) -> str | None:
    """Return why a refusal is final, or None."""
    code = _code(problem)
    if code is None and getattr(problem, "param", None) == _AMOUNT:
        return _TOO_MUCH
    return FINAL_CODES.get(code or "")


def _code(problem: stripe.StripeError) -> str | None:
    # `.code` is None on some classes although the body has one.
    return problem.code or (problem.error.code if problem.error else None)


def _words(problem: stripe.StripeError) -> str:
    words = " ".join((problem.user_message or str(problem)).split())[:300]
    return f"{problem.http_status or 'no answer'} {_code(problem) or ''}: {words}".replace(
        " :", ":"
    )


def _retry_after(problem: stripe.StripeError) -> float:
    headers = {name.lower(): value for name, value in (problem.headers or {}).items()}
    return retry_after_seconds(headers) or 0.0
