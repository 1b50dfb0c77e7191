"""A task from the customer's mail to the mail that says what became of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mailagent import services
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.remedies.remedy import TaskProblem
from mailagent.remedies import finish
from mailagent.workflows.steps.maintenance.tasks import see_to
from tests.cast import ADA, MAX, MONA, TESS, big_order, order
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


@pytest.mark.both_databases
def test_a_dear_replacement_takes_two_managers(busy_shop: Harness) -> None:
    shop = busy_shop
    services.bind(replace(shop.live, policy=Policy(four_eyes_above={"USD": 1_000_00})))
    shop.stock(big_order())
    path = ask(shop, "Please send a replacement for the desk of W2001, it is damaged.")
    asked = shop.wait_for_mails(MAX)[0].text
    assert "The first manager approves it on that page, and sends nothing." in asked
    for answer in (303, 422):
        assert post_form(shop.log_in(MONA), path, "/ops", done="yes").status_code == answer
    second = wait_for(shop, MAX, "approved by mona@shop.example")
    assert "mona@shop.example has approved it. Another manager has to do it by" in second
    wait_for_quiet(shop)
    assert [row.status for row in shop.rows("SELECT status FROM remedies")] == ["task"]
    assert len(shop.mails_to(ADA)) == 1
    assert post_form(shop.log_in(MAX), path, "/ops", done="yes").status_code == 303
    assert "The replacement for order W2001 is" in told(shop)


def wait_for(shop: Harness, manager: str, subject: str) -> str:
    """Return the text of a manager's mail with these words in its subject, once it is there."""

    def found() -> list[str]:
        return [each.text for each in shop.mails_to(manager) if subject in each.subject]

    wait_until(lambda: bool(found()), 30, subject)
    return found()[0]


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
