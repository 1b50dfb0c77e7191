"""The facts that a reply to one customer may state, gathered from that customer's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from mailagent.domain.money import Money
from mailagent.domain.order import Order
from mailagent.domain.policy import Policy, return_by
from mailagent.domain.refund import Refund, RefundStatus


@dataclass(frozen=True, slots=True)
class RefundFact:
    """What may be said of one refund. `amounts`: the whole and its parts. `by_person`: who decided."""

    order_id: str
    status: RefundStatus
    total: Money
    amounts: frozenset[Money]
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class ReplyFacts:
    """`addresses` are the mail addresses that may be named; `public_url` is the base of our links."""

    amounts: frozenset[Money]
    order_ids: frozenset[str]
    item_ids: frozenset[str]
    item_names: frozenset[str]
    dates: frozenset[date]
    refunds: tuple[RefundFact, ...]
    addresses: frozenset[str]
    public_url: str


def gather_facts(
    orders: Sequence[Order],
    refunds: Sequence[Refund],
    policy: Policy,
    mailed_at: Iterable[datetime],
    support_address: str,
    public_url: str,
) -> ReplyFacts:
    """Return the facts of a proven customer's `orders` and their `refunds`.

    For a sender who is not proven, give no orders: then nothing may be said about any.
    `mailed_at` are the times of the conversation's mails ("your mail of 20 November").
    """
    moments = [*mailed_at, *_order_moments(orders, policy), *_refund_moments(refunds)]
    return ReplyFacts(
        amounts=frozenset([*_order_amounts(orders, refunds), *_refund_amounts(refunds)]),
        order_ids=frozenset(order.order_id for order in orders),
        item_ids=frozenset(line.item_id for order in orders for line in order.lines),
        item_names=frozenset(line.name for order in orders for line in order.lines),
        dates=frozenset(moment.date() for moment in moments),
        refunds=tuple(_fact(refund) for refund in refunds),
        addresses=frozenset([support_address.lower()]),
        public_url=public_url,
    )


def _fact(refund: Refund) -> RefundFact:
    parts = frozenset([refund.amount, *(line.amount for line in refund.lines)])
    # People decide under their mail address; the policy and the clock have none.
    by_person = "@" in (refund.decided_by or "")
    return RefundFact(refund.order_id, refund.status, refund.amount, parts, by_person)


def _order_amounts(orders: Sequence[Order], refunds: Sequence[Refund]) -> Iterator[Money]:
    held: dict[str, int] = {}
    for refund in refunds:
        held[refund.order_id] = held.get(refund.order_id, 0) + refund.held.minor
    for order in orders:
        given = Money(held.get(order.order_id, 0), order.currency)
        yield from (order.paid, given, order.paid - given)
        yield from (payment.amount for payment in order.payments)
        for line in order.lines:
            yield line.unit_price
            yield Money(line.unit_price.minor * line.quantity, order.currency)
        yield Money(
            sum(line.unit_price.minor * line.quantity for line in order.lines), order.currency
        )


def _refund_amounts(refunds: Sequence[Refund]) -> Iterator[Money]:
    for refund in refunds:
        yield refund.amount
        yield from (line.amount for line in refund.lines)


def _order_moments(orders: Sequence[Order], policy: Policy) -> Iterator[datetime]:
    for order in orders:
        yield order.placed_at
        if order.delivered_at:
            yield from (order.delivered_at, return_by(order.delivered_at, policy))


def _refund_moments(refunds: Sequence[Refund]) -> Iterator[datetime]:
    for refund in refunds:
        moments = (refund.requested_at, refund.decided_at, refund.paid_at)
        yield from (moment for moment in moments if moment)
