"""The case behind a refund, gathered from rows: what a manager has to know to decide."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.order import Order
from mailagent.domain.refund import Refund
from mailagent.store import approvals, mailbox, orders, outside, refunds, schema
from mailagent.store.approvals import Approval
from mailagent.store.database import Row

OTHERS_SHOWN_MAX = 20

_orders, _conversations = schema.orders, schema.conversations
_OWNERS = (
    sa.select(_orders.c.customer_email, _conversations.c.customer_email)
    .outerjoin(_conversations, _conversations.c.conversation_id == sa.bindparam("conversation_id"))
    .where(_orders.c.order_id == sa.bindparam("order_id"))
)


@dataclass(frozen=True, slots=True)
class RefundedItem:
    name: str
    quantity: int
    amount: Money


@dataclass(frozen=True, slots=True)
class Case:
    """A refund with its order, its customer and the mail that asked for it.

    `amount` is what was asked for, whatever was approved; `already_refunded` is what other refunds of
    the order paid or are about to, and `elsewhere`: what was given back without us.
    """

    refund: Refund
    order: Order
    customer_since: datetime | None
    amount: Money
    already_refunded: Money
    elsewhere: Money
    items: tuple[RefundedItem, ...]
    # What of the amount is for carriage; None if nothing is.
    shipping: Money | None
    # How much less was asked for than all of it comes to, because no more was left; None if nothing.
    short: Money | None
    customer_text: str
    attachments: tuple[str, ...]
    expires_at: datetime | None
    # The newest other refunds of the order, oldest first, whatever became of them.
    others: tuple[Refund, ...]


def list_owners(connection: sa.Connection, refund: Refund) -> tuple[str, ...]:
    """Return the addresses of a refund's order and of its conversation. Raises LookupError when its order is
    gone."""
    values = {"order_id": refund.order_id, "conversation_id": refund.conversation_id}
    row = connection.execute(_OWNERS, values).one_or_none()
    if row is None:
        raise LookupError(f"order {refund.order_id} does not exist")
    return tuple(address for address in row if address is not None)


def load(
    connection: sa.Connection,
    refund: Refund,
    order: Order | None = None,
    approval: Approval | None = None,
) -> Case:
    """Return the case of a refund. `order` and `approval`: its own, where somebody has just read them. Raises
    LookupError when its order is gone."""
    order = order or orders.load(connection, refund.order_id)
    mail = mailbox.find(connection, refund.mail_id)
    approval = approval or approvals.find_of_refund(connection, refund.refund_id)
    held = orders.held_minor(connection, order.order_id)
    elsewhere = outside.given_back_minor(connection, order.order_id)
    return Case(
        refund=refund,
        order=order,
        customer_since=orders.customer_since(connection, order.customer_email),
        amount=refund.asked,
        already_refunded=Money(held - refund.held.minor + elsewhere, order.currency),
        elsewhere=Money(elsewhere, order.currency),
        items=items_of(refund, order),
        shipping=shipping_of(refund),
        short=Money(refund.short_minor, refund.amount.currency) if refund.short_minor else None,
        customer_text=mail.new_text if mail else "",
        attachments=tuple(each.name for each in mail.attachments) if mail else (),
        expires_at=approval.expires_at if approval else None,
        others=tuple(
            each
            for each in refunds.list_of_order(connection, order.order_id)
            if each.refund_id != refund.refund_id
        )[-OTHERS_SHOWN_MAX:],
    )


def shipping_of(refund: Refund) -> Money | None:
    """Return what of a refund is for carriage, or None if nothing is."""
    minor = refund.shipping_minor
    return Money(minor, refund.amount.currency) if minor else None


def describe_payments(connection: sa.Connection, refund: Refund) -> str:
    """Say of each payment of a refund what became of it, for whoever has to see to the rest."""
    rows = refunds.list_payments(connection, refund.refund_id)
    return "; ".join(
        _describe(row, Money(row.amount_minor, refund.amount.currency)) for row in rows
    )


def _describe(row: Row, amount: Money) -> str:
    if row.state == "done" and row.returned_at:
        why = row.problem or "no reason given"
        return f"{amount} was NOT given back to payment {row.payment_id}: {row.reference} came back ({why})"
    if row.state == "done":
        return f"{amount} was given back to payment {row.payment_id} ({row.reference})"
    return f"{amount} was NOT given back to payment {row.payment_id} ({row.problem or row.state})"


def items_of(refund: Refund, order: Order) -> tuple[RefundedItem, ...]:
    """Return what a refund covers, by the names on the order."""
    names = {(line.line_no, line.item_id): line.name for line in order.lines}
    of_items = {line.item_id: line.name for line in order.lines}
    # The shop may have moved a line or taken it off the order since, if no refund holds it.
    return tuple(
        RefundedItem(
            names.get((line.line_no, item_id), of_items.get(item_id, item_id)),
            line.quantity,
            line.amount,
        )
        for line, item_id in zip(refund.lines, refund.item_ids, strict=True)
    )
