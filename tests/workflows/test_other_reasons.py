"""One reason after the other for the same items, in answer to one mail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mailagent import services
from mailagent.domain.refunds.policy import KeepOffers, Policy
from mailagent.domain.refunds.refund import RefundReason
from mailagent.mailers.fact import Fact, sentence
from mailagent.workflows.steps.conversation.batch import Batch, batch_reader
from mailagent.workflows.tools.request_change import request_change
from tests.cast import order
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.tool_use import use
from tests.workflows.proposals import propose, write

pytestmark = ONE_DATABASE

PHOTOS = Policy(photo_reasons=frozenset({RefundReason.DAMAGED}))
ITEMS = [
    {"item_id": "K1", "name": "Kettle", "quantity": 1, "unit_price": "29.99"},
    {"item_id": "M1", "name": "Mug", "quantity": 1, "unit_price": "20.00"},
]


@pytest.fixture
def batch(shop: Harness) -> Batch:
    shop.stock(order(items=ITEMS))
    services.bind(replace(shop.live, policy=PHOTOS))
    return write(shop)


def declined(batch: Batch) -> Fact | None:
    with services.current().database.transaction() as connection:
        return batch_reader(connection, batch).find("declined/W1001")


def test_a_second_reason_asks_a_manager_and_takes_the_decline_back(
    shop: Harness, batch: Batch
) -> None:
    assert propose(batch, "W1001")["reason"] == "photo_needed"
    told = declined(batch)
    assert told is not None
    assert [each["reason"] for each in told.values["declined"]] == ["photo_needed"]
    assert propose(batch, "W1001", reason="other")["outcome"] == "needs_manager"
    (refund,) = shop.refunds()
    assert refund.policy_reasons == ("declined_for_another_reason",)
    assert declined(batch) is None


def test_what_was_declined_for_other_items_stands(shop: Harness, batch: Batch) -> None:
    propose(batch, "W1001")
    assert propose(batch, "W1001", ("M1", None), reason="other")["outcome"] == "approved"
    assert declined(batch) is not None


def test_each_decline_in_answer_to_a_mail_is_told_with_its_items(
    shop: Harness, batch: Batch
) -> None:
    kettle, mug = [each | {"final_sale": each["item_id"] == "K1"} for each in ITEMS]
    shop.stock(order(items=[kettle, mug]))
    for _ in range(2):  # the model may repeat a call
        propose(batch, "W1001", reason="changed_mind")
        propose(batch, "W1001", ("M1", None))
    told = declined(batch)
    assert told is not None
    assert sentence(told).splitlines() == [
        "Kettle: Some of these items of order W1001 were a final sale, which cannot be returned for"
        " this reason.",
        "Mug: We need a photo that shows what is wrong with the items of order W1001. Please answer"
        " this mail with one.",
    ]


def test_what_is_left_of_a_decline_is_told_beside_what_was_granted(
    shop: Harness, batch: Batch
) -> None:
    shop.stock(order(items=[each | {"final_sale": each["item_id"] == "K1"} for each in ITEMS]))
    both = ("K1", None), ("M1", None)
    assert propose(batch, "W1001", *both, reason="changed_mind")["reason"] == "final_sale"
    assert propose(batch, "W1001", both[1], reason="changed_mind")["outcome"] == "approved"
    told = declined(batch)
    assert told is not None
    assert sentence(told).splitlines() == [
        "Kettle: Some of these items of order W1001 were a final sale, which cannot be returned for"
        " this reason.",
    ]


def test_a_later_mail_may_give_another_reason(shop: Harness, batch: Batch) -> None:
    propose(batch, "W1001")
    later = write(shop, subject="Another", text="It is whole, I just do not like it.")
    assert propose(later, "W1001", reason="changed_mind")["outcome"] == "approved"
    assert declined(batch) is not None  # those mails brought nothing else


def test_the_same_reason_with_the_photo_is_approved(shop: Harness, batch: Batch) -> None:
    propose(batch, "W1001")
    services.bind(replace(shop.live, policy=Policy()))  # as if it had come
    assert propose(batch, "W1001")["outcome"] == "approved"


def test_a_replacement_for_another_reason_asks_a_manager(shop: Harness, batch: Batch) -> None:
    propose(batch, "W1001")
    items = [{"item_id": "K1", "quantity": None}]
    wish = {
        "order_id": "W1001",
        "kind": "replacement",
        "items": items,
        "reason": "other",
        "wish": None,
    }
    use(request_change, batch, wish)
    (row,) = shop.rows("SELECT policy_reasons FROM remedies")
    assert "declined_for_another_reason" in row.policy_reasons


def test_no_offer_comes_of_another_reason(shop: Harness, batch: Batch) -> None:
    offers = KeepOffers({RefundReason.OTHER: 30})
    services.bind(replace(shop.live, policy=replace(PHOTOS, keep_offers=offers)))
    propose(batch, "W1001")
    assert propose(batch, "W1001", reason="other")["outcome"] == "needs_manager"
    assert shop.rows("SELECT 1 FROM offers") == []


def test_an_offer_takes_the_decline_of_the_same_items_back(shop: Harness, batch: Batch) -> None:
    propose(batch, "W1001")
    offers = KeepOffers({RefundReason.DAMAGED: 30})
    services.bind(replace(shop.live, policy=Policy(keep_offers=offers)))
    assert propose(batch, "W1001")["outcome"] == "offered"
    assert declined(batch) is None
