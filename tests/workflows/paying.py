"""Refund steps, called without DBOS."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mailagent import services
from mailagent.domain.refunds.payment import (
    GatewayRefund,
    PaymentGateway,
    PaymentOutcome,
    RefundRequest,
)
from mailagent.domain.refunds.refund import Refund
from mailagent.store import schema
from mailagent.workflows.steps.refund import decision as outcome
from mailagent.workflows.steps.refund import decision as refund_decision
from mailagent.workflows.steps.refund import payment
from tests.cast import order
from tests.harness import Harness
from tests.workflows import proposals

CARD, GIFT = "pay_card", "pay_gift"
# The steps themselves, without a run around them.
pay: Callable[[str], Any] = inspect.unwrap(payment.pay_refund)
tell: Callable[[str], Any] = inspect.unwrap(outcome.tell_customer)
look: Callable[[str], Any] = inspect.unwrap(refund_decision.look_at_decision)


def tell_at_once(shop: Harness, refund_id: str) -> Any:
    """Tell the customer of a refund, and let the mails be sent."""
    told = tell(refund_id)
    with shop.live.database.transaction() as connection:
        sent = schema.outbound_mails.update().where(schema.outbound_mails.c.outbound_id.in_(told))
        connection.execute(sent.values(status="sent", written_from=None))
    return told


@dataclass
class MoodyGateway:
    """The ledger behind a bad line: `says` gives its answers, by payment, next first. An answer may
    come after the money has moved (`moved`), as from a gateway whose answer was lost."""

    ledger: PaymentGateway
    says: dict[str, list[PaymentOutcome]] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()
    before: Callable[[], None] = lambda: None
    name: str = "moody"
    asked: list[str] = field(default_factory=list)

    def is_remote(self, request: RefundRequest) -> bool:
        return self.ledger.is_remote(request)

    def refund(self, request: RefundRequest) -> PaymentOutcome:
        self.before()
        self.asked.append(request.payment_id)
        answers = self.says.get(request.payment_id)
        if not answers:
            return self.ledger.refund(request)
        if request.payment_id in self.moved:
            self.ledger.refund(request)
        return answers.pop(0)

    def look_up(self, request: RefundRequest) -> PaymentOutcome:
        self.asked.append(f"look up {request.payment_id}")
        return self.ledger.look_up(request)

    def list_refunds(self, payment_id: str) -> Sequence[GatewayRefund]:
        return self.ledger.list_refunds(payment_id)


def moody(shop: Harness, says: dict[str, list[PaymentOutcome]], **changes: Any) -> MoodyGateway:
    """Have the shop's refunds paid by a gateway of moods."""
    gateway = MoodyGateway(shop.live.gateway, says, **changes)
    services.bind(replace(shop.live, gateway=gateway))
    return gateway


def two_payments(**changes: Any) -> Any:
    """A kettle and a lamp that Ada paid with a gift card and a card."""
    paid = [
        {"payment_id": GIFT, "method": "gift_card", "amount": "20.00"},
        {"payment_id": CARD, "method": "card", "amount": "59.99"},
    ]
    items: Any = [
        {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "49.99"},
        {"item_id": "L1", "name": "Lamp", "quantity": 1, "unit_price": "30.00"},
    ]
    return order(**({"items": items, "payments": paid} | changes))


def propose(
    shop: Harness, item_id: str = "K1", subject: str = "My order", order_id: str = "W1001"
) -> dict[str, Any]:
    """Let Ada ask for an item in a thread of its own."""
    return proposals.propose(proposals.write(shop, subject=subject), order_id, (item_id, None))


def approved(shop: Harness) -> Refund:
    """A kettle's refund that is to be paid."""
    shop.stock(two_payments())
    assert propose(shop)["outcome"] == "approved"
    return shop.refunds()[0]


def held(shop: Harness) -> int:
    return int(shop.rows("SELECT held_minor FROM orders")[0].held_minor)


def ledger(shop: Harness) -> dict[str, int]:
    rows = shop.rows("SELECT payment_id, amount_minor FROM ledger_entries")
    return {row.payment_id: row.amount_minor for row in rows}
