"""The tool that cancels an order, or items of one, before it is shipped.

The refund is proposed at once, like any other. It is paid after the cancellation, which the shop's own system
makes if it can, else a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from mailagent import remedies as ending
from mailagent import services
from mailagent.domain.orders.shipment import left_to_ship
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import Declined, DeclineReason
from mailagent.domain.refunds.refund import (
    ItemsProblem,
    Refund,
    RefundLine,
    RefundReason,
    WantedItem,
    price_lines,
)
from mailagent.domain.remedies.remedy import (
    OPEN,
    STANDING,
    Remedy,
    RemedyItem,
    RemedyKind,
    RemedyStatus,
    count_units,
    name_items,
)
from mailagent.mailers import Reader
from mailagent.proposals import proposal
from mailagent.proposals.facts import Asked, list_refusals_now, shipping_of
from mailagent.proposals.proposal import Proposal
from mailagent.store.refunds import orders, refunds, remedies
from mailagent.workflows.steps.conversation.batch import is_waiting
from mailagent.workflows.tools.propose_refund import (
    ITEMS_MAX,
    Item,
    bad_items_output,
    declined_output,
)
from mailagent.workflows.tools.request_change import (
    asked_before_output,
    decline_as_late,
    not_offered_output,
    request,
    requested_output,
)
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    OrderUse,
    Output,
    Tool,
    case_closed_output,
    no_such_order_output,
    proposal_key,
)

# Nothing is left to refund, but the goods must still not be shipped.
_NO_MONEY_LEFT = (DeclineReason.NOTHING_LEFT, DeclineReason.ABOVE_BALANCE)


class CancelOrder(Arguments):
    order_id: Id
    items: list[Item] = Field(max_length=ITEMS_MAX, description="Empty for the whole order.")


def cancel_order(reader: Reader, arguments: Mapping[str, Any]) -> Output:
    """Record the cancellation with its refund, under the order's lock."""
    connection = reader.connection
    wanted = tuple(WantedItem(**item) for item in arguments["items"])
    order = orders.lock_of_conversation(connection, arguments["order_id"], reader.conversation_id)
    if order is None:
        return no_such_order_output(arguments["order_id"])
    items = sorted((each.item_id, each.quantity or 0) for each in wanted)
    key = proposal_key(reader, "cancel", order.order_id, items)
    same = remedies.find_of_proposal(connection, key)
    if same is not None:
        return requested_output(same)
    if not is_waiting(connection, reader.mail_ids):
        return case_closed_output()
    try:
        return _cancel(reader, order, wanted, key)
    except ItemsProblem as problem:
        return bad_items_output(problem)


def _cancel(reader: Reader, order: Order, wanted: tuple[WantedItem, ...], key: str) -> Output:
    if RemedyKind.CANCEL not in services.current().policy.remedies.offered:
        return not_offered_output()
    price_lines(order, wanted, ())  # raises ItemsProblem
    same = _find_same(reader, order, [each.item_id for each in wanted], OPEN)
    if same is not None and (
        not same.items
        or same.mail_id == reader.mail_ids[-1]
        or order.status is not OrderStatus.PENDING
    ):
        return asked_before_output(same)
    if order.status is OrderStatus.CANCELLED:
        has_remedy = bool(remedies.list_of_order(reader.connection, order.order_id))
        return already_cancelled_output(order.order_id, has_remedy)
    if order.status is not OrderStatus.PENDING:
        return _too_late(reader, order)
    return _decide(reader, order, wanted, key)


def _find_same(
    reader: Reader, order: Order, item_ids: Collection[str], statuses: Collection[RemedyStatus]
) -> Remedy | None:
    """Return the newest cancellation of some of these items, or of the whole order, that is in one of these
    states, or that the newest mail asked for."""
    for known in reversed(remedies.list_of_order(reader.connection, order.order_id)):
        again = known.status in statuses or known.mail_id == reader.mail_ids[-1]
        if again and known.touches(RemedyKind.CANCEL, item_ids):
            return known
    return None


def _count_under_way(connection: sa.Connection, order: Order) -> Counter[str]:
    """Return how many units open cancellations have, by item id."""
    known = remedies.list_of_order(connection, order.order_id)
    cancels = [each for each in known if each.kind is RemedyKind.CANCEL and each.is_open]
    return sum((each.units or order.units for each in cancels), Counter[str]())


def _choose(
    order: Order, wanted: Sequence[WantedItem], under_way: Counter[str]
) -> tuple[WantedItem, ...]:
    """Return the units of the wanted items (if none are named, of all items) that no open cancellation has."""
    chosen = (
        replace(
            each, quantity=(each.quantity or order.units[each.item_id]) - under_way[each.item_id]
        )
        if under_way[each.item_id]
        else each
        for each in wanted or [WantedItem(item_id) for item_id in order.units]
    )
    return tuple(each for each in chosen if each.quantity is None or each.quantity > 0)


def _too_late(reader: Reader, order: Order) -> Output:
    output = decline_as_late(reader, order, RemedyKind.CANCEL)
    kinds = ["return_period"] if order.status is OrderStatus.DELIVERED else []
    offered = [f"{kind}/{order.order_id}" for kind in ("declined", *kinds)]
    say = "It cannot be cancelled any more: name these facts. To send it back they may ask for a refund."
    return output | {"facts": [*offered, *output["facts"][1:]], "say": say}


