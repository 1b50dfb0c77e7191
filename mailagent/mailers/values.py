"""What mails tell of parcels, offers, credit and remedies, as values for templates; numbers found in texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.domain.mail.message import InboundMail, first_received_at
from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import Shipment, ShipmentStatus, is_tracking_link
from mailagent.domain.refunds.credit import credit_of, with_bonus
from mailagent.domain.refunds.offer import Offer, is_left
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import return_by
from mailagent.domain.refunds.refund import Refund, RefundStatus, taken_units, worth_of_all
from mailagent.domain.remedies.remedy import Remedy, RemedyKind, RemedyStatus
from mailagent.store import audit
from mailagent.store.mail import outbound
from mailagent.store.orders import problems
from mailagent.store.refunds import (
    approvals,
    credits,
    orders,
    refund_payments,
    refunds,
    remedies,
    reviews,
    settlements,
)

PARCELS_LISTED = 10
ORDER_NUMBER_MAX_LENGTH = 40

Values = dict[str, Any]


def values_of_state(order: Order) -> Values:
    """Return the state of an order. `in_part`: it is pending, but a carrier has or had a parcel of it."""
    has_parcel = any(each.is_handed_over for each in order.parcels)
    return {
        "status": order.status.value,
        "placed_at": order.placed_at,
        "delivered_at": order.delivered_at,
        "in_part": order.status is OrderStatus.PENDING and has_parcel,
    }


def list_parcels(order: Order) -> list[Values]:
    """Return the parcels of an order; if they are many, those that have not arrived first."""
    names = order.names
    arrived_last = sorted(order.parcels, key=lambda each: each.status is ShipmentStatus.DELIVERED)
    return [_parcel(each, names) for each in arrived_last[:PARCELS_LISTED]]


def _parcel(shipment: Shipment, names: Mapping[str, str]) -> Values:
    link = shipment.tracking_url
    return {
        "status": shipment.status.value,
        "carrier": shipment.carrier,
        "number": shipment.tracking_number,
        "link": link if link and is_tracking_link(link) else None,
        "shipped_at": shipment.shipped_at,
        "expected_at": shipment.expected_at,
        "delivered_at": shipment.delivered_at,
        "last_event_at": shipment.last_event_at,
        "items": [
            f"{quantity} × {names.get(item_id, item_id)}" for item_id, quantity in shipment.items
        ],
    }


@dataclass(frozen=True, slots=True)
class Left:
    """All refunds of an order, and what is left of what was paid for it."""

    refunds: Sequence[Refund]
    remaining: Money


def list_return_periods(order: Order, left: Left) -> list[Values]:
    """Return by when items can be returned, earliest first. No period before delivery, for a cancelled order,
    or after all was given back. `items` is empty if a period is that of all items."""
    live, names = services.current(), dict[datetime, list[str]]()
    gone = order.status is OrderStatus.CANCELLED or (order.paid.minor and not left.remaining.minor)
    if order.delivered_at is None or gone:
        return []
    taken = taken_units(left.refunds)
    for line in order.lines:
        if line.final_sale or live.policy.is_final(line.item_id, line.category):
            continue
        if taken[line.line_no] >= line.quantity:
            continue
        ends_at = return_by(order.delivered_at, live.policy, [line.category])
        names.setdefault(ends_at, []).append(line.name)
    return [
        {
            "ends_at": ends_at,
            "is_over": ends_at < live.now(),
            "items": items if len(items) < len(order.lines) else [],
        }
        for ends_at, items in sorted(names.items())
    ]


def values_of_offer(
    offer: Offer, order: Order, left: Left, mails: Sequence[InboundMail] = ()
) -> Values:
    """Return what a customer is told of an offer of part of the price. It is open while the shop can still pay
    it in full: the rest of the order may have been refunded since. `can_accept`: by these mails, which may have
    come before it expired."""
    now, is_whole = services.current().now(), is_left(offer, order, left.refunds, left.remaining)
    names = order.names
    return {
        "is_open": offer.is_open(now) and is_whole,
        "can_accept": offer.is_open(first_received_at(mails, offer.offered_at) or now) and is_whole,
        "accepted": offer.refund_id is not None,
        "percent": offer.percent,
        "amount": offer.amount,
        "expires_at": offer.expires_at,
        "items": [f"{quantity} × {names.get(item, item)}" for item, quantity in offer.items],
    }


def left_of(connection: sa.Connection, order: Order) -> Left:
    remaining = order.left_after(orders.taken_minor(connection, order.order_id))
    return Left(refunds.list_of_order(connection, order.order_id), remaining)


def list_declined(
    connection: sa.Connection, order: Order, made: Sequence[Refund | Offer], mail_ids: Sequence[str]
) -> list[Values]:
    """Return what the policy declined for an order in answer to these mails, oldest first, without the items
    that were granted, or declined again, since then. `made`: the refunds and offers of the order. `in_part`:
    other items of the same wish were granted."""
    names = order.names
    told: list[Values] = []
    later: list[tuple[str | None, set[str]]] = []
    for act in reversed(audit.list_of_mails(connection, order.order_id, audit.DECLINED, mail_ids)):
        asked_for, wanted = act.details.get("asked_for"), _items_of(act.details)
        items = wanted - _granted_since(act.at, made, mail_ids)
        is_again = any(kind == asked_for and items <= others for kind, others in later)
        later.append((asked_for, items))
        if is_again or (wanted and not items):
            continue
        told.append(
            {
                "reason": act.details["reason"],
                "asked_for": asked_for,
                "items": [name for item_id, name in names.items() if item_id in items],
                "in_part": items < wanted,
            }
        )
    return told[::-1]


def _items_of(declined: Mapping[str, Any]) -> set[str]:
    return {line["item_id"] for line in declined.get("facts", {}).get("lines", ())}


def _granted_since(
    moment: datetime, made: Iterable[Refund | Offer], mail_ids: Sequence[str]
) -> set[str]:
    """Return the items for which these mails brought a refund or an offer after a moment."""
    granted: set[str] = set()
    for each in (each for each in made if each.mail_id in mail_ids):
        if isinstance(each, Offer):
            made_at, items = each.offered_at, [item_id for item_id, _ in each.items]
        else:
            made_at, items = each.requested_at, [*each.item_ids]
        granted.update(items if made_at > moment else ())
    return granted


def can_be_withdrawn(connection: sa.Connection, refund: Refund) -> bool:
    """Return whether a refund may be withdrawn: it awaits approval; or it is approved, the remedy that it waits
    for may not be done yet, and else no gateway may have been asked."""
    if refund.status is not RefundStatus.APPROVED:
        return refund.status is RefundStatus.AWAITING_APPROVAL
    tied = remedies.find_of_refund(connection, refund.refund_id)
    if tied is not None:
        return tied.can_be_withdrawn
    return not refund_payments.may_be_asked(connection, refund.refund_id)


def values_of_credit(
    connection: sa.Connection, order: Order, left: Left, mail_ids: Sequence[str]
) -> Values | None:
    """Return what a customer may choose instead of money, with the amounts of a refund of an order that waits:
    the one for which these mails ask for credit, or the newest; without them if the mails ask for something
    else. None if the shop has no store credit, or no refund waits and none is possible. `refund_id` and
    `units`: what it is told for; if neither, it is no offer yet, because they have not asked for a refund."""
    policy = services.current().policy
    rules = policy.store_credit
    if rules is None:
        return None
    bonus, units = rules.bonus_percent, Counter[str]()
    money = [each for each in left.refunds if each.credit_bonus is None]
    known = {each.refund_id: each for each in money if credits.waits(connection, each)}
    waiting = next(reversed(known.values()), None)
    for act in audit.list_of_mails(connection, order.order_id, audit.CREDIT_ASKED_FOR, mail_ids):
        units |= Counter(act.details["units"])
        waiting = known.get(act.details.get("refund_id"), waiting)
    waiting = None if units else waiting
    worth = worth_of_all(order, left.refunds, policy.refund_shipping)
    if waiting is None and not (worth.minor and left.remaining.minor):
        return None
    return {
        "percent": bonus,
        "amount": waiting and waiting.amount,
        "credit": waiting and with_bonus(waiting.amount, bonus),
        "refund_id": waiting and waiting.refund_id,
        "units": dict(units),
    }


def has_number(texts: Iterable[str], number: str) -> bool:
    """Return whether a number stands in one of the texts, with any spaces or signs between its characters. A
    number without a digit is never found."""
    if not any(map(str.isdigit, number)):
        return False
    spaced = r"[\W_]*".join(number)
    written = re.compile(rf"(?<![^\W_]){spaced}(?![^\W_])", re.IGNORECASE)
    return any(map(written.search, texts))


def list_remedies(
    connection: sa.Connection, order_id: str, known: Iterable[Refund]
) -> list[Values]:
    """Return what a customer is told of the remedies of an order, oldest first. A return is left out until its
    refund is approved, and while its first request waits because the order cannot be looked up: the customer is
    not asked to send anything before. `known`: the order's refunds."""
    approved = {each.refund_id for each in known if each.status is RefundStatus.APPROVED}
    return [
        values_of_remedy(each)
        for each in remedies.list_of_order(connection, order_id)
        if each.status is not RemedyStatus.AWAITING_GOODS
        or (each.refund_id in approved and not _waits_for_source(connection, each))
    ]


