"""The tool that accepts an offer of part of the price, once the customer has answered it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mailagent import remedies as ending
from mailagent import services
from mailagent.domain.mail.message import first_received_at
from mailagent.domain.refunds.refund import RefundStatus
from mailagent.mailers import Reader
from mailagent.proposals import offers as proposals
from mailagent.proposals.proposal import Proposal
from mailagent.store import audit
from mailagent.store.mail import told
from mailagent.store.refunds import offers, orders, refunds
from mailagent.workflows.steps.conversation.batch import is_waiting
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    OrderUse,
    Output,
    Tool,
    case_closed_output,
    no_such_order_output,
)


class AcceptOffer(Arguments):
    order_id: Id


def accept_offer(reader: Reader, arguments: Mapping[str, Any]) -> Output:
    """Accept the newest offer of an order, under the order's lock, if the customer wrote after a mail that told
    it, and before it expired: a model cannot accept it in their stead. The output comes from the row, so the
    same call again, or a second answer, gets the same output and refunds nothing more."""
    connection, order_id = reader.connection, arguments["order_id"]
    order = orders.lock_of_conversation(connection, order_id, reader.conversation_id)
    if order is None:
        return no_such_order_output(order_id)
    found = offers.list_of_order(connection, order.order_id)
    if not found:
        return no_offer_output(order.order_id)
    offer = found[-1]
    if offer.refund_id is not None:
        return accepted_output(order.order_id)
    if not is_waiting(connection, reader.mail_ids):
        return case_closed_output()
    asked_at = first_received_at(reader.mails, offer.offered_at)
    if not offer.is_open(asked_at or services.current().now()):
        return closed_output(order.order_id)
    if not told.is_answered(connection, audit.OFFER_TOLD, offer.offer_id, reader.mails):
        return not_answered_output(order.order_id)
    key = f"offer:{offer.offer_id}"
    proposed = Proposal(reader.conversation_id, reader.mail_ids[-1], key, asked_at=asked_at)
    refund = proposals.accept(connection, offer, order, proposed)
    if refund is None:
        return closed_output(order.order_id)
    if refund.status is RefundStatus.APPROVED and offer.instead_of is not None:
        # The manager knew of the exchanges and replacements. An approval withdraws them, too.
        ending.supersede(connection, refunds.load(connection, offer.instead_of))
    return accepted_output(order.order_id)


def accepted_output(order_id: str) -> Output:
    """Return the answer when the offer was accepted, now or before."""
    say = "The offer is accepted, and became a refund: name the fact, which tells its state."
    return {
        "outcome": "accepted",
        "facts": [f"refund/{order_id}"],
        "order_id": order_id,
        "say": say,
    }


def closed_output(order_id: str) -> Output:
    """Return the answer for an offer that has expired, was declined, or cannot be kept any more."""
    say = "The offer does not stand any more, and nothing was refunded for it: name the fact."
    say += " If they still want a refund, call propose_refund."
    return {"outcome": "closed", "facts": [f"offer/{order_id}"], "order_id": order_id, "say": say}


def no_offer_output(order_id: str) -> Output:
    return {
        "error": "no_offer",
        "say": f"There is no offer for order {order_id}. Nothing was done.",
    }


def not_answered_output(order_id: str) -> Output:
    """Return the answer when the customer could not have read the offer yet."""
    say = "The customer has not answered this offer yet. Nothing was done: name the fact."
    return {"error": "not_answered", "facts": [f"offer/{order_id}"], "say": say}


TOOL = Tool(
    "accept_offer",
    AcceptOffer,
    "Accept the shop's offer to keep the items of one order and get part of their price back. Use it only"
    " when the customer's newest mail clearly says yes to that offer.",
    accept_offer,
    order_use=OrderUse.DECIDE,
    is_offered=lambda policy: policy.keep_offers is not None,
)
