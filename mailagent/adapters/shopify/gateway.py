"""Refunds of payments that Shopify took. This module never repeats a request by itself.

Shopify remembers an idempotency key for a day, but the note of a refund for ever. So each call first looks
whether the order has a refund with our note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mailagent.adapters.platforms.calls import outcome_of
from mailagent.adapters.platforms.records import key_in, mark_of
from mailagent.adapters.shopify import queries
from mailagent.adapters.shopify.client import ShopifyClient, is_in_use
from mailagent.adapters.shopify.orders import (
    GIVEN_BACK,
    MOVED,
    NAME,
    PAID_KINDS,
    PENDING,
    TITLE,
    gid_of,
    is_shopify_payment,
    minor_of,
    payment_id_of,
)
from mailagent.adapters.shopify.restock import RestockType, choose_lines, refund_lines
from mailagent.domain.money import Money
from mailagent.domain.orders.source import SourceProblem
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    ListingProblem,
    NotDone,
    OutcomeUnknown,
    PaymentOutcome,
    Pending,
    Refunded,
    RefundRequest,
    RefundState,
    Refused,
)

LOOK_AGAIN_SECONDS = 3600.0

Fields = Mapping[str, Any]


class ShopifyGateway:
    """Satisfies `domain.refunds.payment.PaymentGateway`."""

    name = NAME

    def __init__(
        self, client: ShopifyClient, look_again_seconds: float = LOOK_AGAIN_SECONDS
    ) -> None:
        """`look_again_seconds`: after how many seconds to look up a pending refund again."""
        self._client = client
        self._look_again_seconds = look_again_seconds

    def is_remote(self, request: RefundRequest) -> bool:
        """Return whether the request refunds, in money, a payment that Shopify took."""
        # People give store credit, also without a bonus (docs/decisions/0017): a refund as credit cannot
        # exceed what was paid, and `storeCreditAccountCredit` has no documented idempotency key.
        return is_shopify_payment(request.payment_id) and request.credit is None

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        """Refund the money. The same request again refunds nothing more."""
        try:
            payment = self._payment(request.payment_id)
            known = self._find(request, payment)
            if not isinstance(known, NotDone):
                return known
            problem = _why_not(request, payment)
            return problem or self._ask(request, payment)
        except SourceProblem as problem:
            return outcome_of(problem)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        """Return the outcome of an earlier call; NotDone if Shopify has no refund of it, or only failed
        ones."""
        try:
            return self._find(request, self._payment(request.payment_id))
        except SourceProblem as problem:
            why = f"the refunds could not be looked up: {problem}"
            return OutcomeUnknown(why, operator=problem.operator, answered=problem.answered)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        """Return all refunds of a payment, also those from Shopify's admin. Raises ListingProblem."""
        try:
            payment = self._payment(payment_id)
            return [_read(payment, *each) for each in _refunds_of(payment)]
        except (SourceProblem, ValueError) as problem:
            raise ListingProblem(str(problem)) from problem

    def _payment(self, payment_id: str) -> Fields:
        """Return the transaction that took the money, with its order and all refunds. Raises SourceProblem."""
        payment: Fields | None = self._client.run(queries.PAYMENT, id=gid_of(payment_id))["node"]
        order = (payment or {}).get("order")
        if not payment or not order:
            why = f"{TITLE} has no payment {payment_id}: correct the order"
            raise SourceProblem(why, not_done=True, answered=True)
        if len(order["refunds"]) >= queries.REFUNDS:
            why = f"order {order['name']} of {TITLE} has too many refunds to tell ours"
            raise SourceProblem(why, not_done=True, answered=True)
        return payment

    def _find(self, request: RefundRequest, payment: Fields) -> PaymentOutcome:
        key = request.idempotency_key
        ours = [made for note, made in _refunds_of(payment) if key_in(note) == key]
        # Prefer one that has moved money, or still may, to a failed one.
        ours.sort(key=lambda made: made["status"] not in MOVED)
        if ours:
            return self._outcome(request, ours[0])
        noted = (each for each in payment["order"]["refunds"] if key_in(each["note"]) == key)
        without_money = next(noted, None)
        return (
            _not_moved(without_money)
            if without_money
            else NotDone(f"{TITLE} has no such refund", 0)
        )

    def _ask(self, request: RefundRequest, payment: Fields) -> PaymentOutcome:
        order, failed = payment["order"], _count_failed(request, payment)
        key = request.idempotency_key + (f":{failed + 1}" if failed else "")
        transaction = {
            "orderId": order["id"],
            "parentId": payment["id"],
            "gateway": payment["gateway"],
            "kind": GIVEN_BACK,
            "amount": request.amount.decimal(),
        }
        refund = {
            "orderId": order["id"],
            "currency": request.amount.currency,
            "note": mark_of(request.idempotency_key),
            "notify": False,
            "transactions": [transaction],
        }
        if request.restocks and not failed:  # a failed refund has already restocked them
            refund["refundLineItems"] = self._restocked(order["id"], request)
        answer = self._client.run(queries.REFUND, input=refund, key=key)["refundCreate"]
        if answer["refund"]:
            return self._judge(request, answer["refund"])
        words = "; ".join(each["message"] for each in answer["userErrors"]) or "made no refund"
        if is_in_use(words):
            return OutcomeUnknown(f"{TITLE}: {words}", answered=True)
        return NotDone(f"{TITLE}: {words}", 0, for_people=True)

    def _restocked(self, gid: str, request: RefundRequest) -> list[dict[str, Any]]:
        """Return the units to restock; none if the shop has already taken some of them back. Raises
        SourceProblem."""
        lines = self._client.run(queries.ITEMS, id=gid)["order"]["lineItems"]["nodes"]
        chosen = choose_lines(lines, request.restocks)
        try:
            return refund_lines(self._client, gid, chosen, RestockType.RETURN) if chosen else []
        except SourceProblem as problem:
            if not problem.operator:
                raise
            why = f"{problem}: allow {queries.RESTOCK_SCOPE}, or restock nothing by the policy"
            raise SourceProblem(why, not_done=True, answered=True) from problem

    def _judge(self, request: RefundRequest, refund: Fields) -> PaymentOutcome:
        for made in refund["transactions"]["nodes"]:
            if made["kind"] == GIVEN_BACK:
                return self._outcome(request, made)
        return _not_moved(refund)

    def _outcome(self, request: RefundRequest, made: Fields) -> PaymentOutcome:
        reference, status = payment_id_of(made["id"]), made["status"]
        if status not in MOVED:
            why = f"{TITLE}'s refund {reference} is {status}"
            return NotDone(why, 0, for_people=True, failed=reference)
        amount = _amount(made)
        if amount != request.amount:
            words = f"{TITLE}'s refund {reference} is of {amount}, not {request.amount}"
            return OutcomeUnknown(words, for_people=True)
        if status in PENDING:
            return Pending(reference, self._look_again_seconds)
        return Refunded(reference)