def _waits_for_source(connection: sa.Connection, remedy: Remedy) -> bool:
    """Return whether the goods of a return are not asked for yet, because its order cannot be looked up."""
    is_asked = outbound.is_recorded(connection, remedies.asked_key(remedy))
    return not is_asked and problems.has_problem(connection, remedy.order_id)


def values_of_remedy(remedy: Remedy) -> Values:
    """Return what a customer is told of a remedy."""
    rules = services.current().policy.return_first
    # A return goes on, even if the policy has no returns any more.
    instructions = rules.instructions if rules else remedy.instructions
    return {
        "instructions": instructions if remedy.status is RemedyStatus.AWAITING_GOODS else None,
        "kind": remedy.kind.value,
        "status": remedy.status.value,
        "items": remedy.items,
        "due_at": remedy.due_at,
    }


def may_be_order_number(text: str) -> bool:
    """Return whether a text is short, one word, and has a digit."""
    is_word = len(text.split()) == 1 and len(text) <= ORDER_NUMBER_MAX_LENGTH
    return is_word and any(map(str.isdigit, text))


def is_part_of(part: str, number: str) -> bool:
    """Return whether a text is an order number without its prefix, its suffix or its leading zeros: "10023" of
    "SO-10023", but not of "100234"."""
    wanted, pieces = _pieces(part), _pieces(number)
    starts = range(len(pieces) - len(wanted) + 1) if wanted else ()
    return any(pieces[at : at + len(wanted)] == wanted for at in starts)