def _decide(reader: Reader, order: Order, wanted: tuple[WantedItem, ...], key: str) -> Output:
    """Record the cancellation of the wanted items, with its refund, if they are still at the shop."""
    connection = reader.connection
    earlier = refunds.list_of_order(connection, order.order_id)
    under_way = _count_under_way(connection, order)
    chosen = _choose(order, wanted, under_way)
    lines = price_lines(order, chosen, earlier)
    left = left_to_ship(order.shipments, order.units)
    free = Counter(left) - ending.count_cancelled(connection, order)
    units = count_units(order, lines)
    refunded = (_count_refunded(connection, order, chosen, earlier) & free) - units
    if not lines and not refunded:
        item_ids = [each.item_id for each in wanted] or [*order.units]
        same = _find_same(reader, order, item_ids, STANDING)
        if same is not None:
            return asked_before_output(same)
    if left is not None and not any(left.values()):
        return _too_late(reader, order)
    if left is None or (order.units - Counter(left) and units - free):
        return shipped_in_part_output(order.order_id, Counter(left) & (free + under_way))
    items = (
        ()
        if not wanted and _is_whole(order, earlier)
        else name_items(units + refunded, order.names)
    )
    # A person cancels what was not paid, or what an earlier refund holds, which has its own decision.
    if not order.paid.minor or (refunded and not lines):
        output = request(reader, order, RemedyKind.CANCEL, key, items=items)
    else:
        output = _record(reader, order, lines, key, items)
    if refunded and not lines:
        output |= {"facts": [*output["facts"], f"refund/{order.order_id}"]}
    if not wanted and output["outcome"] != "declined":
        ending.withdraw_all(connection, order.order_id, reader.mail_ids)
    return output


def _record(
    reader: Reader,
    order: Order,
    lines: tuple[RefundLine, ...],
    key: str,
    items: tuple[RemedyItem, ...],
) -> Output:
    """Have the policy decide on the refund of these lines, and record it with the cancellation of these
    items. If nothing is left to refund, a person cancels them."""
    connection = reader.connection
    earlier = refunds.list_of_order(connection, order.order_id)
    shipping = shipping_of(order, lines, earlier)
    asked = Asked(order, lines, shipping, RefundReason.CHANGED_MIND, earlier, cancels=True)
    refused = list_refusals_now(connection, asked, reader.mail_ids)
    asked = replace(asked, refused_before=refused)
    facts, decision = proposal.consider(connection, asked, reader.conversation_id)
    proposed = Proposal(reader.conversation_id, reader.mail_ids[-1], key)
    if isinstance(decision, Declined):
        # With a payment that is disputed, people refund the others.
        is_lost = decision.reason is DeclineReason.CHARGED_BACK and not facts.remaining.minor
        if (is_lost or decision.reason in _NO_MONEY_LEFT) and count_units(order, lines):
            return request(reader, order, RemedyKind.CANCEL, key, items=items)
        proposal.decline(connection, proposed, asked, facts, decision)
        return declined_output(decision, order.order_id)
    refund = proposal.record(connection, proposed, asked, facts, decision)
    # An order source is asked to cancel; without a source, a person cancels.
    has_source = services.current().order_source is not None
    status = RemedyStatus.ASKED if has_source else RemedyStatus.TASK
    values = {"items": items, "status": status, "refund_id": refund.refund_id}
    output = request(reader, order, RemedyKind.CANCEL, key, **values)
    return output | {"facts": [*output["facts"], f"refund/{order.order_id}"]}


def _count_refunded(
    connection: sa.Connection, order: Order, chosen: Sequence[WantedItem], earlier: Sequence[Refund]
) -> Counter[str]:
    """Return how many units of the chosen items could be cancelled, by item id: all except units of
    refunds that have a remedy, and units that the customer keeps for part of their price."""
    tied = {each.refund_id for each in remedies.list_of_order(connection, order.order_id)}
    others = [each for each in earlier if each.keeps_items or each.refund_id in tied]
    wanted = {each.item_id: each.quantity or order.units[each.item_id] for each in chosen}
    lines = price_lines(order, [WantedItem(item_id) for item_id in wanted], others)
    return count_units(order, lines) & Counter(wanted)


def _is_whole(order: Order, earlier: Sequence[Refund]) -> bool:
    """Return whether all of an order can be cancelled: no carrier has or had a parcel of it, and the customer
    keeps none of its items for part of the price. `earlier`: all refunds of the order."""
    is_sent = any(each.is_handed_over for each in order.shipments)
    return not is_sent and not any(each.keeps_items and each.holds_money for each in earlier)


def already_cancelled_output(order_id: str, has_remedy: bool) -> Output:
    """Return the answer for an order that is cancelled. `has_remedy`: a remedy of it is on record."""
    kinds = ["order", "refund", *(["remedy"] if has_remedy else [])]
    return {
        "outcome": "already_cancelled",
        "facts": [f"{kind}/{order_id}" for kind in kinds],
        "order_id": order_id,
        "say": "The order is cancelled already: name these facts. If they miss their money, propose a refund.",
    }


def shipped_in_part_output(order_id: str, left: Mapping[str, int]) -> Output:
    """Return the answer when some of the items are already shipped. `left`: how many units of each item are
    not; empty if the shop does not know."""
    rest = {item_id: quantity for item_id, quantity in left.items() if quantity}
    how = "call this tool with what is under not_shipped" if rest else "call hand_over"
    return {
        "error": "shipped_in_part",
        "facts": [f"order/{order_id}", f"parcels/{order_id}"],
        "not_shipped": rest,
        "say": "Nothing was cancelled: a part of it has been shipped. Name these facts. If they want the rest"
        f" cancelled, {how}.",
    }


TOOL = Tool(
    "cancel_order",
    CancelOrder,
    "Cancel an order, or some of its items, that is not shipped yet. What was paid for them is refunded"
    " after that; do not propose a refund beside it.",
    cancel_order,
    order_use=OrderUse.DECIDE,
    is_offered=lambda policy: RemedyKind.CANCEL in policy.remedies.offered,
)
