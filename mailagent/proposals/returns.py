"""Makes a refund wait for its goods, if the policy wants them back first. Callers lock the order first."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.orders.shipment import left_to_ship
from mailagent.domain.refunds.offer import units_of
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.refund import Refund
from mailagent.domain.remedies.remedy import Remedy, RemedyItem, RemedyKind, RemedyStatus
from mailagent.store import audit
from mailagent.store.ids import new_id
from mailagent.store.refunds import remedies


def await_goods(connection: sa.Connection, refund: Refund, order: Order) -> None:
    """Record that a refund waits for its goods, unless it already waits for a remedy. Also call this when a
    manager approves it, because the goods may have left the shop since it was asked for."""
    live = services.current()
    rules = live.policy.return_first
    if rules is None or refund.reason not in rules.reasons or refund.keeps_items:
        return
    if not _have_left(refund, order) or remedies.find_of_refund(connection, refund.refund_id):
        return
    names = {line.item_id: line.name for line in order.lines}
    units = zip(refund.item_ids, refund.lines, strict=True)
    remedy = Remedy(
        remedy_id=new_id("remedy"),
        kind=RemedyKind.RETURN,
        status=RemedyStatus.AWAITING_GOODS,
        order_id=refund.order_id,
        conversation_id=refund.conversation_id,
        mail_id=refund.mail_id,
        items=tuple(RemedyItem(each, names.get(each, each), line.quantity) for each, line in units),
        requested_at=live.now(),
        due_at=live.now() + timedelta(days=rules.days),  # an approval moves it to a later date
        reason=refund.reason.value,
        policy_version=refund.policy_version,
        refund_id=refund.refund_id,
        instructions=rules.instructions,
    )
    remedies.record(connection, remedy, f"return:{refund.refund_id}")
    details = {"kind": remedy.kind.value, "order_id": remedy.order_id, "mail_id": remedy.mail_id}
    audit.record(connection, live.now(), audit.POLICY, "request made", remedy.remedy_id, details)


def _have_left(refund: Refund, order: Order) -> bool:
    """Return whether all its goods may have left the shop. An order is pending until all of it was sent; a
    customer cannot send back what is still there."""
    if order.status is not OrderStatus.PENDING:
        return order.status is not OrderStatus.CANCELLED
    sent = [each for each in order.shipments if each.has_left]
    left = left_to_ship(sent, order.units)
    units = units_of(refund.item_ids, refund.lines)
    return bool(sent) and (left is None or not any(left[item_id] for item_id, _ in units))
