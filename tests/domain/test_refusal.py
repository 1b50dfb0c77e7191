"""What was refused before is known again: the same units, whatever they are asked for together with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mailagent.domain.refunds.duplicates import overlaps_refused
from mailagent.domain.refunds.refund import Refund, RefundLine, RefundStatus
from tests.domain.table_ware import EXPIRED, MUGS, PAID, POT, REJECTED, asked, table_ware, usd


def came_back(*units: tuple[int, int], left: int = 0) -> Refund:
    """A refund that was paid and came back, but for what is `left` of it."""
    failed = asked(*units, status=RefundStatus.FAILED)
    return replace(failed, returned=usd(1), part_paid=usd(left) if left else None)


@pytest.mark.parametrize(
    ("past", "units", "overlaps"),
    [
        pytest.param([], [(1, 3)], False, id="nothing was asked before"),
        pytest.param([asked((1, 3))], [(2, 1)], False, id="another line was refused"),
        pytest.param([asked((2, 1))], [(2, 1)], True, id="the same was refused"),
        pytest.param([asked((1, 3), (2, 1))], [(2, 1)], True, id="a part of it"),
        pytest.param([asked((2, 1))], [(1, 3), (2, 1)], True, id="more than it"),
        pytest.param([came_back((2, 1))], [(2, 1)], True, id="the money came back"),
        pytest.param([came_back((2, 1))], [(1, 1)], False, id="that of another line"),
        pytest.param([came_back((1, 1), left=1)], [(1, 1)], False, id="a part of it did not"),
        pytest.param([asked((1, 3))], [(3, 3)], True, id="the item's other line"),
        pytest.param([asked((1, 2))], [(1, 1)], True, id="one that nobody asked for"),
        pytest.param([asked((1, 1))], [(1, 2)], True, id="more of it than was refused"),
        pytest.param(
            [asked((1, 1)), asked((1, 1), status=PAID)], [(1, 1)], True, id="paid and refused"
        ),
        pytest.param([asked((1, 1), status=PAID)], [(1, 1)], False, id="one was paid"),
        *(
            pytest.param([asked((2, 1), status=status)], [(2, 1)], status in (REJECTED, EXPIRED),
                         id=f"it is {status}")
            for status in RefundStatus
        ),
    ],
)  # fmt: skip
def test_units_that_were_refused_are_known_again(
    past: list[Refund], units: list[tuple[int, int]], overlaps: bool
) -> None:
    lines = [RefundLine(line_no, quantity, usd(1)) for line_no, quantity in units]
    assert overlaps_refused(table_ware(), lines, past) is overlaps


def test_a_refused_item_is_known_again_where_the_shop_has_moved_its_line() -> None:
    moved = table_ware(items=(POT, MUGS))
    pot, mug = RefundLine(1, 1, usd(25_00)), RefundLine(2, 1, usd(10_00))
    assert overlaps_refused(moved, [pot], [asked((2, 1))])
    assert not overlaps_refused(moved, [mug], [asked((2, 1))])
