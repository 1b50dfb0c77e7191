"""Thousands of steps over orders, mails, decisions, faults and deaths: the money is always right.

A few hundred here; `python -m tests.programs.money` for as many as you like.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from mailagent.domain.refunds.refund import RefundStatus
from mailagent.store.refunds import approvals
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.tools.propose_refund import propose_refund
from tests.cast import MAX, MONA, big_order
from tests.harness import Harness, running
from tests.programs.money.live_source import SourceMachine
from tests.programs.money.machine import MoneyMachine
from tests.programs.money.platforms import BANKS
from tests.tool_use import use

# PostgreSQL has the same rules, and takes longer.
STORIES = {"sqlite": 40, "postgresql": 9}


def test_the_money_is_right_whatever_happens(shop: Harness) -> None:
    let_anything_happen(shop, "bank", STORIES[shop.live.database.engine.dialect.name], 40)


@pytest.mark.parametrize("platform", ["shopify", "woocommerce"])
def test_the_money_is_right_at_a_platform(shop: Harness, platform: str) -> None:
    let_anything_happen(shop, platform, 4, 25)


def test_the_money_is_right_while_the_shops_system_changes_orders(shop: Harness) -> None:
    let_anything_happen(shop, "bank", 5, 6, SourceMachine)
    assert MoneyMachine.seen["payments asked for again"] > 0


def let_anything_happen(
    shop: Harness,
    bank: str,
    stories: int,
    steps: int,
    machine: type[MoneyMachine] = MoneyMachine,
) -> None:
    MoneyMachine.harness = shop
    MoneyMachine.open_bank = BANKS[bank]
    MoneyMachine.seen.clear()
    run_state_machine_as_test(
        machine,
        settings=hypothesis.settings(
            max_examples=stories,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
    assert MoneyMachine.seen["refunds paid"] > 0  # it came as far as money


# --- crowd ----------------------------------------------------------------------------------------


CROWD = 200
LONGEST_SECONDS = 120
DESK = {"order_id": "W2001", "items": [{"item_id": "D1", "quantity": None}], "reason": "damaged"}


def batches(shop: Harness, count: int) -> list[Batch]:
    """Let the customer ask in many threads at once."""
    for number in range(count):
        shop.write("Refund my order W2001", subject=f"thread {number}")
    rows = shop.rows("SELECT conversation_id FROM conversations")
    found = [take_batch(row.conversation_id) for row in rows]
    return [batch for batch in found if batch is not None]


def link(shop: Harness, manager: str) -> str:
    with shop.live.database.snapshot() as connection:
        approval = approvals.find_of_refund(connection, shop.refunds()[0].refund_id)
    assert approval is not None
    url = shop.live.links.sign_approval(approval.approval_id, manager)
    return url.replace(shop.live.shop.public_url, "")


def click(shop: Harness, path: str, decision: str, amount: str) -> None:
    """Decide as a browser does; where it is decided already, the page has no form any more."""
    client = shop.client
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get(path).text)
    if token is not None:
        form = {"decision": decision, "amount": amount, "csrf_token": token[1]}
        assert client.post(path, data=form).status_code == 200


def test_two_hundred_proposals_and_decisions_pay_the_right_one_once(shop: Harness) -> None:
    shop.stock(big_order())
    asked = batches(shop, 10)
    with ThreadPoolExecutor(32) as pool:
        told = list(
            pool.map(
                lambda number: use(propose_refund, asked[number % len(asked)], DESK),
                range(CROWD),
                timeout=LONGEST_SECONDS,
            )
        )
    assert {each["outcome"] for each in told} == {"needs_manager", "already_requested"}
    assert len(shop.refunds()) == 1
    links = [link(shop, MONA), link(shop, MAX)]
    amounts = ["", "1499.00", "700.00", "0.01"]

    def act(number: int) -> Any:
        if number % 4 == 0:
            return use(propose_refund, asked[number % len(asked)], DESK)
        decision = "reject" if number % 3 == 0 else "approve"
        return click(shop, links[number % 2], decision, amounts[number % len(amounts)])

    with running(shop), ThreadPoolExecutor(32) as pool:
        list(pool.map(act, range(CROWD), timeout=LONGEST_SECONDS))
        (decision,) = shop.rows("SELECT * FROM decisions")
        end = "paid" if decision.decision == "approve" else "rejected"
        refund = shop.wait_for_refund(end)
    amount = decision.amount_minor or 1_499_00
    paid = amount if refund.status is RefundStatus.PAID else 0
    assert refund.decided_by == decision.decided_by
    entries = shop.rows("SELECT amount_minor FROM ledger_entries")
    assert [row.amount_minor for row in entries] == ([paid] if paid else [])
    (order,) = shop.rows("SELECT held_minor, paid_minor FROM orders")
    assert paid <= order.held_minor <= order.paid_minor
