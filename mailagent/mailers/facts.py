"""Reads the facts of a customer from the rows when a mail is written, and again if it is sent late.

A model may name an id that no tool showed: the fact is read for this customer only, so it is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import islice

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.conversation import Conversation
from mailagent.domain.mail.message import InboundMail, is_photo, may_be_logo
from mailagent.domain.money import Money
from mailagent.domain.orders.freshness import is_fresh_at, told_as_of
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.offer import Offer
from mailagent.domain.refunds.order import Order
from mailagent.domain.refunds.refund import Refund, RefundStatus, left_of_payments
from mailagent.domain.text import name_to_greet
from mailagent.mailers.fact import Fact, quote
from mailagent.mailers.values import (
    PARCELS_LISTED,
    Left,
    Values,
    bare,
    can_be_withdrawn,
    has_number,
    is_part_of,
    list_declined,
    list_parcels,
    list_remedies,
    list_return_periods,
    may_be_order_number,
    values_of_credit,
    values_of_offer,
    values_of_refund,
    values_of_state,
)
from mailagent.store import audit
from mailagent.store.mail import inbound
from mailagent.store.orders import lookups
from mailagent.store.refunds import goodwill, offers, orders, refunds

ORDERS_LISTED = 10
ORDERS_COMPARED = 1000
MAILS_SEARCHED = 50


@dataclass(frozen=True)
class Reader:
    """Reads the facts of one customer in one transaction, each row once. `proven`: the mails are proven to be
    theirs; without that no fact about an order can be read."""

    connection: sa.Connection
    conversation: Conversation
    mail_ids: Sequence[str]
    proven: bool
    _known: dict[str, tuple[Order, int] | None] = field(default_factory=dict)
    _offers: dict[str, tuple[Offer, Values] | None] = field(default_factory=dict)

    @property
    def conversation_id(self) -> str:
        return self.conversation.conversation_id

    def find(self, fact_id: str) -> Fact | None:
        """Return the fact of this id; None if there is none on record."""
        kind, _, subject = fact_id.strip().partition("/")
        if kind in _OF_SHOP and not subject:
            return _OF_SHOP[kind](self)
        if kind == "knowledge":
            return quote(subject)
        if not self.proven or not subject:
            return None
        if kind == "no_order":
            return self._no_order(subject)
        order = self.find_order(subject)
        values = _OF_ORDER[kind](self, order) if order and kind in _OF_ORDER else None
        if order is None or values is None:
            return None
        return Fact(kind, {"order_id": order.order_id, **values}, order.order_id)

    def find_order(self, order_id: str) -> Order | None:
        """Return an order of this customer."""
        found = self.find_order_and_elsewhere(order_id)
        return found[0] if found else None

    def find_order_and_elsewhere(self, order_id: str) -> tuple[Order, int] | None:
        """Return an order of this customer, and what was refunded of it elsewhere, in minor units."""
        if not order_id.isprintable():  # PostgreSQL refuses NUL
            return None
        if order_id not in self._known:
            found = orders.find_of_conversation(self.connection, order_id, self.conversation_id)
            self._known[order_id] = found
            if found:  # perhaps spelt otherwise
                self._known[found[0].order_id] = found
        return self._known[order_id]

    def _no_order(self, subject: str) -> Fact | None:
        """Return the fact that a number is none of the customer's orders. It must stand in their mails:
        otherwise the model could deny the order that they ask about, or name a number of its own."""
        if not may_be_order_number(subject) or self.find_order(subject):
            return None
        address, number = self.conversation.customer_email, bare(subject)
        owned = orders.list_names(self.connection, address, ORDERS_COMPARED)  # items' names, too
        bodies = [f"{mail.subject}\n{mail.body}" for mail in self._thread]
        is_known = number in map(bare, owned) or self.numbers_with(subject)
        if is_known or not has_number(bodies, number):
            return None
        here = self.connection, self.conversation_id, subject, self._mails_came_at
        if services.current().order_source and not lookups.is_absent(*here):
            return None
        named = subject if subject.replace("-", "").isalnum() else None
        return Fact("no_order", {"order_id": named})

    def numbers_with(self, part: str) -> list[str]:
        """Return the numbers of the customer's orders that this is a part of, the newest first."""
        return [each for each in self._owned if is_part_of(part, each)]

    @cached_property
    def _thread(self) -> Sequence[InboundMail]:
        return inbound.list_latest(
            self.connection, self.conversation_id, MAILS_SEARCHED, also=self.mail_ids
        )

    @cached_property
    def mails(self) -> Sequence[InboundMail]:
        """The mails that are answered."""
        return inbound.list_by_id(self.connection, self.mail_ids)

    def has_photo(self) -> bool:
        files = [file for mail in self._thread for file in mail.attachments]
        return any(is_photo(file) and not may_be_logo(file) for file in files)

    def state(self, order: Order) -> Values:
        """Return where an order stands."""
        return {**values_of_state(order), "as_of": self.as_of(order)}

    def items(self, order: Order) -> Values:
        return {"items": order.lines, "paid": order.paid, "as_of": self.as_of(order)}

    def as_of(self, order: Order) -> datetime | None:
        """Return when an order was last looked up at its source; None if it is fresh, or orders are
        imported."""
        live = services.current()
        return None if live.order_source is None else told_as_of(order, live.now())

    def list_as_of(self, listed: Sequence[Order]) -> datetime | None:
        """Return when the list of the customer's orders was last looked up; None as for `as_of`. A later
        look-up of one of them does not make the others, or the list, newer."""
        live = services.current()
        if live.order_source is None:
            return None
        oldest = min((each.seen_at or each.placed_at for each in listed), default=None)
        known = (lookups.listed_at(self.connection, self.conversation_id), oldest)
        at = max(filter(None, known), default=None)
        return None if at is None or is_fresh_at(at, live.now()) else at

    @cached_property
    def _mails_came_at(self) -> datetime:
        return inbound.last_received_at(self.connection, self.mail_ids)

    def parcels(self, order: Order) -> Values | None:
        """Return where the parcels of an order are; None if the shop told of none."""
        if not order.parcels:
            return None
        more = max(0, len(order.parcels) - PARCELS_LISTED)
        return {"parcels": list_parcels(order), "more": more, "as_of": self.as_of(order)}

    def offer(self, order: Order) -> Values | None:
        """Return the newest offer of part of the price."""
        found = self._find_offer(order)
        return found[1] if found else None

    def open_offers(self, order_ids: Sequence[str]) -> list[Offer]:
        """Return the open offers that the record of these orders tells."""
        found = filter(None, map(self._find_offer, self._of_record(order_ids)))
        return [offer for offer, values in found if values["is_open"]]

    def _find_offer(self, order: Order) -> tuple[Offer, Values] | None:
        if order.order_id not in self._offers:
            made = [each for each in self._made if each.order_id == order.order_id]
            found = (
                values_of_offer(made[-1], order, self._left(order), self.mails) if made else None
            )
            self._offers[order.order_id] = (made[-1], found) if found else None
        return self._offers[order.order_id]

    @cached_property
    def _made(self) -> Sequence[Offer]:
        """All offers made to this customer, oldest first."""
        return offers.list_of_customer(self.connection, self.conversation.customer_email)

    def return_period(self, order: Order) -> Values | None:
        """Return by when the items of an order can be returned; None before the delivery, and if none can be
        returned."""
        periods = list_return_periods(order, self._left(order))
        return {"periods": periods, "as_of": self.as_of(order)} if periods else None

    def refunds(self, order: Order) -> Values:
        """Return the state of each refund of an order, oldest first, and what was paid elsewhere. `as_of`: how
        old the knowledge of the latter is."""
        elsewhere = self._elsewhere_minor(order)
        return {
            "refunds": [
                values_of_refund(self.connection, each, order) for each in self.refunds_of(order)
            ],
            "elsewhere": Money(elsewhere, order.currency) if elsewhere else None,
            "as_of": self.as_of(order),
        }

    def refunds_of(self, order: Order) -> list[Refund]:
        """Return all refunds of an order of this customer, oldest first."""
        return [each for each in self._refunds if each.order_id == order.order_id]

    def _elsewhere_minor(self, order: Order) -> int:
        _, elsewhere = self.find_order_and_elsewhere(order.order_id) or (order, 0)
        return elsewhere

    def _left(self, order: Order) -> Left:
        known = self.refunds_of(order)
        return Left(known, left_of_payments(order, known, self._elsewhere_minor(order)))

    @cached_property
    def _refunds(self) -> Sequence[Refund]:
        return refunds.list_of_customer(self.connection, self.conversation.customer_email)

    def store_credit(self, order: Order) -> Values | None:
        """Return what the customer may choose instead of money; None if there is no choice."""
        return values_of_credit(self.connection, order, self._left(order), self.mail_ids)

    def declined(self, order: Order) -> Values | None:
        """Return what the policy declined in answer to these mails."""
        offer = self._find_offer(order)
        made = [*self.refunds_of(order), *(offer or ())[:1]]
        found = list_declined(self.connection, order, made, self.mail_ids)
        return {"declined": found} if found else None

    def not_withdrawn(self, order: Order) -> Values | None:
        """Return the status of an order's newest refund that cannot be withdrawn; None if another can."""
        known = self.refunds_of(order)
        settled = [
            each for each in known if each.status in (RefundStatus.APPROVED, RefundStatus.PAID)
        ]
        if not settled or any(can_be_withdrawn(self.connection, each) for each in known):
            return None
        return {"status": settled[-1].status.value}

    def nothing_waits(self, order: Order) -> Values | None:
        return None if self._waits(order) else {}

    def _waits(self, order: Order) -> bool:
        return any(each.status is RefundStatus.AWAITING_APPROVAL for each in self.refunds_of(order))

    @cached_property
    def goodwill_due(self) -> GoodwillCode | None:
        """The discount whose code the answer to these mails has."""
        return self._codes.find_due(services.current().now()) if self.proven else None

    @cached_property
    def _codes(self) -> goodwill.Known:
        return goodwill.load_known(self.connection, self.conversation.customer_email, self.mail_ids)

    def _unused_code(self, order: Order) -> GoodwillCode | None:
        return self._codes.find_told(order.order_id, services.current().now())

    def goodwill(self, order: Order) -> Values | None:
        """Return the discount for an order. `given_at` is None if the answer to these mails has its code."""
        due = self.goodwill_due
        if due and due.order_id == order.order_id:
            return {"percent": due.percent, "given_at": None}
        code = self._unused_code(order)
        return {"percent": code.percent, "given_at": code.issued_at} if code else None

    def remedies(self, order: Order) -> Values | None:
        """Return the state of each remedy of an order, oldest first; None if there is none to tell of."""
        found = list_remedies(self.connection, order.order_id, self.refunds_of(order))
        return {"remedies": found} if found else None

    def my_orders(self) -> Fact | None:
        """Return the newest orders of the customer. `more`: how many others are on record; None if the source
        may have others that are not."""
        if not self.proven:
            return None
        address = self.conversation.customer_email
        found, total = orders.list_of_customer(
            self.connection, address, ORDERS_LISTED, with_gone=False
        )
        listed = [
            {
                "order_id": order.order_id,
                "placed_at": order.placed_at,
                "items": [line.name for line in order.lines],
            }
            for order in found
        ]
        here = self.connection, self.conversation_id
        source, more = services.current().order_source, total - len(found)
        is_whole = source is None or lookups.is_complete(*here)
        # Only a whole and fresh list shows that they have none.
        if (source and not listed) and not (
            is_whole and lookups.are_listed(*here, self._mails_came_at)
        ):
            return None
        values = {"orders": listed, "more": more if is_whole else None}
        return Fact("my_orders", {**values, "as_of": self.list_as_of(found)})

    def not_verified(self) -> Fact | None:
        return None if self.proven else Fact("not_verified", {})

    def support_address(self) -> Fact:
        return Fact("support_address", {"address": services.current().shop.support_address})

    def record(self, order_ids: Sequence[str]) -> list[Values]:
        """Return what is on record of these orders, and of one for which these mails brought a discount."""
        return [
            {
                "order_id": each.order_id,
                "parcels": list_parcels(each),
                "offer": self.offer(each),
                "discount": self._unused_code(each),
                **self.refunds(each),
            }
            for each in self._of_record(order_ids)
        ]

    def _of_record(self, order_ids: Sequence[str]) -> list[Order]:
        given = self._codes.find_given()
        named = [*order_ids, given.order_id] if order_ids and given else order_ids
        return [each for each in map(self.find_order, dict.fromkeys(named)) if each]

    def orders_of_mails(self) -> list[str]:
        """Return the orders of the refunds that these mails asked for or withdrew, those of the offers made for
        them, and those that they name."""
        known = [each.refund_id for each in self._refunds]
        withdrawn = audit.details_of_mails(self.connection, known, audit.WITHDRAWN, self.mail_ids)
        asked = [
            each.order_id
            for each in self._refunds
            if each.mail_id in self.mail_ids or each.refund_id in withdrawn
        ]
        offered = sorted({each.order_id for each in self._made if each.mail_id in self.mail_ids})
        return [*asked, *offered, *self._orders_named()]

    def _orders_named(self) -> list[str]:
        if not self.proven:
            return []
        texts = [f"{mail.subject}\n{mail.new_text}" for mail in self.mails]
        named = [each for each in sorted(self._owned) if has_number(texts, bare(each))]
        return [each for each in named if self.find_order(each)]

    @cached_property
    def _owned(self) -> Mapping[str, str]:
        """The numbers of the customer's newest orders, and the name in each; the newest first."""
        address = self.conversation.customer_email
        return orders.list_owned(self.connection, address, ORDERS_COMPARED)

    def customer_name(self) -> str | None:
        """Return the customer's name, for the greeting; None if no order has one that can be greeted."""
        if not self.proven:
            return None
        names = islice(self._owned.values(), ORDERS_LISTED)
        return next(filter(None, map(name_to_greet, names)), None)

    def names(self) -> set[str]:
        """Return the order numbers and item names that words may repeat."""
        if not self.proven:
            return set()
        return orders.list_names(self.connection, self.conversation.customer_email, ORDERS_LISTED)


_OF_ORDER: Mapping[str, Callable[[Reader, Order], Values | None]] = {
    "order": Reader.state,
    "items": Reader.items,
    "parcels": Reader.parcels,
    "offer": Reader.offer,
    "return_period": Reader.return_period,
    "refund": Reader.refunds,
    "declined": Reader.declined,
    "not_withdrawn": Reader.not_withdrawn,
    "nothing_waits": Reader.nothing_waits,
    "goodwill": Reader.goodwill,
    "store_credit": Reader.store_credit,
    "remedy": Reader.remedies,
}
_OF_SHOP: Mapping[str, Callable[[Reader], Fact | None]] = {
    "my_orders": Reader.my_orders,
    "not_verified": Reader.not_verified,
    "support_address": Reader.support_address,
}
