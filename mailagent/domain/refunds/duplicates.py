"""Finds earlier refunds of the same items: those that cover them already, and those that were rejected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy import ManagerReason
from mailagent.domain.refunds.refund import REFUSED, Refund, RefundLine, RefundStatus, WantedItem


def find_covering(
    order: Order, wanted: Sequence[WantedItem], refund: Refund, earlier: Iterable[Refund]
) -> tuple[Refund, ...]:
    """Return the refunds, oldest first, that cover those of the `wanted` items that `refund` had to leave
    out."""
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
    """Return the refunds that hold units of any of these items, in the order of `earlier`.

    We cannot tell the units of an item apart: a customer who asks again for one of three may mean the first.
    """
    wanted = frozenset(item_ids)
    return tuple(
        each for each in earlier if each.holds_money and not wanted.isdisjoint(each.item_ids)
    )


def list_refusals(
    order: Order, lines: Iterable[RefundLine], earlier: Iterable[Refund]
) -> tuple[ManagerReason, ...]:
    """Return how items of `lines` were refused before: their refund was rejected, has expired, or came back
    after it was paid, or a manager left them out of an approval.

    Other units of the same item count too, because we cannot tell them apart. Withdrawn refunds, and refunds
    that failed before any money moved, do not count: no manager rejected them.
    """
    wanted, found = {line.line_no for line in lines}, dict[ManagerReason, None]()
    for refund in earlier:
        for line_no, item_id in _refused_items(refund):
            # As long as no refund holds any of the order, the shop may import it again with other line numbers.
            now = [each.line_no for each in order.lines if each.item_id == item_id]
            if not wanted.isdisjoint(now or [line_no]):
                found[_why_refused(refund)] = None
    return tuple(found)


def _why_refused(refund: Refund) -> ManagerReason:
    by_status = {
        RefundStatus.REJECTED: ManagerReason.REJECTED_BEFORE,
        RefundStatus.EXPIRED: ManagerReason.EXPIRED_BEFORE,
    }
    other = ManagerReason.CAME_BACK if _came_back(refund) else ManagerReason.LEFT_OUT
    return by_status.get(refund.status, other)


def _came_back(refund: Refund) -> bool:
    return bool(refund.returned) and not refund.holds_money


def _refused_items(refund: Refund) -> Iterator[tuple[int, str]]:
    """Yield the line number and item id of each line of a refund that was refused: see `list_refusals`."""
    all_of_it = refund.status in REFUSED or _came_back(refund)
    kept = frozenset[int]() if all_of_it else {line.line_no for line in refund.lines}
    asked = refund.whole or refund
    for line, item_id in zip(asked.lines, asked.item_ids, strict=True):
        if line.line_no not in kept:
            yield line.line_no, item_id