def _not_moved(refund: Fields) -> OutcomeUnknown:
    """Return the outcome of our refund that has moved no money yet: unknown, because another request could pay
    twice. We look it up again for some time, then people must act."""
    return OutcomeUnknown(f"{TITLE} made {refund['id']} without moving money yet", answered=True)


def _refunds_of(payment: Fields) -> list[tuple[str | None, Fields]]:
    """Return the transactions that refunded this payment, each with the note of its refund."""
    return [
        (refund["note"], made)
        for refund in payment["order"]["refunds"]
        for made in refund["transactions"]["nodes"]
        if made["kind"] == GIVEN_BACK and (made["parentTransaction"] or {}).get("id") == payment["id"]
    ]  # fmt: skip


def _count_failed(request: RefundRequest, payment: Fields) -> int:
    return sum(
        key_in(note) == request.idempotency_key and made["status"] not in MOVED
        for note, made in _refunds_of(payment)
    )


def _why_not(request: RefundRequest, payment: Fields) -> PaymentOutcome | None:
    """Return why this amount of a payment cannot be refunded; None if it can."""
    paid, asked = _amount(payment), request.amount
    if payment["kind"] not in PAID_KINDS or payment["status"] != "SUCCESS":
        why = f"{request.payment_id} is a {payment['kind']} that is {payment['status']}: correct the order"
        return NotDone(why, 0, for_people=True)
    if paid.currency != asked.currency:
        why = f"payment {request.payment_id} was made in {paid.currency}, but the refund is {asked}"
        return NotDone(f"{why}; correct the order's currency", 0, for_people=True)
    given = sum(_amount(made).minor for _, made in _refunds_of(payment) if made["status"] in MOVED)
    if asked.minor > paid.minor - given:
        return Refused(
            f"more than is left of the payment: {Money(paid.minor - given, paid.currency)}"
        )
    return None


def _amount(transaction: Fields) -> Money:
    currency = transaction["amountSet"]["presentmentMoney"]["currencyCode"]
    return Money(minor_of(transaction["amountSet"], currency), currency)


def _read(payment: Fields, note: str | None, made: Fields) -> GatewayRefund:
    state = RefundState.SETTLED if made["status"] == "SUCCESS" else RefundState.PENDING
    failed = made["status"] not in MOVED
    key = key_in(note)
    return GatewayRefund(
        reference=payment_id_of(made["id"]),
        gateway=NAME,
        payment_ids=(payment_id_of(payment["id"]),),
        amount=_amount(made),
        state=RefundState.FAILED if failed else state,
        idempotency_key=key,
        order_id=payment["order"]["name"] if key else None,
        why=f"its status is {made['status']}" if failed else None,
    )
