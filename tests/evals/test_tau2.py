"""Tasks in tau2's format: each of its actions is a call here, on the orders of the file's own shop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mailagent.evals.episode import Agent
from mailagent.evals.pool import Pool
from mailagent.evals.runs import Run, replay
from mailagent.evals.score import Sample, is_flawless
from mailagent.evals.task import TaskProblem
from mailagent.evals.tau2 import read_file


def action(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def order(order_id: str, status: str, method: str = "credit_card_1") -> dict[str, object]:
    items = [
        {"name": "Lamp", "product_id": "p1", "item_id": "a", "price": 30.5, "options": {}},
        {"name": "Lamp", "product_id": "p1", "item_id": "a", "price": 30.5, "options": {}},
        {"name": "Shade", "product_id": "p2", "item_id": "b", "price": 9, "options": {}},
    ]
    paid = {"transaction_type": "payment", "amount": 70, "payment_method_id": method}
    return {
        "order_id": order_id,
        "user_id": "lin_1",
        "status": status,
        "items": items,
        "payment_history": [paid],
    }


ORDERS = [
    order("#W1", "delivered"),
    order("#W2", "pending", "gift_card_7"),
    order("#W3", "pending (item modified)", "paypal_7"),
    order("#W4", "processed"),
]
SHOP = {
    "users": {
        "lin_0": {
            "name": {"first_name": "Lin", "last_name": "Example"},
            "email": "lin@example.org",
            "address": {"zip": "20002"},
            "orders": [],
        },
        "lin_1": {
            "name": {"first_name": "Lin", "last_name": "Example"},
            "email": "lin@example.com",
            "address": {"zip": "10001"},
            "orders": [each["order_id"] for each in ORDERS],
        },
    },
    "orders": {str(each["order_id"]): each for each in ORDERS},
    "products": {},
}
LOOK = action("get_order_details", order_id="#W1")
PERSON = action("transfer_to_human_agents", summary="angry")
NEW = {"item_ids": ["b"], "new_item_ids": ["c"], "payment_method_id": "gift_card_7"}
ADDRESS = {"address1": "1 New Road", "address2": "", "city": "Bree", "zip": "10001"}
CASES = {
    "return": (
        [LOOK, action("return_delivered_order_items", order_id="#W1", item_ids=["a", "b", "a"])],
        ["refund W1: 2 a, 1 b, 70.00 USD, paid"],
    ),
    "exchange": (
        [action("exchange_delivered_order_items", order_id="#W1", **NEW)],
        ["exchange W1: 1 b, done"],
    ),
    "cancel": (
        [action("cancel_pending_order", order_id="#W2", reason="no longer needed")],
        ["cancel W2: done", "refund W2: 2 a, 1 b, 70.00 USD, paid"],
    ),
    "items": (
        [action("modify_pending_order_items", order_id="#W3", **NEW)],
        ["exchange W3: 1 b, done"],
    ),
    "address": (
        [action("modify_pending_order_address", order_id="#W2", **ADDRESS)],
        ["change_address W2: done"],
    ),
    "person": ([LOOK, PERSON], ["handed over"]),
    # What no tool does is for a person, after the rest.
    "profile": (
        [
            action("modify_user_address", user_id="lin_1", **ADDRESS),
            action("modify_pending_order_address", order_id="#W2", **ADDRESS),
        ],
        ["change_address W2: done", "handed over"],
    ),
    "payment": (
        [action("modify_pending_order_payment", order_id="#W2", payment_method_id="paypal_7")],
        ["handed over"],
    ),
    "nothing": ([action("find_user_id_by_email", email="lin@example.com")], []),
}


def written(folder: Path, cases: dict[str, list[dict[str, object]]]) -> Path:
    (folder / "db.json").write_text(json.dumps(SHOP), "utf-8")
    told = {"reason_for_call": "You want it otherwise.", "known_info": "You are Lin."}
    records = [
        {
            "id": name,
            "user_scenario": {"instructions": told},
            "evaluation_criteria": {"actions": actions},
        }
        for name, actions in cases.items()
    ]
    path = folder / "tasks.json"
    path.write_text(json.dumps(records), "utf-8")
    return path


def test_every_action_of_its_format_leads_to_a_state_of_ours(worlds: Pool, tmp_path: Path) -> None:
    tasks = list(read_file(written(tmp_path, {name: case[0] for name, case in CASES.items()})))
    assert [task.id for task in tasks] == [f"tau2-{name}" for name in CASES]
    assert {(task.sender, task.name) for task in tasks} == {("lin@example.com", "Lin Example")}
    assert tasks[0].card == "You want it otherwise.\nYou are Lin."
    states = {}
    for task in tasks:
        record = replay(worlds, task)
        assert is_flawless(Sample(task, record, record.state)), record
        states[task.id.removeprefix("tau2-")] = list(record.state)
    assert states == {name: case[1] for name, case in CASES.items()}


def test_without_a_shop_beside_them_tasks_are_read_too(tmp_path: Path) -> None:
    look = action("find_user_id_by_email", email="lin@example.com")
    path = written(tmp_path, {"person": [look, PERSON]})
    path.with_name("db.json").unlink()
    (task,) = read_file(path)
    assert (task.sender, task.orders) == ("lin@example.com", ())
    assert task.turns[0].acts[0].arguments["summary"] == "angry"


def by_name(zip_code: str) -> dict[str, object]:
    return action("find_user_id_by_name_zip", first_name="Lin", last_name="Example", zip=zip_code)


def test_a_customer_is_known_by_name_and_zip_code(tmp_path: Path) -> None:
    (task,) = read_file(written(tmp_path, {"named": [by_name("10001")]}))
    assert (task.sender, len(task.orders)) == ("lin@example.com", 4)
    (task,) = read_file(written(tmp_path, {"namesake": [by_name("20002")]}))
    assert (task.sender, len(task.orders)) == ("lin@example.org", 0)


def test_whose_order_is_changed_counts_more_than_a_look_up(tmp_path: Path) -> None:
    cancel = action("cancel_pending_order", order_id="#W2", reason="no longer needed")
    (task,) = read_file(written(tmp_path, {"both": [by_name("20002"), cancel]}))
    assert task.sender == "lin@example.com"


def test_a_task_whose_calls_lead_nowhere_is_not_played(worlds: Pool, tmp_path: Path) -> None:
    nowhere = action("cancel_pending_order", order_id="#W9", reason="no longer needed")
    path = written(tmp_path, {"nowhere": [nowhere], **{"person": [PERSON]}})
    running = Run(worlds, Agent("scripted:lazy", {}), tmp_path)
    (result,) = running.play_all(list(read_file(path)), times=1, threads=1)
    assert (result.task_id, running.refused) == ("tau2-person", {"tau2-nowhere"})


def test_an_action_of_another_domain_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, {"flight": [action("book_reservation")]})
    with pytest.raises(TaskProblem, match="book_reservation is no action of tau2's retail"):
        list(read_file(path))
