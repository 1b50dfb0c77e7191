"""A task from the customer's mail to the mail that says what became of it."""

from __future__ import annotations

import json

import pytest

from mailagent.domain.remedies.remedy import TaskProblem
from mailagent.remedies import finish
from mailagent.workflows.steps.maintenance.tasks import see_to
from tests.cast import ADA, MONA, TESS, big_order, order
from tests.cli.commands import flask
from tests.harness import Harness, pass_time, post_form, wait_until
from tests.round_trips.replays import wait_for_quiet

PATH = "/ops/tasks"
SWAP = "Can I exchange the kettle of W1001 for another colour?"


def ask(shop: Harness, text: str = SWAP) -> str:
    """Let Ada ask for something; return the task's path once she and the team are told."""
    shop.write(text)
    shop.wait_for_mails(ADA)
    (row,) = shop.rows("SELECT remedy_id FROM remedies WHERE status = 'task'")
    shop.wait_for_mails(TESS)
    return f"{PATH}/{row.remedy_id}"


def told(shop: Harness, count: int = 2) -> str:
    return shop.wait_for_mails(ADA, count)[-1].text


def test_an_exchange_is_done_by_the_team_and_told_once(busy_shop: Harness) -> None:
    shop = busy_shop
    shop.stock(order())
    path = ask(shop)
    assert "Exchange for order W1001: our team has your request." in told(shop, 1)
    tess = shop.log_in(TESS)
    page = tess.get(PATH).text
    assert "Exchange, order <bdi>W1001" in page
    assert "Kettle" in page
    for _ in range(2):
        assert post_form(tess, path, PATH, done="yes").status_code == 303
        shop.wait_for_mails(ADA, 2)
    wait_for_quiet(shop)
    assert "The exchange for order W1001 is arranged." in told(shop)
    assert len(shop.mails_to(ADA)) == 2
    assert "Nothing is to be done." in tess.get(PATH).text
    assert "Exchange, order <bdi>W1001" in tess.get(f"{PATH}?state=ended").text


def test_a_form_without_a_button_decides_nothing(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    path, tess = ask(busy_shop), busy_shop.log_in(TESS)
    for pressed in ({}, {"done": "yes", "fail": "yes"}):
        assert post_form(tess, path, PATH, note="It is sold out.", **pressed).status_code == 400
    assert [row.status for row in busy_shop.rows("SELECT status FROM remedies")] == ["task"]


def test_what_is_not_possible_is_told_with_the_reason(busy_shop: Harness) -> None:
    shop = busy_shop
    shop.stock(order())
    path, tess = ask(shop), shop.log_in(TESS)
    refused = post_form(tess, path, PATH, fail="yes")
    assert refused.status_code == 422
    assert "say why it is not possible" in refused.text
    post_form(tess, path, PATH, fail="yes", note="It is sold out.")
    assert "we are sorry, this is not possible" in told(shop)
    assert "> It is sold out." in told(shop)


@pytest.mark.parametrize("person", [TESS, MONA])
def test_what_the_policy_leaves_to_a_manager_only_a_manager_does(
    busy_shop: Harness, person: str
) -> None:
    shop = busy_shop
    shop.stock(big_order())
    path = ask(shop, "Please send a replacement for the desk of W2001, it is damaged.")
    client = shop.log_in(person)
    done = post_form(client, path, "/ops", done="yes")
    assert done.status_code == (303 if person == MONA else 422)
    status = "done" if person == MONA else "task"
    assert [row.status for row in shop.rows("SELECT status FROM remedies")] == [status]


def test_a_task_is_reminded_of_once_and_then_given_to_people(busy_shop: Harness) -> None:
    shop = busy_shop
    shop.stock(order())
    path = ask(shop)
    assert see_to() == 0
    pass_time(shop, days=1.6)
    assert (see_to(), see_to()) == (1, 0)
    wait_until(lambda: "A task waits" in shop.mails_to(TESS)[-1].subject, 30, "a reminder")
    pass_time(shop, days=3.1)
    assert (see_to(), see_to()) == (1, 0)
    assert "this was not done in time. A colleague will write to you." in told(shop)
    (thread,) = shop.rows("SELECT status, handed_over_reason FROM conversations")
    assert (thread.status, thread.handed_over_reason) == (
        "handed_over",
        "a task was not done in time",
    )
    remedy_id = path.rpartition("/")[2]
    with (
        shop.live.database.transaction() as connection,
        pytest.raises(TaskProblem, match="ended already"),
    ):
        finish(connection, remedy_id, TESS, True, None)


def test_a_command_lists_what_waits(busy_shop: Harness) -> None:
    busy_shop.stock(order())
    path = ask(busy_shop)
    (task,) = json.loads(flask(busy_shop, "tasks", "list", "--json").output)
    assert task["remedy_id"] == path.rpartition("/")[2]
    assert (task["kind"], task["status"], task["order_id"]) == ("exchange", "task", "W1001")
    assert task["items"] == [{"item_id": "K1", "quantity": 1}]
