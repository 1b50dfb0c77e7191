"""What a refund that waits may still come to: orders are cancelled, charged back, or refunded elsewhere
while a manager thinks. The page says it before the decision, and a decision above it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.store.refunds.cases import Case
from mailagent.web.approvals.decision_form import Form, FormProblem

_MEANWHILE = "Something has happened while this page was open."
_REJECT = "Nothing can be paid on it any more; please reject the request."


@dataclass(frozen=True, slots=True)
class Left:
    """The most that may be approved, and what has happened to the order since, a sentence each.
    `new_customer`: the order's address, if it is not that of the customer who asked."""

    most: Money
    news: tuple[str, ...] = ()
    cancelled: bool = False
    new_customer: str = ""


def of_case(case: Case) -> Left:
    """Return what a refund may still come to, as its case shows it. Whoever lets a decision follow has held the
    lock of its order since before the case was read."""
    refund, order = case.refund, case.order
    cancelled, moved_to = order.status is OrderStatus.CANCELLED, case.new_customer or ""
    if order.charged_back.minor:
        news = f"{_charged_back(order)} {_REJECT}"
        return Left(Money(0, order.currency), (news,), cancelled, moved_to)
    left = order.paid.minor - case.already_refunded.minor - case.on_others.minor
    most = Money(max(0, min(left, refund.amount.minor)), order.currency)
    words = _given_back(case.elsewhere, case.on_others)
    moved = [_moved(case)] if moved_to else []
    news = " ".join([*moved, *_cancelled(order, Money(max(0, left), order.currency)), *words])
    if not news:
        return Left(most)
    if not most.minor:
        news = f"{news} {_REJECT}"
    elif most < refund.amount:
        news = f"{news} At most {most} is left to approve."
    return Left(most, (news,), cancelled, moved_to)


def _moved(case: Case) -> str:
    asked_by = next(each for each in case.owners if each != case.new_customer)
    return (
        f"The order's customer is {case.new_customer} now; {asked_by} asked for this refund, and is written to."
        " Please make sure that both are the same person before you approve."
    )


def _given_back(elsewhere: Money, twice_named: Money) -> Iterator[str]:
    if elsewhere.minor:
        yield (
            f"{elsewhere} of this order was given back elsewhere, such as in the payment provider's"
            " dashboard."
        )
    if twice_named.minor:
        yield f"{twice_named} of its payments was given back on another order, which names them too."


def _cancelled(order: Order, left: Money) -> Iterator[str]:
    if order.status is OrderStatus.CANCELLED:
        yield (
            f"This order was cancelled. As far as we know, {left} of its payment was not given back."
            " The shop may have refunded it in its own system: please look there first, and approve"
            " only what it has not."
        )


def _charged_back(order: Order) -> str:
    return f"The customer's bank has taken back {order.charged_back} of this order (chargeback)."


def check(case: Case, form: Form) -> None:
    """Raise FormProblem for an approval of more than is left, or by somebody who was not told that the
    order was cancelled or has another customer. The order is locked, as in `of_case`."""
    if not form.approves:
        return
    left = of_case(case)
    wanted = form.amount or case.refund.amount
    if wanted.minor <= left.most.minor:
        unheard = left.new_customer and form.knows_customer != left.new_customer
        if unheard or (left.cancelled and not form.knows_cancelled):
            raise FormProblem("decision", f"{_MEANWHILE} {' '.join(left.news)}")
        return
    field = "amount" if left.most.minor else "decision"
    raise FormProblem(field, f"{wanted} cannot be approved. {' '.join(left.news)}".rstrip())
