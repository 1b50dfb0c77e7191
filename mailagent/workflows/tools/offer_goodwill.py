"""The tool that gives a discount: capped by the policy, once per order, with a code of its own.

The model never sees the code; the mail that answers the customer has it from the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import Field

from mailagent import services
from mailagent.domain.deadline import end_of_day
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import Goodwill
from mailagent.mailers import Reader
from mailagent.store import audit
from mailagent.store.mail import conversations
from mailagent.store.refunds import goodwill, orders, policies
from mailagent.workflows.steps.conversation.batch import is_waiting
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    Output,
    Tool,
    case_closed_output,
    day,
    no_such_order_output,
    unknown_tool_output,
)

PERCENT_MAX = 100
_NO_OTHER = "Do not promise any discount beside it, and no voucher or replacement."


class OfferGoodwill(Arguments):
    order_id: Id = Field(description="The order that something went wrong with.")
    percent: int = Field(ge=1, le=PERCENT_MAX, description="How many percent off.")


def offer_goodwill(reader: Reader, arguments: Mapping[str, Any]) -> Output:
    """Give the customer a discount for one of their orders, if the policy gives any.

    The order's lock makes sure that an order gets only one; the same call again is answered from the same row.
    The conversation's lock keeps another process from writing the answer without the code.
    """
    rules = services.current().policy.goodwill
    if rules is None:  # taken out of the policy since the model was told of the tool
        return unknown_tool_output()
    connection, mail_ids, order_id = reader.connection, reader.mail_ids, arguments["order_id"]
    order = orders.lock_of_conversation(connection, order_id, reader.conversation_id)
    if order is None:
        return no_such_order_output(order_id)
    conversations.lock(connection, reader.conversation_id)  # after the order, as everywhere
    known = goodwill.find_of_order(connection, order.order_id)
    if known is not None and known.mail_id in mail_ids:
        return offered_output(known)
    if not is_waiting(connection, mail_ids):
        return case_closed_output()
    email, now = reader.conversation.customer_email, services.current().now()
    codes = goodwill.load_known(connection, email, mail_ids)
    if known is not None and known == codes.find_due(now):
        return offered_output(known)
    known = known or codes.find_given()
    if known is not None:
        return already_given_output(known)
    return _offer(reader, order, arguments["percent"], rules)


def _offer(reader: Reader, order: Order, percent: int, rules: Goodwill) -> Output:
    if order.status is OrderStatus.CANCELLED or order.charged_back.minor:
        return not_for_this_order_output(order.order_id)
    if percent > rules.most_percent:
        return above_cap_output(rules.most_percent)
    live, connection = services.current(), reader.connection
    code = GoodwillCode(
        code=goodwill.new_code(),
        order_id=order.order_id,
        conversation_id=reader.conversation_id,
        mail_id=reader.mail_ids[-1],
        percent=percent,
        policy_version=policies.record(connection, live.policy, live.now()),
        issued_at=live.now(),
        expires_at=end_of_day(live.now() + timedelta(days=rules.valid_days)),
    )
    goodwill.issue(connection, code)
    audit.record(
        connection,
        live.now(),
        audit.AGENT,
        "goodwill given",
        order.order_id,
        {"percent": percent, "mail_id": code.mail_id, "policy_version": code.policy_version},
    )
    return offered_output(code)


def offered_output(code: GoodwillCode) -> Output:
    """Return the answer when a discount was given, now or by the same call before."""
    say = "The shop adds the discount, its code and its last day below your text. You may apologise in words."
    return _output("offered", code, say)


def already_given_output(code: GoodwillCode) -> Output:
    """Return the answer for an order, or a mail, that has had its discount."""
    say = (
        "There is one discount for an order, and one in answer to a mail, and this one was given:"
        f" {code.percent}% off a later order. The customer has its code by mail."
    )
    return _output("already_given", code, say)


def _output(outcome: str, code: GoodwillCode, say: str) -> Output:
    return {
        "outcome": outcome,
        "facts": [f"goodwill/{code.order_id}"],
        "order_id": code.order_id,
        "percent": code.percent,
        "valid_until": day(code.expires_at),
        "say": f"{say} {_NO_OTHER}",
    }


def not_for_this_order_output(order_id: str) -> Output:
    """Return the answer for an order that was cancelled, or whose money the customer's bank took back."""
    return {
        "error": "not_for_this_order",
        "order_id": order_id,
        "say": "Nothing was given: there is no discount for an order that was cancelled or charged"
        f" back. {_NO_OTHER}",
    }


def above_cap_output(most_percent: int) -> Output:
    """Return the answer to more than the shop gives."""
    return {
        "error": "above_cap",
        "most_percent": most_percent,
        "say": f"Nothing was given: the most is {most_percent} percent.",
    }


TOOL = Tool(
    "offer_goodwill",
    OfferGoodwill,
    "Give the customer a discount on a later order, once per order, because something went wrong"
    " with this one. Use it only where an apology is due; never because a customer demands it.",
    offer_goodwill,
    is_offered=lambda policy: policy.goodwill is not None,
)
