"""What a person has to see again: a refund that somebody said no to, or whose money came back after it
was paid, asked for once more in whatever shape."""

from __future__ import annotations

from collections.abc import Iterable

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import REFUSED, Refund, RefundLine


def overlaps_refused(order: Order, lines: Iterable[RefundLine], earlier: Iterable[Refund]) -> bool:
    """Return whether `lines` have an item for which a refund was rejected, has expired or came back.

    Also where the line has units that no refund was for: they are alike, so nobody can tell whether
    these are the ones that somebody said no to. Withdrawn refunds do not count, nor do those that
    failed before any money moved: nobody said no to them.
    """
    refused = _refused_lines(order, earlier)
    return any(line.line_no in refused for line in lines)


def _refused_lines(order: Order, earlier: Iterable[Refund]) -> set[int]:
    refused: set[int] = set()
    for refund in earlier:
        if refund.status in REFUSED or (refund.returned and not refund.holds_money):
            for line, item_id in zip(refund.lines, refund.item_ids, strict=True):
                refused.update(_lines_now(order, line.line_no, item_id))
    return refused


def _lines_now(order: Order, line_no: int, item_id: str) -> list[int]:
    """Return all lines of an earlier refund's item today: the shop may have sent the order again with
    its lines in another order, or the item under another name, as long as no refund holds any of it."""
    return [line.line_no for line in order.lines if line.item_id == item_id] or [line_no]
