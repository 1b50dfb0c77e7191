"""Store credit: a refund that the customer chose to get as credit at the shop, with the policy's bonus on top.

The bonus is a gift of the shop. It does not count for limits, approvals and the balance of the payments.
"""

from __future__ import annotations

from collections.abc import Sequence

from mailagent.domain.money import Money
from mailagent.domain.refunds.refund import Refund


def with_bonus(amount: Money, percent: int) -> Money:
    """Return an amount plus `percent` of it; the bonus is rounded down."""
    return Money(amount.minor + amount.minor * percent // 100, amount.currency)


def credit_of(refund: Refund) -> Money | None:
    """Return what a customer gets as store credit; None for a refund in money."""
    return None if refund.credit_bonus is None else with_bonus(refund.amount, refund.credit_bonus)


def share_credit(refund: Refund, parts: Sequence[int]) -> list[Money | None]:
    """Return the store credit for each part of a refund; None for each if it is paid in money. `parts`: shares
    of the refund's amount in minor units, one for each refund payment. No rounding is lost: the credits add up
    to `credit_of` the refund."""
    if refund.credit_bonus is None:
        return [None] * len(parts)
    shares: list[Money | None] = []
    before, currency = Money(0, refund.amount.currency), refund.amount.currency
    given = before
    for minor in parts:
        before = Money(before.minor + minor, currency)
        upto = with_bonus(before, refund.credit_bonus)
        shares.append(upto - given)
        given = upto
    return shares
