"""What a refund that waits may still come to: orders are cancelled, charged back, or refunded elsewhere
while a manager thinks. The page says it before the decision, and a decision above it is refused."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.order import Order, OrderStatus
from mailagent.domain.refund import Refund
from mailagent.store import orders, outside
from mailagent.web.decision_form import Form, FormProblem

_REJECT = "Nothing can be paid on it any more; please reject the request."


@dataclass(frozen=True, slots=True)
class Left:
    """The most that may be approved, and what has happened to the order since, a sentence each."""

    most: Money
    news: tuple[str, ...] = ()


def of_refund(connection: sa.Connection, refund: Refund) -> Left:
    """Return what a refund may still come to. Lock its order first where a decision follows."""
    order = orders.load(connection, refund.order_id)
    stopped = _stopped(order)
    if stopped:
        return Left(Money(0, order.currency), (f"{stopped} {_REJECT}",))
    elsewhere = Money(outside.given_back_minor(connection, order.order_id), order.currency)
    others = orders.held_minor(connection, order.order_id) - refund.held.minor
    left = order.paid.minor - others - elsewhere.minor
    most = Money(max(0, min(left, refund.amount.minor)), order.currency)
    if not elsewhere.minor:
        return Left(most)
    news = f"{elsewhere} of this order was given back elsewhere, such as in the payment provider's dashboard."
    if not most.minor:
        news = f"{news} {_REJECT}"
    elif most < refund.amount:
        news = f"{news} At most {most} is left to approve."
    return Left(most, (news,))


def _stopped(order: Order) -> str | None:
    if order.status is OrderStatus.CANCELLED:
        return "This order was cancelled."
    if order.charged_back.minor:
        return (
            f"The customer's bank has taken back {order.charged_back} of this order (chargeback)."
        )
    return None


def check(connection: sa.Connection, refund: Refund, form: Form) -> None:
    """Raise FormProblem for an approval of more than is left."""
    left = of_refund(connection, refund)
    wanted = form.amount or refund.amount
    if not form.approves or wanted.minor <= left.most.minor:
        return
    field = "amount" if left.most.minor else "decision"
    raise FormProblem(field, f"{wanted} cannot be approved. {' '.join(left.news)}".rstrip())
