"""What a person has to see again: a refund that somebody said no to, or whose money came back after it
was paid, asked for once more in whatever shape."""

from __future__ import annotations

from collections.abc import Iterable

from mailagent.domain.order import Order
from mailagent.domain.refund import REFUSED, Refund, RefundLine, taken_units


def overlaps_refused(order: Order, lines: Iterable[RefundLine], earlier: Iterable[Refund]) -> bool:
    """Return whether `lines` cover units for which a refund was rejected, has expired or came back.

    The units of a line are alike, so the untouched ones are taken first: those that no refund holds
    and that none was refused for. Withdrawn refunds do not count, nor do those that failed before any
    money moved: nobody said no to them.
    """
    past = tuple(earlier)
    taken, refused = taken_units(past), _refused_units(order, past)
    bought = {line.line_no: line.quantity for line in order.lines}
    return any(
        line.line_no in refused
        and line.quantity + taken.get(line.line_no, 0) + refused[line.line_no]
        > bought[line.line_no]
        for line in lines
    )


def _refused_units(order: Order, earlier: Iterable[Refund]) -> dict[int, int]:
    refused: dict[int, int] = {}
    for refund in earlier:
        if refund.status in REFUSED or (refund.returned and not refund.holds_money):
            for line, item_id in zip(refund.lines, refund.item_ids, strict=True):
                for line_no in _lines_now(order, line.line_no, item_id):
                    refused[line_no] = refused.get(line_no, 0) + line.quantity
    return refused


def _lines_now(order: Order, line_no: int, item_id: str) -> list[int]:
    """Return where the line of an earlier refund stands today: the shop may have sent the order again
    with its lines in another order, as long as no refund holds any of them."""
    of_item = [line.line_no for line in order.lines if line.item_id == item_id]
    return [line_no] if line_no in of_item or not of_item else of_item
