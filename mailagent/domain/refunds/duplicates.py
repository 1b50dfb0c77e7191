"""Earlier refunds of the same items: already covered, or rejected before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import REFUSED, Refund, RefundLine, WantedItem


def find_covering(
    order: Order, wanted: Sequence[WantedItem], refund: Refund, earlier: Iterable[Refund]
) -> tuple[Refund, ...]:
    """Return the refunds that cover what `refund` had to leave out of `wanted`, oldest first."""
    missing = set()
    for want in wanted:
        bought = sum(line.quantity for line in order.lines if line.item_id == want.item_id)
        covered = sum(
            line.quantity
            for line, item_id in zip(refund.lines, refund.item_ids, strict=True)
            if item_id == want.item_id
        )
        if covered < (bought if want.quantity is None else want.quantity):
            missing.add(want.item_id)
    others = (each for each in earlier if each.refund_id != refund.refund_id)
    return find_holding(missing, others)


def find_holding(item_ids: Iterable[str], earlier: Iterable[Refund]) -> tuple[Refund, ...]:
    """Return the refunds that hold units of any of these items, oldest first.

    The units of an item are alike: a customer who asks again for one of three may still mean the first.
    """
    wanted = frozenset(item_ids)
    return tuple(
        each for each in earlier if each.holds_money and not wanted.isdisjoint(each.item_ids)
    )


def overlaps_refused(order: Order, lines: Iterable[RefundLine], earlier: Iterable[Refund]) -> bool:
    """Return whether `lines` have an item for which a refund was rejected, has expired or came back, or that a
    manager left out of one.

    Other units of the item count too, because the units are alike. Withdrawn refunds do not count, nor do
    those that failed before any money moved: no manager rejected them.
    """
    refused: set[int] = set()
    for line_no, item_id in (each for refund in earlier for each in _refused_items(refund)):
        # The shop may have sent the order again with its lines in another order, or with the item under
        # another name, as long as no refund holds any of it.
        now = [each.line_no for each in order.lines if each.item_id == item_id]
        refused.update(now or [line_no])
    return any(line.line_no in refused for line in lines)


def _refused_items(refund: Refund) -> Iterator[tuple[int, str]]:
    """Give the lines that people have refused, each with its item."""
    all_of_it = refund.status in REFUSED or (refund.returned and not refund.holds_money)
    kept = frozenset[int]() if all_of_it else {line.line_no for line in refund.lines}
    asked = refund.whole or refund
    for line, item_id in zip(asked.lines, asked.item_ids, strict=True):
        if line.line_no not in kept:
            yield line.line_no, item_id
