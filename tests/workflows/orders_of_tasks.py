"""Tasks whose orders a shop's own system may change, and how often these are looked up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from mailagent import engine, services
from mailagent.domain.orders.source import SourceProblem
from mailagent.domain.refunds.order import Order
from mailagent.engine.run import RunFilter
from mailagent.workflows.tools.request_change import request_change
from tests.cast import order
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.proposals import write

SWAP = "Can I exchange the kettle for a red one?"
REFUNDED = {"payment_id": "pay_1001", "method": "card", "amount": "49.99", "refunded": "49.99"}


def ask(shop: Harness, *order_ids: str) -> None:
    """Let Ada ask to exchange the kettle of each of these orders, which are stocked for it."""
    shop.stock(*(order(order_id) for order_id in order_ids))
    batch = write(shop, text=SWAP)
    items = [{"item_id": "K1", "quantity": None}]
    for order_id in order_ids:
        asked = {"order_id": order_id, "kind": "exchange", "items": items, "reason": "other"}
        assert use(request_change, batch, asked | {"wish": "a red one"})["outcome"] == "task"


def pass_minutes(shop: Harness, minutes: float) -> None:
    now = services.current().now() + timedelta(minutes=minutes)
    services.bind(replace(services.current(), now=lambda: now))


def look_ups(shop: Harness) -> int:
    return len(shop.live.workflow_client.runs.list_page(RunFilter(workflows=[engine.LOOK_UP])))


def away(_order_id: str) -> Order | None:
    raise SourceProblem("it does not answer")
