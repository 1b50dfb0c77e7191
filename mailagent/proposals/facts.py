"""Reads from rows the facts by which the policy decides on a refund. It writes and decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.message import Attachment, Identity, is_photo, may_be_logo
from mailagent.domain.money import Money, read_money
from mailagent.domain.orders.shipment import Packed, Shipment, ShipmentStatus, find_parcels
from mailagent.domain.refunds.duplicates import find_holding, list_refusals
from mailagent.domain.refunds.order import Order, OrderLine, OrderStatus
from mailagent.domain.refunds.policy import ManagerReason, needs_two
from mailagent.domain.refunds.policy_rules import Granted, LineFacts, RefundFacts
from mailagent.domain.refunds.refund import (
    Refund,
    RefundLine,
    RefundReason,
    WantedItem,
    price_lines,
    price_shipping,
)
from mailagent.domain.remedies.remedy import Remedy, count_units, price_units
from mailagent.store import audit
from mailagent.store.database import Row
from mailagent.store.mail import inbound
from mailagent.store.refunds import external_refunds, offers, orders, policies, refunds, remedies

# We look for photos only in the last so many mails: an older photo does not show what the customer asks for
# now.
MAILS_WITH_PHOTOS_MAX = 50
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """The refund that is asked for: units of an order, their worth, and the share of the shipping costs.
    `cancels`: they are cancelled first. `refused_before`: see `list_refusals_now`. `asked_at`: when the
    customer's mail came; None: they ask now. `price`: the worth of the whole, if part of it is offered."""

    order: Order
    lines: tuple[RefundLine, ...]
    shipping: Money
    reason: RefundReason
    earlier: Sequence[Refund]
    cancels: bool = False
    refused_before: tuple[ManagerReason, ...] = ()
    asked_at: datetime | None = None
    price: Money | None = None

    @property
    def order_lines(self) -> list[OrderLine]:
        """The line of the order for each line."""
        by_number = {line.line_no: line for line in self.order.lines}
        return [by_number[line.line_no] for line in self.lines]

    @property
    def item_ids(self) -> tuple[str, ...]:
        """The item of each line."""
        return tuple(line.item_id for line in self.order_lines)

    @property
    def units(self) -> Counter[str]:
        """How many units of each item."""
        return count_units(self.order, self.lines)

    @property
    def worth(self) -> Money:
        return Money(
            sum(line.amount.minor for line in self.lines) + self.shipping.minor, self.order.currency
        )


def shipping_of(order: Order, lines: Sequence[RefundLine], earlier: Sequence[Refund]) -> Money:
    """Return how much of the shipping costs is refunded with these lines; zero if the policy does not refund
    it."""
    if not services.current().policy.refund_shipping:
        return Money(0, order.currency)
    return price_shipping(order, lines, earlier)


def without(asked: Asked, wanted: Sequence[WantedItem], waiting: Refund) -> Asked:
    """Return what is asked for as if a refund that waits were withdrawn."""
    earlier = [each for each in asked.earlier if each.refund_id != waiting.refund_id]
    lines = [line for line in price_lines(asked.order, wanted, earlier) if not line.is_rest]
    return replace(asked, lines=tuple(lines), earlier=earlier)


def list_refusals_now(
    connection: sa.Connection, asked: Asked, mail_ids: Sequence[str]
) -> tuple[ManagerReason, ...]:
    """Return why a manager must decide on these items in answer to these mails. DECLINED_OTHERWISE: the policy
    declined some of them for another reason, and a model could try reasons until one needs no photo.
    WITHDRAWN_LATER: see `is_overtaken`. For a cancellation only the latter counts."""
    order_id, found = asked.order.order_id, list[ManagerReason]()
    if not asked.cancels and any(
        declined.get("mail_id") in mail_ids
        and declined["facts"]["reason"] != asked.reason.value
        and any(line["item_id"] in asked.item_ids for line in declined["facts"]["lines"])
        for declined in audit.list_details(connection, order_id, audit.DECLINED)
        if "facts" in declined
    ):
        found.append(ManagerReason.DECLINED_OTHERWISE)
    if is_overtaken(connection, order_id, mail_ids):
        found.append(ManagerReason.WITHDRAWN_LATER)
    return tuple(found)


def is_overtaken(connection: sa.Connection, order_id: str, mail_ids: Sequence[str]) -> bool:
    """Return whether a later mail of the customer withdrew what these mails asked for on an order, or asked for
    something on that order itself: a run for these mails may have failed, and be replayed after that."""
    unwanted = audit.list_details(connection, order_id, audit.WITHDRAWAL_ASKED_FOR)
    mails = {each["mail_id"] for each in unwanted}
    mails |= {each.mail_id for each in refunds.list_of_order(connection, order_id)}
    mails |= {each.mail_id for each in remedies.list_of_order(connection, order_id)}
    mails |= {each.mail_id for each in offers.list_of_order(connection, order_id)}
    return bool(inbound.list_later(connection, mails, mail_ids))


