"""Refunds through WooCommerce, which asks its payment plugins to pay (`api_refund`).

WooCommerce has no idempotency keys, so each call first looks whether the order has a refund with our reason.
WooCommerce records the refund before it asks the payment plugin, and deletes it if the plugin refuses or does
not answer. So after a call that may have reached WooCommerce, a missing refund does not mean that nothing was
paid. `refunded_payment` means that the plugin paid. https://github.com/woocommerce/woocommerce,
`wc_create_refund`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mailagent.adapters.order_sources.json_client import Answer
from mailagent.adapters.platforms.calls import outcome_of
from mailagent.adapters.platforms.records import key_in, mark_of, to_minor
from mailagent.adapters.woocommerce.client import WooCommerceClient, code_of
from mailagent.adapters.woocommerce.orders import (
    NAME,
    TITLE,
    count_taken_back,
    is_woocommerce_payment,
    item_ids_of,
    payment_id_of,
    post_id_of,
)
from mailagent.domain.money import Money
from mailagent.domain.orders.source import SourceProblem
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    ListingProblem,
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    Refunded,
    RefundRequest,
    RefundState,
    Refused,
)

# WooCommerce has deleted the refund again. The plugin refused, or did not answer WooCommerce.
_PLUGIN_FAILED = "woocommerce_rest_cannot_create_order_refund"

_LOOK = "look at the payment provider whether it paid (docs/platforms.md)"

Fields = Mapping[str, Any]


class WooCommerceGateway:
    """Satisfies `domain.refunds.payment.PaymentGateway`."""

    name = NAME

    def __init__(self, client: WooCommerceClient) -> None:
        self._client = client
        # So that two threads do not both find no refund of a payment, and then both ask for one.
        self._locks = [threading.Lock() for _ in range(64)]

    def is_remote(self, request: RefundRequest) -> bool:
        """Return whether the request refunds, in money, a payment that WooCommerce took."""
        return is_woocommerce_payment(request.payment_id) and request.credit is None

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Make the payment plugin refund the money. The same request again refunds nothing more."""
        try:
            with self._locks[hash(request.payment_id) % len(self._locks)]:
                with _before_asking():
                    known = self._find(request)
                    if not isinstance(known, NotDone):
                        return known
                    refused = self._why_not(request)
                return refused or self._ask(request)
        except SourceProblem as problem:
            return outcome_of(problem)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return the outcome of an earlier call; NotDone if WooCommerce has no refund of it."""
        try:
            return self._find(request)
        except SourceProblem as problem:
            why = f"the refunds could not be looked up: {problem}"
            return OutcomeUnknown(why, operator=problem.operator, answered=problem.answered)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return all refunds of an order, ours and external ones. Raises ListingProblem."""
        try:
            order = self._order(payment_id)
            found = self._client.list_refunds(post_id_of(payment_id))
            return [_read(payment_id, order, each) for each in found]
        except (SourceProblem, ValueError, KeyError, TypeError) as problem:
            raise ListingProblem(str(problem)) from problem

    def _find(self, request: RefundRequest) -> PaymentOutcome:
        found = self._client.list_refunds(post_id_of(request.payment_id))
        ours = [each for each in found if key_in(each.get("reason")) == request.idempotency_key]
        if not ours and request.may_be_made:
            return OutcomeUnknown(_may_be_paid(request), for_people=True)
        if not ours:
            return NotDone(f"{TITLE} has no such refund", 0)
        if len(ours) > 1:
            numbers = ", ".join(str(each.get("id")) for each in ours)
            return OutcomeUnknown(f"{TITLE} made several refunds of it: {numbers}", for_people=True)
        return _outcome(request, ours[0])

    def _order(self, payment_id: str) -> Fields:
        order = self._client.find_order(post_id_of(payment_id))
        if order is None:
            why = f"{TITLE} has no payment {payment_id}: correct the order"
            raise SourceProblem(why, not_done=True, answered=True)
        return order

    def _why_not(self, request: RefundRequest) -> PaymentOutcome | None:
        """Return why this amount of an order cannot be refunded; None if it can."""
        order, asked = self._order(request.payment_id), request.amount
        if order["currency"] != asked.currency:
            why = f"order {order['number']} was paid in {order['currency']}, but the refund is {asked}"
            return NotDone(f"{why}; correct the order's currency", 0, for_people=True)
        given = sum(_minor(each["total"], asked.currency) for each in order["refunds"])
        left = Money(_minor(order["total"], asked.currency) + given, asked.currency)
        return Refused(f"more than is left of the payment: {left}") if asked > left else None

    def _ask(self, request: RefundRequest) -> PaymentOutcome:
        with _before_asking():
            restocked = self._restocked(request) if request.restocks else []
        body: dict[str, object] = {
            "amount": request.amount.decimal(),
            "reason": mark_of(request.idempotency_key),
            "api_refund": True,
            "api_restock": bool(restocked),
        }
        if restocked:
            body["line_items"] = restocked
        answer = self._client.send(
            "POST", f"/orders/{post_id_of(request.payment_id)}/refunds", body=body
        )
        if answer.status == 201 and isinstance(answer.value, dict):
            # Another process may have looked at the same moment, found nothing, and asked, too.
            known = self.look_up(request)
            return _outcome(request, answer.value) if isinstance(known, NotDone) else known
        if code_of(answer) == _PLUGIN_FAILED:
            return self._after_failure(request, answer)
        raise self._client.refusal(answer)

    def _restocked(self, request: RefundRequest) -> list[dict[str, object]]:
        """Return the units to restock; none if the shop has already taken some of them back. Raises
        SourceProblem."""
        order = self._order(request.payment_id)
        ids = item_ids_of(order["line_items"], order["currency"])
        gone = count_taken_back(self._client.list_refunds(post_id_of(request.payment_id)))
        lines = []
        for item_id, quantity in request.restocks:
            missing = quantity
            for line, its_id in zip(order["line_items"], ids, strict=True):
                if its_id == item_id and missing:
                    units = min(missing, int(line["quantity"]) - gone[str(line["id"])])
                    missing -= max(0, units)
                    if units > 0:
                        lines.append({"id": line["id"], "quantity": units, "refund_total": 0})
            if missing:
                return []
        return lines

    def _after_failure(self, request: RefundRequest, answer: Answer) -> PaymentOutcome:
        """Return the outcome when the payment plugin failed: a person must look whether it paid."""
        known = self.look_up(request)
        if not isinstance(known, NotDone):
            return known
        words = " ".join(str(answer.value.get("message")).split())[:300]
        why = f"the payment plugin of {TITLE} failed ({words}): {_LOOK}"
        return OutcomeUnknown(why, for_people=True, answered=True)


