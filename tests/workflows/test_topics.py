"""What an answer is about, by rows: what was done in answer to these very mails, and no others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mailagent.domain.mail.draft import Topic
from mailagent.domain.refunds.goodwill import GoodwillCode
from mailagent.store import audit
from mailagent.store.mail import conversations
from mailagent.store.refunds import goodwill
from mailagent.workflows.steps.conversation.batch import Batch, take_batch
from mailagent.workflows.steps.conversation.reply import find_topics
from mailagent.workflows.tools.propose_refund import propose_refund
from mailagent.workflows.tools.withdraw_refund import withdraw_refund
from tests.cast import big_order, order
from tests.harness import Harness

OLD = "2020-01-03T00:00:00+00:00"


def take(shop: Harness) -> Batch:
    shop.write("Hello")
    newest = "SELECT conversation_id FROM conversations ORDER BY conversation_id DESC"
    batch = take_batch(shop.rows(newest)[0].conversation_id)
    assert batch is not None
    return batch


def topics(shop: Harness, batch: Batch, text: str = "Hello Ada.") -> tuple[Topic, ...]:
    with shop.live.database.snapshot() as connection:
        conversation = conversations.load(connection, batch["conversation_id"])
        return find_topics(connection, conversation, batch["mail_ids"], text)


def propose(batch: Batch, order_id: str, item_id: str) -> str:
    items = [{"item_id": item_id, "quantity": 1}]
    output = propose_refund(batch, {"order_id": order_id, "items": items, "reason": "damaged"})
    return str(output["outcome"])


def test_a_refund_is_the_topic_of_the_mail_that_asked_for_it_only(shop: Harness) -> None:
    shop.stock(order())
    asked, later = take(shop), take(shop)
    assert propose(asked, "W1001", "K1") == "approved"
    assert topics(shop, asked) == (Topic.REFUND,)
    assert topics(shop, later) == (Topic.OTHER,)


def test_a_declined_refund_is_a_topic_too(shop: Harness) -> None:
    shop.stock(order(placed_at=OLD, delivered_at=OLD))
    asked, later = take(shop), take(shop)
    assert propose(asked, "W1001", "K1") == "declined"
    assert topics(shop, asked) == (Topic.REFUND,)
    assert topics(shop, later) == (Topic.OTHER,)


def test_withdrawing_is_the_topic_of_the_mail_that_did_it(shop: Harness) -> None:
    shop.stock(big_order())
    asked, later = take(shop), take(shop)
    assert propose(asked, "W2001", "D1") == "needs_manager"
    withdraw_refund(later, {"order_id": "W2001"})
    assert topics(shop, asked) == (Topic.REFUND,)
    assert topics(shop, later) == (Topic.WITHDRAWAL,)


def test_a_discount_is_a_topic(shop: Harness) -> None:
    shop.stock(order())
    batch, now = take(shop), shop.live.now()
    with shop.live.database.transaction() as connection:
        code = GoodwillCode(
            code=goodwill.new_code(), order_id="W1001", conversation_id=batch["conversation_id"],
            mail_id=batch["mail_ids"][0], percent=10, policy_version=None, issued_at=now,
            expires_at=now + timedelta(days=9),
        )  # fmt: skip
        goodwill.issue(connection, code)
        audit.record(connection, now, audit.AGENT, "goodwill given", "W1001")
    assert topics(shop, batch) == (Topic.GOODWILL,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Your order w1001 is on its way.", Topic.ORDERS),
        ("Your order #W1001, yes.", Topic.ORDERS),
        ("Your order W10012 is on its way.", Topic.OTHER),
    ],
)
def test_an_order_that_is_named_is_a_topic(shop: Harness, text: str, expected: Topic) -> None:
    shop.stock(order())
    assert topics(shop, take(shop), text) == (expected,)