def lock_caps(connection: sa.Connection, order: Order) -> None:
    """Lock the customer and the shop, if the policy has caps for them. Lock the order first."""
    limits = services.current().policy.caps
    if limits.customer:
        orders.lock_customer(connection, order.customer_email)
    if limits.day:
        orders.lock_shop(connection)


def gather_facts(
    connection: sa.Connection,
    asked: Asked,
    photos: int,
    maybe_logos: int = 0,
    sent_before: datetime | None = None,
) -> RefundFacts:
    """Return the facts. Call `lock_caps` first if a decision follows. `sent_before`: of goods sent again, only
    those count that were asked for before this time; None: all."""
    order, earlier = asked.order, asked.earlier
    # A mail from before the order asks for nothing of it.
    is_about = asked.asked_at is not None and asked.asked_at >= order.placed_at
    sent_again = [
        each
        for each in remedies.list_sent_again(connection, order.order_id)
        if sent_before is None or each.requested_at < sent_before
    ]
    # A manager decides if some of the items are sent again, and an approval withdraws such an open task.
    about = [each for each in sent_again if each.touches(each.kind, asked.item_ids)]
    instead = {each.remedy_id for each in about if each.is_open}
    remaining = order.left_after(orders.taken_minor(connection, order.order_id))
    elsewhere = external_refunds.given_back_minor(connection, order.order_id)
    return RefundFacts(
        # At most what is left after external refunds. If nothing is left, the policy declines.
        amount=min(asked.worth, remaining) if remaining.minor else asked.worth,
        remaining=remaining,
        order_status=order.status,
        delivered_at=order.delivered_at,
        reason=asked.reason,
        lines=tuple(
            LineFacts(each.item_id, each.category, each.final_sale) for each in asked.order_lines
        ),
        methods=tuple(dict.fromkeys(payment.method for payment in order.payments)),
        photos=photos,
        maybe_logos=maybe_logos,
        charged_back=order.charged_back,
        refused_before=(*list_refusals(order, asked.lines, earlier), *asked.refused_before),
        shared_payments=orders.list_shared_payments(connection, order),
        granted_unasked=_of_order(asked, [r for r in sent_again if r.remedy_id not in instead]),
        of_customer=_of_customer(connection, order, instead),
        of_day=_of_day(connection, order, instead),
        seen_by_one=_seen_by_one(asked, sent_again),
        items_before=bool(find_holding(asked.item_ids, earlier) or about),
        worth=asked.worth,
        price=asked.price,
        elsewhere=Money(elsewhere, order.currency) if elsewhere else None,
        packed=_packed(asked),
        cancels=asked.cancels,
        asked_at=asked.asked_at if is_about else None,
    )


def _of_order(asked: Asked, sent_again: Sequence[Remedy]) -> Granted:
    """Return what the policy granted of an order without a manager: refunds, and goods sent again."""
    unasked = [each.held.minor for each in asked.earlier if each.decided_by == audit.POLICY]
    found = [minor for minor in unasked if minor > 0]
    found += [price_units(asked.order, each) for each in sent_again if not each.needs_manager]
    return Granted(len(found), sum(found))


def _seen_by_one(asked: Asked, sent_again: Sequence[Remedy]) -> Money:
    """Return what an order got that needed no second manager: refunds, and goods sent again."""
    alone = [each.held.minor for each in asked.earlier if not each.four_eyes]
    goods = (each for each in sent_again if not needs_two(each.policy_reasons))
    alone += [price_units(asked.order, each) for each in goods]
    return Money(sum(alone), asked.order.currency)


def _packed(asked: Asked) -> Packed:
    return find_parcels(asked.order.shipments, asked.units)


def _of_customer(connection: sa.Connection, order: Order, but: Collection[str]) -> Granted | None:
    live = services.current()
    if not live.policy.caps.customer:
        return None
    since = live.now() - timedelta(days=live.policy.caps.customer.days)
    return policies.granted(connection, since, order.currency, order.customer_email, but)


def _of_day(connection: sa.Connection, order: Order, but: Collection[str]) -> Granted | None:
    live = services.current()
    if not live.policy.caps.day:
        return None
    return policies.granted(connection, live.now() - DAY, order.currency, but=but)


def count_photos(mails: Sequence[Row]) -> tuple[int, int]:
    """Return how many photos the mails of proven senders among these have, and how many of these may be
    logos."""
    files = [
        Attachment(**file)
        for mail in mails
        if Identity(mail.identity).proven
        for file in mail.attachments
    ]
    return sum(map(is_photo, files)), sum(map(may_be_logo, files))


