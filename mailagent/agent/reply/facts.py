"""The facts that a reply to one customer may state, gathered from that customer's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from mailagent.agent.reply.order_amounts import list_amounts
from mailagent.domain.money import Money
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import Policy, return_by
from mailagent.domain.refunds.refund import Refund, RefundStatus

_DATES_COMPARED = 8


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
    """`addresses` are the mail addresses that may be named; `public_url` is the base of our links;
    `discounts` are those that the customer was given and can still use, in percent; `days` are the
    return windows, `days_between` what lies between dates."""

    amounts: frozenset[Money]
    order_ids: frozenset[str]
    item_ids: frozenset[str]
    item_names: frozenset[str]
    dates: frozenset[date]
    refunds: tuple[RefundFact, ...]
    addresses: frozenset[str]
    public_url: str
    discounts: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    days_between: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Given:
    """What a customer got beside our refunds: discounts that can still be used, and what was given back
    without us, by order, in minor units."""

    goodwill: tuple[GoodwillCode, ...] = ()
    elsewhere: Mapping[str, int] = field(default_factory=dict)


NOTHING_GIVEN = Given()


def gather_facts(
    orders: Sequence[Order],
    refunds: Sequence[Refund],
    policy: Policy,
    mailed_at: Iterable[datetime],
    support_address: str,
    public_url: str,
    given: Given = NOTHING_GIVEN,
) -> ReplyFacts:
    """Return the facts of a proven customer's `orders` and their `refunds`.

    For a sender who is not proven, give no orders: then nothing may be said about any.
    `mailed_at` are the times of the conversation's mails ("your mail of 20 November").
    """
    moments = [*mailed_at, *_order_moments(orders, policy), *_refund_moments(refunds)]
    moments += [moment for each in given.goodwill for moment in (each.issued_at, each.expires_at)]
    dates = frozenset(moment.date() for moment in moments)
    return ReplyFacts(
        amounts=frozenset(
            [
                *_order_amounts(orders, refunds, given.elsewhere),
                *_left_amounts(orders, refunds, policy, given.elsewhere),
                *_refund_amounts(refunds),
            ]
        ),
        order_ids=frozenset(order.order_id for order in orders),
        item_ids=frozenset(line.item_id for order in orders for line in order.lines),
        item_names=frozenset(line.name for order in orders for line in order.lines),
        dates=dates,
        refunds=tuple(_fact(refund) for refund in refunds),
        addresses=frozenset([support_address.lower()]),
        public_url=public_url,
        discounts=frozenset(each.percent for each in given.goodwill),
        days=frozenset(_windows(orders, policy)),
        days_between=frozenset(_days_between(dates)),
    )


def _windows(orders: Sequence[Order], policy: Policy) -> Iterator[int]:
    yield policy.window_days()
    for order in orders:
        yield from (policy.window_days([line.category]) for line in order.lines)


def _days_between(dates: Iterable[date]) -> Iterator[int]:
    """Yield how far apart dates on record are: "two days later", "16 days are left"."""
    # Of a customer with hundreds of orders any number would be on record.
    latest = sorted(dates)[-_DATES_COMPARED:]
    yield from ((late - early).days for late in latest for early in latest if early < late)


def _fact(refund: Refund) -> RefundFact:
    parts = frozenset(_parts(refund))
    # People decide under their mail address; the policy and the clock have none.
    by_person = "@" in (refund.decided_by or "")
    return RefundFact(refund.order_id, refund.status, refund.amount, parts, by_person)


def _parts(refund: Refund) -> Iterator[Money]:
    yield refund.amount
    yield from (line.amount for line in refund.lines)
    if refund.shipping_minor:
        yield Money(refund.shipping_minor, refund.amount.currency)


def _left_amounts(
    orders: Sequence[Order],
    refunds: Sequence[Refund],
    policy: Policy,
    elsewhere: Mapping[str, int],
) -> Iterator[Money]:
    for order in orders:
        earlier = [refund for refund in refunds if refund.order_id == order.order_id]
        yield from list_amounts(order, earlier, policy, elsewhere.get(order.order_id, 0))


def _order_amounts(
    orders: Sequence[Order], refunds: Sequence[Refund], elsewhere: Mapping[str, int]
) -> Iterator[Money]:
    held = dict(elsewhere)
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
        yield from _parts(refund)


def _order_moments(orders: Sequence[Order], policy: Policy) -> Iterator[datetime]:
    for order in orders:
        yield order.placed_at
        if order.delivered_at:
            yield from (order.delivered_at, return_by(order.delivered_at, policy))
            for line in order.lines:
                yield return_by(order.delivered_at, policy, [line.category])


def _refund_moments(refunds: Sequence[Refund]) -> Iterator[datetime]:
    for refund in refunds:
        moments = (refund.requested_at, refund.decided_at, refund.paid_at)
        yield from (moment for moment in moments if moment)
