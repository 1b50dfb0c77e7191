"""The case behind a refund, gathered from rows: what a manager has to know to decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund
from mailagent.store import schema
from mailagent.store.database import Row
from mailagent.store.refunds import orders, refund_payments, refunds

OTHERS_SHOWN_MAX = 20

_orders, _conversations, _mails = schema.orders, schema.conversations, schema.inbound_mails
_OWNERS = (
    sa.select(_orders.c.customer_email, _conversations.c.customer_email)
    .outerjoin(_conversations, _conversations.c.conversation_id == sa.bindparam("conversation_id"))
    .where(_orders.c.order_id == sa.bindparam("order_id"))
)
_earlier = _orders.alias("earlier")
# All that there is a single row of.
_CASE = (
    sa.select(
        _orders,
        orders.REFUNDED_ELSEWHERE.label("elsewhere_minor"),
        sa.select(sa.func.min(_earlier.c.placed_at))
        .where(_earlier.c.customer_email == _orders.c.customer_email)
        .scalar_subquery()
        .label("customer_since"),
        _conversations.c.customer_email.label("asked_by"),
        _mails.c.new_text,
        _mails.c.attachments,
    )
    .select_from(_orders)
    .outerjoin(_conversations, _conversations.c.conversation_id == sa.bindparam("conversation_id"))
    .outerjoin(_mails, _mails.c.mail_id == sa.bindparam("mail_id"))
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
    the order paid or are about to, and `elsewhere`: what was given back without us. `on_others`: what its
    payments gave back, or are about to, on other orders that name them, too. `owners`: the addresses of the
    order and of the conversation.
    """

    refund: Refund
    order: Order
    owners: tuple[str, ...]
    customer_since: datetime | None
    amount: Money
    already_refunded: Money
    elsewhere: Money
    on_others: Money
    items: tuple[RefundedItem, ...]
    # What of the amount is for carriage; None if nothing is.
    shipping: Money | None
    # How much less was asked for than all of it comes to, because no more was left; None if nothing.
    short: Money | None
    customer_text: str
    attachments: tuple[str, ...]
    # The newest other refunds of the order, oldest first, whatever became of them; see `with_others`.
    others: tuple[Refund, ...] = ()

    @property
    def new_customer(self) -> str | None:
        """The order's address, if it is another than that of the customer who asked; else None."""
        mine = self.order.customer_email
        return mine if any(each != mine for each in self.owners) else None


def list_owners(connection: sa.Connection, refund: Refund) -> tuple[str, ...]:
    """Return the addresses of a refund's order and of its conversation. Raises LookupError when its order is
    gone."""
    values = {"order_id": refund.order_id, "conversation_id": refund.conversation_id}
    row = connection.execute(_OWNERS, values).one_or_none()
    if row is None:
        raise LookupError(f"order {refund.order_id} does not exist")
    return tuple(address for address in row if address is not None)


def load(connection: sa.Connection, refund: Refund, order: Order | None = None) -> Case:
    """Return the case of a refund, without the order's other refunds. `order`: its own, where somebody holds
    its lock. Raises LookupError when its order is gone."""
    values = {
        "order_id": refund.order_id,
        "conversation_id": refund.conversation_id,
        "mail_id": refund.mail_id,
    }
    row = connection.execute(_CASE, values).one_or_none()
    if row is None:
        raise LookupError(f"order {refund.order_id} does not exist")
    if order is None:
        [order] = orders.with_parts(connection, [row])
    elsewhere = int(row.elsewhere_minor)
    on_others = sum(
        each.amount_minor
        for each in refund_payments.list_refunded(connection, order)
        if each.order_id != order.order_id
    )
    return Case(
        refund=refund,
        order=order,
        owners=tuple(each for each in (row.customer_email, row.asked_by) if each is not None),
        customer_since=row.customer_since,
        amount=refund.asked,
        already_refunded=Money(row.held_minor - refund.held.minor + elsewhere, order.currency),
        elsewhere=Money(elsewhere, order.currency),
        on_others=Money(on_others, order.currency),
        items=items_of(refund, order),
        shipping=shipping_of(refund),
        short=Money(refund.short_minor, refund.amount.currency) if refund.short_minor else None,
        customer_text=row.new_text or "",
        attachments=tuple(each["name"] for each in row.attachments or ()),
    )


def with_others(connection: sa.Connection, case: Case) -> Case:
    """Return a case with its refund as it is by now, and with the order's newest other refunds."""
    return _among(case, refunds.list_of_order(connection, case.order.order_id))


def _among(case: Case, of_order: Sequence[Refund]) -> Case:
    (refund,) = (each for each in of_order if each.refund_id == case.refund.refund_id)
    others = tuple(each for each in of_order if each.refund_id != refund.refund_id)
    return replace(case, refund=refund, others=others[-OTHERS_SHOWN_MAX:])


def load_among(connection: sa.Connection, refund_id: str) -> Case:
    """Return the case of a refund with its order's newest other refunds, as they are now. Raises LookupError
    when there is no such refund."""
    of_order = refunds.list_beside(connection, refund_id)
    refund = next((each for each in of_order if each.refund_id == refund_id), None)
    if refund is None:
        raise LookupError(f"refund {refund_id} does not exist")
    return _among(load(connection, refund), of_order)


def shipping_of(refund: Refund) -> Money | None:
    """Return what of a refund is for carriage, or None if nothing is."""
    minor = refund.shipping_minor
    return Money(minor, refund.amount.currency) if minor else None


def describe_payments(connection: sa.Connection, refund: Refund) -> str:
    """Say of each payment of a refund what became of it, for whoever has to see to the rest."""
    rows = refund_payments.list_payments(connection, refund.refund_id)
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
