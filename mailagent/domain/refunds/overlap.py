"""Which earlier refunds already cover a part of what is wanted now, or have units of the same items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund, WantedItem


def find_covering(
    order: Order, wanted: Sequence[WantedItem], refund: Refund, earlier: Iterable[Refund]
) -> tuple[Refund, ...]:
    """Return the refunds that hold what `refund` had to leave out of `wanted`, oldest first."""
    short = {want.item_id for want in wanted if _units(refund, want) < _wanted(order, want)}
    return tuple(
        each
        for each in earlier
        if each.holds_money
        and each.refund_id != refund.refund_id
        and short.intersection(each.item_ids)
    )


def find_holding(item_ids: Iterable[str], earlier: Iterable[Refund]) -> tuple[Refund, ...]:
    """Return the refunds that hold units of any of these items, oldest first.

    Units of an item are alike: whoever asks once more for one of three may mean the first one still.
    """
    wanted = frozenset(item_ids)
    return tuple(
        each for each in earlier if each.holds_money and not wanted.isdisjoint(each.item_ids)
    )


def _wanted(order: Order, want: WantedItem) -> int:
    bought = sum(line.quantity for line in order.lines if line.item_id == want.item_id)
    return bought if want.quantity is None else want.quantity


def _units(refund: Refund, want: WantedItem) -> int:
    covered = zip(refund.lines, refund.item_ids, strict=True)
    return sum(line.quantity for line, item_id in covered if item_id == want.item_id)
