"""Part of a price: rounded down, shared out to the last minor unit, and never more than the lines are worth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.domain.money import Money
from mailagent.domain.refunds.offer import part_of, share_out, worth_of
from mailagent.domain.refunds.refund import RefundLine


def lines_of(*worth: int) -> list[RefundLine]:
    return [RefundLine(number, 1, Money(each, "USD")) for number, each in enumerate(worth, start=1)]


def test_a_part_is_what_a_card_can_get_back() -> None:
    assert part_of(Money(1_230, "KWD"), 33) == Money(400, "KWD")
    assert part_of(Money(1_234, "KWD"), 50) == Money(617, "KWD")  # not paid by card


@pytest.mark.parametrize(
    ("minor", "percent", "part"), [(100, 30, 30), (49_99, 30, 14_99), (3, 33, 0), (1, 99, 0)]
)
def test_a_part_is_rounded_down(minor: int, percent: int, part: int) -> None:
    assert part_of(Money(minor, "USD"), percent) == Money(part, "USD")


@given(st.lists(st.integers(0, 9_999), min_size=1, max_size=6), st.integers(1, 99))
def test_the_shares_come_to_the_amount_and_none_exceeds_its_line(
    worth: list[int], percent: int
) -> None:
    lines = lines_of(*worth)
    amount = part_of(worth_of(lines, "USD"), percent)
    if not amount.minor:
        return
    shared = share_out(lines, amount)
    assert worth_of(shared, "USD") == amount
    assert all(
        0 <= part.amount.minor <= line.amount.minor
        for part, line in zip(shared, lines, strict=True)
    )


@pytest.mark.parametrize("amount", [0, 101, -1])
def test_more_than_the_lines_are_worth_is_no_part_of_them(amount: int) -> None:
    with pytest.raises(ValueError, match="no part"):
        share_out(lines_of(50, 50), Money(amount, "USD"))
