"""Makes a refund wait for its goods, if the policy wants them back first. Callers lock the order first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.deadline import end_of_day
from mailagent.domain.orders.shipment import left_to_ship
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.refund import Refund
from mailagent.domain.remedies.remedy import (
    Remedy,
    RemedyItem,
    RemedyKind,
    RemedyStatus,
    name_items,
)
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.refunds import refunds, remedies


def await_goods(connection: sa.Connection, refund: Refund, order: Order) -> None:
    """Record that a refund waits for its goods, unless it already waits for a remedy. Also call this when a
    manager approves it, because the goods may have left the shop since it was asked for."""
    live = services.current()
    rules = live.policy.return_first
    if rules is None or not _needs_goods(refund):
        return
    items = list_due(connection, refund, order)
    if not items or not _have_left(items, order):
        return
    if remedies.find_of_refund(connection, refund.refund_id):
        return
    remedy = Remedy(
        remedy_id=new_id("remedy"),
        kind=RemedyKind.RETURN,
        status=RemedyStatus.AWAITING_GOODS,
        order_id=refund.order_id,
        conversation_id=refund.conversation_id,
        mail_id=refund.mail_id,
        items=items,
        requested_at=live.now(),
        # An approval moves it to a later date.
        due_at=end_of_day(live.now() + timedelta(days=rules.days)),
        reason=refund.reason.value,
        policy_version=refund.policy_version,
        refund_id=refund.refund_id,
        instructions=rules.instructions,
    )
    remedies.record(connection, remedy, f"return:{refund.refund_id}")
    details = {"kind": remedy.kind.value, "order_id": remedy.order_id, "mail_id": remedy.mail_id}
    audit.record(connection, live.now(), audit.POLICY, "request made", remedy.remedy_id, details)


def list_due(connection: sa.Connection, refund: Refund, order: Order) -> tuple[RemedyItem, ...]:
    """Return the units that have to come back for a refund. Leave out units that are back already: for an
    earlier refund that this one is the rest of, or for one that was not paid in the end."""
    known = remedies.list_of_order(connection, refund.order_id)
    made = refunds.list_of_order(connection, refund.order_id)
    cancelled = {each.refund_id for each in known if each.kind is RemedyKind.CANCEL}
    # Their goods pay for no other refund, even if the policy has changed since.
    returned = {each.refund_id for each in known if each.kind is RemedyKind.RETURN}
    others, back, back_for_rest = Counter[str](), Counter[str](), Counter[str]()
    for other in made:
        is_other = other.refund_id not in {refund.refund_id, *cancelled} and other.holds_money
        if is_other and (other.refund_id in returned or _needs_goods(other)):
            others += _units(other, is_rest=False)
    in_full = {each.refund_id: _items_in_full(each) for each in made if each.holds_money}
    for each in known:
        if each.kind is RemedyKind.RETURN and each.status is RemedyStatus.DONE:
            back += each.units
            # Units whose whole price is refunded have no rest: `refund` is the rest of other ones.
            without_rest = in_full.get(each.refund_id or "", ())
            back_for_rest.update({i: n for i, n in each.units.items() if i not in without_rest})
    due = _units(refund, is_rest=True) - back_for_rest
    due += _units(refund, is_rest=False) - (back - others)
    return name_items(due, order.names)


def _items_in_full(refund: Refund) -> set[str]:
    """Return the items of a refund whose price no manager lowered."""
    cut = {line_no for line_no, minor in refund.cuts.items() if minor}
    lines = [*zip(refund.item_ids, refund.lines, strict=True)]
    return {item for item, _ in lines} - {item for item, line in lines if line.line_no in cut}


def _needs_goods(refund: Refund) -> bool:
    rules = services.current().policy.return_first
    return not refund.keeps_items and (rules is None or refund.reason in rules.reasons)


def _units(refund: Refund, *, is_rest: bool) -> Counter[str]:
    units = Counter[str]()
    for item_id, line in zip(refund.item_ids, refund.lines, strict=True):
        units[item_id] += line.quantity if line.is_rest is is_rest else 0
    return units


def _have_left(items: Sequence[RemedyItem], order: Order) -> bool:
    """Return whether all these items may have left the shop. An order is pending until all of it was sent; a
    customer cannot send back what is still there."""
    if order.status is not OrderStatus.PENDING:
        return order.status is not OrderStatus.CANCELLED
    sent = [each for each in order.shipments if each.has_left]
    left = left_to_ship(sent, order.units)
    return bool(sent) and (left is None or not any(left[each.item_id] for each in items))
