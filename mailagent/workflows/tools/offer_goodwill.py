"""A discount that the agent gives: capped by the policy, once per order, with a code of its own.

The model never sees the code; the mail that answers the customer has it from the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from mailagent import services
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import Goodwill, Policy
from mailagent.store import audit
from mailagent.store.mail import conversations
from mailagent.store.refunds import goodwill, orders, policies
from mailagent.workflows.steps.conversation.batch import Batch, is_waiting
from mailagent.workflows.tools.tool import (
    Arguments,
    Id,
    Output,
    Tool,
    case_closed_output,
    no_such_order_output,
    not_verified_output,
    unknown_tool_output,
)

PERCENT_MAX = 100
_NO_OTHER = "Do not promise any discount beside it, and no voucher or replacement."


class OfferGoodwill(Arguments):
    order_id: Id = Field(description="The order that something went wrong with.")
    percent: int = Field(ge=1, le=PERCENT_MAX, description="How many percent off.")


def offer_goodwill(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Give the customer a discount for one of their orders, if the policy gives any.

    The order's lock makes it once per order; the same call again is answered from the same row. The
    conversation's makes that the mail which answers the customer has the code: it may be another process
    that writes it.
    """
    rules = services.current().policy.goodwill
    if rules is None:  # taken out of the policy since the model was told of the tool
        return unknown_tool_output()
    if not batch["verified"]:
        return not_verified_output()
    with services.current().database.transaction() as connection:
        order = orders.lock_of_conversation(
            connection, arguments["order_id"], batch["conversation_id"]
        )
        if order is None:
            return no_such_order_output(arguments["order_id"])
        conversations.lock(connection, batch["conversation_id"])  # after the order, as everywhere
        known = goodwill.find_of_order(connection, order.order_id)
        if known is not None and known.mail_id in batch["mail_ids"]:
            return offered_output(known)
        if not is_waiting(connection, batch):
            return case_closed_output()
        known = known or goodwill.find_of_mails(connection, batch["mail_ids"])
        if known is not None:
            return already_given_output(known)
        return _offer(connection, batch, order, arguments["percent"], rules)


def _offer(
    connection: sa.Connection, batch: Batch, order: Order, percent: int, rules: Goodwill
) -> dict[str, Any]:
    if order.status is OrderStatus.CANCELLED or order.charged_back.minor:
        return not_for_this_order_output(order.order_id)
    if percent > rules.most_percent:
        return above_cap_output(rules.most_percent)
    return _issue(connection, batch, order.order_id, percent, rules)


def _issue(
    connection: sa.Connection, batch: Batch, order_id: str, percent: int, rules: Goodwill
) -> dict[str, Any]:
    live = services.current()
    code = GoodwillCode(
        code=goodwill.new_code(),
        order_id=order_id,
        conversation_id=batch["conversation_id"],
        mail_id=batch["mail_ids"][-1],
        percent=percent,
        policy_version=policies.record(connection, live.policy, live.now()),
        issued_at=live.now(),
        expires_at=live.now() + timedelta(days=rules.valid_days),
    )
    goodwill.issue(connection, code)
    audit.record(
        connection,
        live.now(),
        audit.AGENT,
        "goodwill given",
        order_id,
        {"percent": percent, "mail_id": code.mail_id, "policy_version": code.policy_version},
    )
    return offered_output(code)


def offered_output(code: GoodwillCode) -> Output:
    """Return the answer when a discount was given, now or by the same call before."""
    return {
        "outcome": "offered",
        "facts": [f"goodwill/{code.order_id}"],
        "order_id": code.order_id,
        "percent": code.percent,
        "valid_until": _last_day(code),
        "say": "The shop adds the discount, its code and its last day below your text. You may apologise"
        f" in words. {_NO_OTHER}",
    }


def already_given_output(code: GoodwillCode) -> Output:
    """Return the answer for an order, or a mail, that has had its discount."""
    return {
        "outcome": "already_given",
        "facts": [f"goodwill/{code.order_id}"],
        "order_id": code.order_id,
        "percent": code.percent,
        "valid_until": _last_day(code),
        "say": "There is one discount for an order, and one in answer to a mail, and this one was"
        f" given: {code.percent}% off a later order. The customer has its code by mail. {_NO_OTHER}",
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


def _last_day(code: GoodwillCode) -> str:
    return code.expires_at.date().isoformat()


def _has_goodwill(policy: Policy) -> bool:
    return policy.goodwill is not None


TOOL = Tool(
    "offer_goodwill",
    OfferGoodwill,
    "Give the customer a discount on a later order, once per order, because something went wrong"
    " with this one. Use it only where an apology is due; never because a customer demands it.",
    offer_goodwill,
    is_offered=_has_goodwill,
)
