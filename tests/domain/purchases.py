"""Hypothesis strategy for what a customer bought."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order, OrderLine, Payment
from tests.cast import order


@st.composite
def purchases(draw: st.DrawFn) -> Order:
    """An order with discounts, carriage, tax on top or included, paid wholly, in part, too much or not
    at all, by one to three payments, in a currency with 0, 2 or 3 decimals."""
    currency = draw(st.sampled_from(["JPY", "USD", "KWD"]))
    lines = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        quantity = draw(st.integers(1, 4))
        price = draw(st.one_of(st.integers(0, 9), st.integers(0, 3_000)))
        off = draw(st.one_of(st.just(0), st.integers(0, quantity * price)))
        # Of three items: the same may stand on two lines.
        item = f"i{number % 3}"
        lines.append(OrderLine(number, item, "thing", quantity, Money(price, currency), off))
    goods = sum(line.net_minor for line in lines)
    discount = draw(st.one_of(st.just(0), st.integers(0, goods)))
    shipping, tax = draw(st.integers(0, 900)), draw(st.one_of(st.just(0), st.integers(0, 2_000)))
    total = goods - discount + shipping + tax
    paid = draw(st.one_of(st.just(total), st.integers(0, total + 500)))
    cuts = sorted(draw(st.lists(st.integers(0, paid), max_size=2)))
    amounts = [end - start for start, end in zip([0, *cuts], [*cuts, paid], strict=True)]
    payments = tuple(
        Payment(f"p{number}", "card", Money(amount, currency))
        for number, amount in enumerate(amounts)
    )
    return replace(
        order(),
        currency=currency,
        lines=tuple(lines),
        payments=payments,
        discount_minor=discount,
        shipping_minor=shipping,
        tax_minor=tax,
    )