@contextmanager
def _before_asking() -> Iterator[None]:
    """Mark a problem in this block as `not_done`: we have not asked yet, so it was certainly not
    paid."""
    try:
        yield
    except SourceProblem as problem:
        problem.not_done = True
        raise


def _may_be_paid(request: RefundRequest) -> str:
    return f"{TITLE} has no refund {request.idempotency_key}, but may have had it: {_LOOK}"


def _minor(text: object, currency: str) -> int:
    return to_minor(text, currency, rounded=True)


def _outcome(request: RefundRequest, made: Fields) -> PaymentOutcome:
    try:
        reference, paid = payment_id_of(made["id"]), made["refunded_payment"]
        amount = Money(_minor(made["amount"], request.amount.currency), request.amount.currency)
    except (KeyError, TypeError, ValueError):
        return OutcomeUnknown(f"{TITLE}'s answer was not a refund", answered=True)
    if amount != request.amount:
        words = f"{TITLE}'s refund {reference} is of {amount}, not {request.amount}"
        return OutcomeUnknown(words, for_people=True)
    if not paid:
        words = f"{TITLE} does not say whether the payment plugin paid refund {reference}"
        return OutcomeUnknown(words, answered=True)
    return Refunded(reference)


def _read(payment_id: str, order: Fields, made: Fields) -> GatewayRefund:
    key, currency = key_in(made["reason"]), order["currency"]
    unsure = key is not None and not made["refunded_payment"]
    return GatewayRefund(
        reference=payment_id_of(made["id"]),
        gateway=NAME,
        payment_ids=(payment_id,),
        amount=Money(_minor(made["amount"], currency), currency),
        state=RefundState.PENDING if unsure else RefundState.SETTLED,
        idempotency_key=key,
        order_id=str(order["number"]) if key else None,
    )
