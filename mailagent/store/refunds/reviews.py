"""Reviews: everything that a manager needs to decide on a refund, read from rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from mailagent.domain.money import Money
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.policy_rules import Exceeded
from mailagent.domain.refunds.refund import Refund
from mailagent.domain.remedies.remedy import Remedy
from mailagent.store import schema
from mailagent.store.refunds import external_refunds, orders, refund_payments, refunds, remedies

# So many earlier refunds are shown. The console has the others.
EARLIER_MAX = 20

_orders, _conversations, _mails = schema.orders, schema.conversations, schema.inbound_mails
_refunds = schema.refunds


@dataclass(frozen=True, slots=True)
class RefundedItem:
    name: str
    quantity: int
    amount: Money


@dataclass(frozen=True, slots=True)
class Review:
    """A refund with its order, its customer and the mail that asked for it.

    `others` are the order's other refunds, oldest first; `of_other_orders` the newest of the customer's other
    orders. `exceeded`: the limits that the policy found exceeded, by its reason.
    `asked_by` is the address of the conversation.
    `condition` is what has to be done before it is paid. `sent_since`: its items were sent again since it was
    asked for; `withdraws`: an exchange or replacement of its items waits, and an approval withdraws it.
    `elsewhere` was refunded of the order outside mailagent; `on_other_orders` was refunded of its payments,
    or is about to be, on other orders that name them as well.
    """

    refund: Refund
    order: Order
    others: tuple[Refund, ...]
    of_other_orders: tuple[Refund, ...]
    exceeded: Mapping[str, Exceeded]
    asked_by: str
    customer_since: datetime | None
    elsewhere: Money
    on_other_orders: Money
    customer_text: str
    attachments: tuple[str, ...]
    condition: Remedy | None = None
    sent_since: bool = False
    withdraws: bool = False

    @property
    def earlier(self) -> list[Refund]:
        """The newest refunds of the order and of its customer, newest first."""
        found = sorted(
            (*self.others, *self.of_other_orders), key=lambda each: each.requested_at, reverse=True
        )
        return found[:EARLIER_MAX]

    @property
    def owners(self) -> tuple[str, ...]:
        """The addresses of people who must not decide: the order's customer, the customer who asked, and the
        person of the shop who asked."""
        return _owners(self.refund, self.order.customer_email, self.asked_by)

    @property
    def new_customer(self) -> str | None:
        """The address of the order's customer if another address asked for the refund, else None."""
        mine = self.order.customer_email
        return mine if mine != self.asked_by else None

    @property
    def already_refunded(self) -> Money:
        """The sum of what other refunds of the order hold and of external refunds."""
        held = sum(other.held.minor for other in self.others)
        return Money(held + self.elsewhere.minor, self.order.currency)


def load(connection: sa.Connection, refund: Refund, order: Order | None = None) -> Review:
    """Return the review of a refund. `order` is the refund's order, if it is locked already.

    Raises LookupError if there is no such order.
    """
    order = order or orders.load(connection, refund.order_id)
    asked = connection.execute(
        sa.select(
            _conversations.c.customer_email,
            _mails.c.new_text,
            _mails.c.attachments,
            _refunds.c.policy_facts,
        )
        .join_from(_refunds, _conversations)
        .join(_mails, _mails.c.mail_id == _refunds.c.mail_id)
        .where(_refunds.c.refund_id == refund.refund_id)
    ).one()
    others = refunds.list_of_order(connection, order.order_id)
    on_other_orders = sum(
        row.amount_minor
        for row in refund_payments.list_refunded(connection, order)
        if row.order_id != order.order_id
    )
    return Review(
        refund=refund,
        order=order,
        others=tuple(other for other in others if other.refund_id != refund.refund_id),
        of_other_orders=refunds.list_newest_elsewhere(
            connection, order.customer_email, order.order_id, EARLIER_MAX
        ),
        exceeded={
            reason: Exceeded(**each)
            for reason, each in asked.policy_facts.get("exceeded", {}).items()
        },
        asked_by=asked.customer_email,
        customer_since=orders.customer_since(connection, order.customer_email),
        elsewhere=Money(
            external_refunds.given_back_minor(connection, order.order_id), order.currency
        ),
        on_other_orders=Money(on_other_orders, order.currency),
        customer_text=asked.new_text or "",
        attachments=tuple(each["name"] for each in asked.attachments or ()),
        condition=remedies.find_of_refund(connection, refund.refund_id),
        sent_since=remedies.is_sent_since(connection, refund),
        withdraws=any(each.is_open for each in remedies.list_replaced(connection, refund)),
    )


def _owners(refund: Refund, *customers: str) -> tuple[str, ...]:
    return (*customers, refund.proposed_by) if refund.proposed_by else customers


def list_owners(connection: sa.Connection, refund: Refund) -> tuple[str, ...]:
    query = (
        sa.select(_orders.c.customer_email, _conversations.c.customer_email)
        .join_from(
            _orders, _conversations, _conversations.c.conversation_id == refund.conversation_id
        )
        .where(_orders.c.order_id == refund.order_id)
    )
    order_email, conversation_email = connection.execute(query).one()
    return _owners(refund, order_email, conversation_email)


def items_of(refund: Refund, order: Order) -> tuple[RefundedItem, ...]:
    by_line = {(line.line_no, line.item_id): line.name for line in order.lines}
    by_item = order.names
    # The shop may have renumbered or removed a line since, if no refund holds it.
    return tuple(
        RefundedItem(
            by_line.get((line.line_no, item_id), by_item.get(item_id, item_id)),
            line.quantity,
            line.amount,
        )
        for line, item_id in zip(refund.lines, refund.item_ids, strict=True)
    )
