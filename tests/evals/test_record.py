"""What is on record is read whole, and written down and read again without loss."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from mailagent.domain.money import Money
from mailagent.domain.orders.shipment import Packed, Shipment, ShipmentStatus
from mailagent.domain.refunds.order import OrderStatus
from mailagent.domain.refunds.policy import ManagerReason
from mailagent.domain.refunds.policy_rules import Granted
from mailagent.evals.pool import Pool
from mailagent.evals.record import read_plain
from mailagent.evals.runs import replay
from mailagent.evals.task import load_tasks
from mailagent.proposals.facts import plain_facts, read_facts
from tests.cast import NOW
from tests.domain.policy_facts import facts
from tests.evals.conftest import Played


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"delivered_at": None, "worth": Money(60_00, "USD"), "items_before": True},
        {"worth": Money(60_00, "USD"), "elsewhere": Money(59_99, "USD")},
        {"price": Money(90_00, "USD"), "elsewhere": Money(60_00, "USD")},
        {"of_customer": Granted(2, 30_00), "of_day": Granted(), "shared_payments": ("pay_1",)},
        {"currency": "JPY", "photos": 2, "refused_before": (ManagerReason.LEFT_OUT,)},
        {"cancels": True, "order_status": OrderStatus.PENDING},
        {"packed": Packed((Shipment("1", ShipmentStatus.IN_TRANSIT, last_event_at=NOW),), True)},
        {"packed": Packed((Shipment("1", ShipmentStatus.IN_TRANSIT, shipped_at=NOW),), True)},
        {
            "packed": Packed(
                (
                    Shipment(
                        "1",
                        ShipmentStatus.IN_TRANSIT,
                        expected_at=NOW + timedelta(days=61),
                        last_event_at=NOW,
                    ),
                )
            )
        },
        {"packed": Packed((Shipment("1", ShipmentStatus.DELIVERED),))},
        {"asked_at": NOW},
    ],
)
def test_the_facts_of_a_decision_are_read_as_they_were_recorded(changes: dict[str, Any]) -> None:
    known = facts(**changes)
    assert read_facts(json.loads(json.dumps(plain_facts(known)))) == known


def test_a_record_is_written_down_and_read_again(played: Played) -> None:
    for _, _, record in played["perfect"]:
        assert read_plain(json.loads(json.dumps(record.plain()))) == record


def test_everything_that_scores_look_at_is_on_record(played: Played) -> None:
    records = {task.id: record for task, _, record in played["perfect"]}
    (refund,) = records["approved"].refunds
    assert (refund.verdict, refund.decisions, refund.ledger_minor) == ("NeedsManager", 1, 100_00)
    assert [mail.purpose for mail in records["paid"].mails] == ["reply", "receipt"]
    assert records["paid"].named == ("just_answer", "refund/W1001", "thanks_message")
    assert {record.named for _, _, record in played["liar"]} == {()}
    assert records["handed"].hand_over == "the customer asked for a person"
    assert all(record.tokens > 1_000 and record.seconds > 0 for record in records.values())


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("goodwill-for-a-late-parcel", [("goodwill", 10, 15)]),
        ("moved-to-mill-lane", [("change_address", 0, 0)]),
        ("offer-accepted", [("offer", 30, 30)]),
    ],
)
def test_what_is_given_beside_refunds_is_on_record(
    worlds: Pool, name: str, given: list[tuple[str, int, int]]
) -> None:
    (task,) = (each for each in load_tasks(["tasks"]) if each.id == name)
    record = replay(worlds, task)
    assert [(each.kind, each.percent, each.most) for each in record.given] == given
    assert {each.owner for each in record.given} == {task.sender}
    assert {each.customer for each in record.given} == {task.sender}


def test_a_passage_in_the_shops_language_does_not_make_the_reply_one_in_that(worlds: Pool) -> None:
    (task,) = (each for each in load_tasks(["questions"]) if each.id == "q-livraison-suisse")
    (mail,) = replay(worlds, task).mails
    assert "Shipping is 4.90 USD for each order" in mail.text
    assert mail.language == "fr"
