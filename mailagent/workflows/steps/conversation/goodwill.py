"""A discount that the agent gives: capped by the policy, once per order, with a code of its own.

The model never sees the code; the mail that answers the customer has it from the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from mailagent import services
from mailagent.agent import tool_outputs, tools
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.domain.refunds.order import Order, OrderStatus
from mailagent.domain.refunds.policy import Goodwill
from mailagent.store import audit
from mailagent.store.mail import conversations
from mailagent.store.refunds import goodwill, orders, policies
from mailagent.workflows.steps.conversation.batch import Batch, is_waiting


def offer_goodwill(batch: Batch, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Give the customer a discount for one of their orders, if the policy gives any.

    The order's lock makes it once per order; the same call again is answered from the same row. The
    conversation's makes that the mail which answers the customer has the code: it may be another process
    that writes it.
    """
    rules = services.current().policy.goodwill
    if rules is None:  # taken out of the policy since the model was told of the tool
        return tool_outputs.unknown_tool_output(tools.names_of(goodwill=False))
    if not batch["verified"]:
        return tool_outputs.not_verified_output()
    with services.current().database.transaction() as connection:
        order = orders.lock_of_conversation(
            connection, arguments["order_id"], batch["conversation_id"]
        )
        if order is None:
            return tool_outputs.no_such_order_output()
        conversations.lock(connection, batch["conversation_id"])  # after the order, as everywhere
        known = goodwill.find_of_order(connection, order.order_id)
        if known is not None and known.mail_id in batch["mail_ids"]:
            return tool_outputs.offered_output(known)
        if not is_waiting(connection, batch):
            return tool_outputs.case_closed_output()
        known = known or goodwill.find_of_mails(connection, batch["mail_ids"])
        if known is not None:
            return tool_outputs.already_given_output(known)
        return _offer(connection, batch, order, arguments["percent"], rules)


def _offer(
    connection: sa.Connection, batch: Batch, order: Order, percent: int, rules: Goodwill
) -> dict[str, Any]:
    if order.status is OrderStatus.CANCELLED or order.charged_back.minor:
        return tool_outputs.not_for_this_order_output(order.order_id)
    if percent > rules.most_percent:
        return tool_outputs.above_cap_output(rules.most_percent)
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
    return tool_outputs.offered_output(code)