def plain_facts(facts: RefundFacts) -> dict[str, Any]:
    """Return the facts as JSON; `read_facts` reads it."""
    return {
        "amount": str(facts.amount),
        "remaining": str(facts.remaining),
        "charged_back": str(facts.charged_back),
        "order_status": facts.order_status.value,
        "delivered_at": facts.delivered_at.isoformat() if facts.delivered_at else None,
        "reason": facts.reason.value,
        "lines": [asdict(line) for line in facts.lines],
        "methods": list(facts.methods),
        "photos": facts.photos,
        "maybe_logos": facts.maybe_logos,
        "refused_before": [each.value for each in facts.refused_before],
        "shared_payments": list(facts.shared_payments),
        "granted_unasked": _plain(facts.granted_unasked, facts),
        "of_customer": _plain(facts.of_customer, facts),
        "of_day": _plain(facts.of_day, facts),
        "seen_by_one": str(facts.seen_by_one),
        "items_before": facts.items_before,
        "worth": str(facts.worth) if facts.worth else None,
        "price": str(facts.price) if facts.price else None,
        "elsewhere": str(facts.elsewhere) if facts.elsewhere else None,
        "parcels": [_plain_parcel(n, each) for n, each in enumerate(facts.packed.parcels, 1)],
        "parcels_hold_all": facts.packed.whole,
        "cancels": facts.cancels,
        "asked_at": facts.asked_at.isoformat() if facts.asked_at else None,
    }


def _plain_parcel(number: int, parcel: Shipment) -> dict[str, Any]:
    due_since = parcel.due_since
    return {
        # Not its own id: that may be a tracking number, and the audit log keeps these facts for ever.
        "shipment_id": str(number),
        "status": parcel.status.value,
        "due_since": due_since.isoformat() if due_since else None,
        "expected_at": parcel.expected_at.isoformat() if parcel.expected_at else None,
        "is_tracked": parcel.last_event_at is not None,
    }


def read_facts(plain: Mapping[str, Any]) -> RefundFacts:
    """Return the facts from the JSON of `plain_facts`."""
    delivered_at, worth, asked_at = plain["delivered_at"], plain.get("worth"), plain.get("asked_at")
    price, elsewhere = plain.get("price"), plain.get("elsewhere")
    return RefundFacts(
        amount=read_money(plain["amount"]),
        remaining=read_money(plain["remaining"]),
        order_status=OrderStatus(plain["order_status"]),
        delivered_at=datetime.fromisoformat(delivered_at) if delivered_at else None,
        reason=RefundReason(plain["reason"]),
        lines=tuple(LineFacts(**line) for line in plain["lines"]),
        methods=tuple(plain["methods"]),
        photos=plain["photos"],
        maybe_logos=plain.get("maybe_logos", 0),
        charged_back=read_money(plain["charged_back"]),
        refused_before=tuple(map(ManagerReason, plain["refused_before"] or ())),
        shared_payments=tuple(plain["shared_payments"]),
        granted_unasked=_granted(plain["granted_unasked"]) or Granted(),
        of_customer=_granted(plain["of_customer"]),
        of_day=_granted(plain["of_day"]),
        seen_by_one=read_money(plain["seen_by_one"]),
        items_before=plain["items_before"],
        worth=read_money(worth) if worth else None,
        price=read_money(price) if price else None,
        elsewhere=read_money(elsewhere) if elsewhere else None,
        packed=Packed(
            tuple(map(_read_parcel, plain.get("parcels", ()))), plain.get("parcels_hold_all", False)
        ),
        cancels=plain.get("cancels", False),
        asked_at=datetime.fromisoformat(asked_at) if asked_at else None,
    )


def _read_parcel(plain: Mapping[str, Any]) -> Shipment:
    """Return a parcel that is due since the same time."""
    due_since = datetime.fromisoformat(plain["due_since"]) if plain["due_since"] else None
    expected_at = plain.get("expected_at")
    found = Shipment(
        plain["shipment_id"],
        ShipmentStatus(plain["status"]),
        expected_at=datetime.fromisoformat(expected_at) if expected_at else None,
    )
    if plain.get("is_tracked", True):
        return replace(found, last_event_at=due_since)
    return replace(found, shipped_at=due_since)


def _granted(plain: Mapping[str, Any] | None) -> Granted | None:
    if plain is None:
        return None
    return Granted(plain["count"], read_money(plain["amount"]).minor)


def _plain(granted: Granted | None, facts: RefundFacts) -> dict[str, Any] | None:
    if granted is None:
        return None
    amount = Money(granted.minor, facts.amount.currency)
    return {"count": granted.count, "amount": str(amount)}
