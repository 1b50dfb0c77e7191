"""Refunds that only draft mode held up, with what managers made of them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from mailagent.store import approvals, drafted_refunds
from mailagent.workflows.steps.batch import take_batch
from mailagent.workflows.steps.proposal import propose_refund
from tests.cast import MONA, big_order, order
from tests.stage import Stage, open_shop, post_form

ANSWERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("W1", {"decision": "approve"}),
    ("W2", {"decision": "approve", "amount": "9.99"}),
    ("W3", {"decision": "reject"}),
    ("W4", {}),
)


def propose(stage: Stage, order_id: str, item_id: str = "K1") -> str:
    """Have a refund proposed in a thread of its own; return the refund."""
    stage.write("Please refund it.")
    newest = "SELECT conversation_id FROM conversations ORDER BY conversation_id DESC"
    batch = take_batch(stage.rows(newest)[0].conversation_id)
    assert batch is not None
    items = [{"item_id": item_id, "quantity": 1}]
    propose_refund(batch, {"order_id": order_id, "items": items, "reason": "damaged"})
    return str(stage.rows("SELECT refund_id FROM refunds ORDER BY refund_id DESC")[0].refund_id)


def decide(stage: Stage, refund_id: str, answer: dict[str, str]) -> None:
    with stage.live.database.snapshot() as connection:
        approval = approvals.find_of_refund(connection, refund_id)
    assert approval is not None
    link = stage.live.links.sign_approval(approval.approval_id, MONA)
    post_form(stage.client, link.removeprefix(stage.live.shop.public_url), **answer)


def test_each_is_listed_with_its_outcome_and_none_that_the_policy_held_up(
    tmp_path: Path, database_url: str
) -> None:
    with open_shop(tmp_path, database_url, {"DRAFT_REFUNDS": "all"}) as stage:
        stage.stock(big_order(), *(order(order_id) for order_id, _ in ANSWERS))
        propose(stage, "W2001", "D1")
        for order_id, answer in ANSWERS:
            refund_id = propose(stage, order_id)
            if answer:
                decide(stage, refund_id, answer)
        now = stage.live.now()
        with stage.live.database.snapshot() as connection:
            found = drafted_refunds.list_since(connection, now - timedelta(days=1), 9)
            later = drafted_refunds.list_since(connection, now, 9)
    outcomes = {each.outcome: each.minor for each in found}
    assert outcomes == {"approved": 49_99, "lowered": 9_99, "rejected": 49_99, "waiting": 49_99}
    assert {(each.reason, each.currency) for each in found} == {("damaged", "USD")}
    assert later == []