def _pieces(number: str) -> list[str]:
    found = re.findall(r"\d+|[^\W\d_]+", number.casefold())
    return [each.lstrip("0") or "0" for each in found]


def bare(number: str) -> str:
    """Return an order's number without signs and spaces, in lower case, to compare it."""
    return re.sub(r"[\W_]+", "", number).casefold()


def pay_by(connection: sa.Connection, refund_id: str) -> datetime | None:
    """Return by when the shop has promised to pay a refund; None without a promise, or if that time has
    passed."""
    waiting = settlements.list_promised(connection, refund_id)
    due_at = max((each.due_at for each in waiting), default=None)
    return due_at if due_at and due_at >= services.current().now() else None


def goods_by(connection: sa.Connection, refund_id: str) -> datetime | None:
    """Return by when the goods must be back, so that a refund is paid; None if it does not wait for them."""
    tied = remedies.find_of_refund(connection, refund_id)
    awaited = tied is not None and tied.status is RemedyStatus.AWAITING_GOODS
    return tied.due_at if tied and awaited else None


def waits_for_cancellation(connection: sa.Connection, refund_id: str) -> bool:
    """Return whether a refund is paid only once its items are cancelled."""
    tied = remedies.find_of_refund(connection, refund_id)
    return tied is not None and tied.is_open and tied.kind is RemedyKind.CANCEL


def values_of_refund(connection: sa.Connection, refund: Refund, order: Order) -> Values:
    """Return what a customer is told of a refund."""
    approval = approvals.find_of_refund(connection, refund.refund_id)
    waits = refund.status is RefundStatus.APPROVED
    given, given_back = refund_payments.sum_credit(connection, refund)
    return {
        "pay_by": pay_by(connection, refund.refund_id) if waits else None,
        "goods_by": goods_by(connection, refund.refund_id) if waits else None,
        "cancels": waits and waits_for_cancellation(connection, refund.refund_id),
        "status": "lapsed" if remedies.has_lapsed(refund) else refund.status.value,
        "amount": refund.amount,
        "credit": credit_of(refund),
        "asked": refund.asked,
        "items": reviews.items_of(refund.whole or refund, order),
        "requested_at": refund.requested_at,
        "paid_at": refund.paid_at,
        "part_paid": refund.part_paid,
        "part_credit": given,
        "returned": refund.returned,
        "returned_credit": given_back,
        "decided_by": approval.expires_at if approval else None,  # a date; templates read it
    }
