"""Earlier refunds of the same items: already covered, or rejected before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import REFUSED, Refund, RefundLine, WantedItem


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


# --- refusal --------------------------------------------------------------------------------------


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
