"""A task above `four_eyes_above`: one manager approves it, and only another one can say that it is done."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from werkzeug.test import TestResponse

from mailagent import services
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.remedies.remedy import TaskProblem
from mailagent.remedies import finish, postpone
from mailagent.store.refunds import remedies
from mailagent.workflows.steps.maintenance.tasks import see_to
from mailagent.workflows.tools.request_change import request_change
from tests.cast import ADA, MAX, MONA, TESS, big_order, order
from tests.cli.commands import flask
from tests.harness import Harness, pass_time, post_form
from tests.tool_use import use
from tests.workflows.proposals import write

pytestmark = pytest.mark.both_databases

PATH = "/ops/tasks"
ZOE = "zoe@shop.example"
WAITS = "Another manager has to do it."


@pytest.fixture
def task(shop: Harness) -> str:
    """Ada wants another desk, which is worth more than two managers have to see; return the task's id."""
    services.bind(replace(shop.live, policy=Policy(four_eyes_above={"USD": 1_000_00})))
    return ask(shop)


def ask(shop: Harness) -> str:
    shop.stock(big_order())
    batch = write(shop, text="My desk is damaged. Please send another one.")
    desk = {"items": [{"item_id": "D1", "quantity": None}], "reason": "damaged", "wish": None}
    asked = {"order_id": "W2001", "kind": "replacement"} | desk
    assert use(request_change, batch, asked)["outcome"] == "task"
    (row,) = shop.rows("SELECT remedy_id FROM remedies WHERE status = 'task'")
    return str(row.remedy_id)


def press(shop: Harness, task: str, person: str, **fields: str) -> TestResponse:
    return post_form(shop.log_in(person), f"{PATH}/{task}", "/ops", **fields)


def status(shop: Harness) -> str:
    return str(shop.rows("SELECT status FROM remedies")[0].status)


def acts(shop: Harness, task: str) -> list[tuple[str, str]]:
    query = "SELECT actor, action FROM audit WHERE subject = :t ORDER BY audit_id"
    return [(row.actor, row.action) for row in shop.rows(query, t=task)][1:]


def mails(shop: Harness, purpose: str) -> list[str]:
    query = "SELECT to_address FROM outbound_mails WHERE purpose = :p ORDER BY created_at"
    return [row.to_address for row in shop.rows(query, p=purpose)]


def told_of_the_first(shop: Harness) -> list[str]:
    query = "SELECT to_address FROM outbound_mails WHERE dedup_key LIKE 'second:%'"
    return [row.to_address for row in shop.rows(query)]


APPROVED, DONE = "request approved, second approval awaited", "request done"


def test_one_manager_is_not_enough_and_two_are(shop: Harness, task: str) -> None:
    assert press(shop, task, MONA, done="yes").status_code == 303
    assert (status(shop), mails(shop, "remedy")) == ("task", [])
    assert acts(shop, task) == [(MONA, APPROVED)]
    assert told_of_the_first(shop) == [MAX]
    assert press(shop, task, MAX, done="yes").status_code == 303
    assert (status(shop), mails(shop, "remedy")) == ("done", [ADA])
    assert acts(shop, task) == [(MONA, APPROVED), (MAX, DONE)]
    (row,) = shop.rows("SELECT decided_by FROM remedies")
    assert row.decided_by == MAX


@pytest.mark.parametrize("again", [MONA, MONA.upper(), MONA.replace("@", "+second@")])
def test_the_same_manager_again_changes_nothing_and_reads_why(
    shop: Harness, task: str, again: str
) -> None:
    addresses = (MONA, again, MAX)
    live = services.current()
    services.bind(replace(live, shop=replace(live.shop, manager_emails=addresses)))
    with shop.live.database.transaction() as connection:
        assert finish(connection, task, MONA, True, None)
    with (
        shop.live.database.transaction() as connection,
        pytest.raises(TaskProblem, match="you have approved it already; another manager"),
    ):
        finish(connection, task, again, True, None)
    page = press(shop, task, MONA, done="yes")
    assert page.status_code == 422
    assert "you have approved it already; another manager has to do it" in page.text
    assert (status(shop), acts(shop, task)) == ("task", [(MONA, APPROVED)])
    assert told_of_the_first(shop) == [MAX]


def test_the_team_cannot_be_the_second(shop: Harness, task: str) -> None:
    press(shop, task, MONA, done="yes")
    assert press(shop, task, TESS, done="yes").status_code == 422
    assert status(shop) == "task"


@pytest.mark.parametrize("first", [True, False])
def test_one_manager_is_enough_to_say_that_it_is_not_possible(
    shop: Harness, task: str, first: bool
) -> None:
    if first:
        press(shop, task, MAX, done="yes")
    assert press(shop, task, MAX, fail="yes", note="Sold out.").status_code == 303
    assert (status(shop), mails(shop, "remedy")) == ("not_possible", [ADA])


def test_words_of_the_first_are_no_reason_why_it_is_not_possible(shop: Harness, task: str) -> None:
    press(shop, task, MONA, done="approve", note="It leaves on Monday.")
    page = press(shop, task, MAX, fail="yes", note="It leaves on Monday.")
    assert page.status_code == 422
    assert "say why it is not possible" in page.text
    assert (status(shop), mails(shop, "remedy")) == ("task", [])
    assert press(shop, task, MAX, fail="yes", note="Sold out.").status_code == 303
    assert status(shop) == "not_possible"


@pytest.mark.parametrize("status", ["task", "done"])
def test_an_order_is_not_sent_again_in_parts_by_one_manager(shop: Harness, status: str) -> None:
    live = services.current()
    policy = Policy(limits={"USD": 100_00}, four_eyes_above={"USD": 1_000_00})
    services.bind(replace(live, policy=policy))
    chair = {"item_id": "C1", "name": "Chair", "quantity": 1, "unit_price": "900.00"}
    desk = chair | {"item_id": "D1", "name": "Desk"}
    payment = {"payment_id": "pay_W2001", "method": "card", "amount": "1800.00"}
    shop.stock(order("W2001", items=[chair, desk], payments=[payment]))

    def reasons(item_id: str) -> list[str]:
        batch = write(shop, text=f"{item_id} is damaged.", message_id=f"{item_id}@mail.example")
        items = [{"item_id": item_id, "quantity": None}]
        wanted = {"items": items, "reason": "damaged", "wish": None}
        asked = {"order_id": "W2001", "kind": "replacement"} | wanted
        assert use(request_change, batch, asked)["outcome"] == "task"
        rows = shop.rows("SELECT policy_reasons FROM remedies ORDER BY requested_at, remedy_id")
        return [*json.loads(rows[-1].policy_reasons)]

    assert "above_four_eyes" not in reasons("C1")
    if status == "done":
        (first,) = shop.rows("SELECT remedy_id FROM remedies")
        assert press(shop, first.remedy_id, MONA, done="yes").status_code == 303
    pass_time(shop, days=0.1)
    assert "above_four_eyes" in reasons("D1")


def test_below_that_amount_one_manager_is_enough(shop: Harness) -> None:
    task = ask(shop)  # above the limit for refunds without a manager
    page = shop.log_in(MONA).get(PATH).text
    assert "a manager does it" in page
    assert "Two managers" not in page
    assert 'name="done" value="yes"' in page
    assert press(shop, task, MONA, done="yes").status_code == 303
    assert (status(shop), acts(shop, task)) == ("done", [(MONA, DONE)])
    assert told_of_the_first(shop) == []


def test_the_page_says_who_approved_and_what_is_missing(shop: Harness, task: str) -> None:
    mona, peter = shop.log_in(MONA), shop.log_in(MAX)
    before = mona.get(PATH).text
    assert "Two managers are needed." in before
    assert 'name="done" value="approve"' in before
    press(shop, task, MONA, done="approve", note="It leaves on Monday.")
    own, other = mona.get(PATH).text, peter.get(PATH).text
    for page in (own, other):
        assert "Two managers are needed." not in page
        assert f"{MONA}</bdi> approved it" in page
        assert WAITS in page
        assert "The customer was told:" not in page
        assert 'value="It leaves on Monday."' in page  # for the second one to send or change
    assert 'name="done"' not in own
    assert 'name="fail"' in own
    assert 'name="done" value="yes"' in other
    press(shop, task, MAX, done="yes", note="It leaves on Monday.")
    ended = peter.get(f"{PATH}?state=ended").text
    assert f"{MONA}</bdi> approved it" in ended
    assert WAITS not in ended


def test_a_page_from_before_the_approval_cannot_say_that_it_is_done(
    shop: Harness, task: str
) -> None:
    press(shop, task, MONA, done="approve")
    late = press(shop, task, MAX, done="approve", note="Soon.")
    assert late.status_code == 422
    assert "another manager has approved it meanwhile; do it, and then say so" in late.text
    assert 'value="Soon."' in late.text
    assert (status(shop), mails(shop, "remedy")) == ("task", [])
    press(shop, task, MAX, done="yes")
    assert status(shop) == "done"


def test_a_page_from_before_a_stop_cannot_approve(shop: Harness, task: str) -> None:
    mona = shop.log_in(MONA)
    assert 'name="stop"' not in mona.get(PATH).text
    shop.stock(big_order(status="cancelled"))
    late = post_form(mona, f"{PATH}/{task}", "/ops", done="approve")
    assert late.status_code == 422
    assert "Something has happened while this page was open. The order is cancelled" in late.text
    assert (status(shop), acts(shop, task)) == ("task", [])
    shown = {"done": "approve", "stop": "CANCELLED"}
    assert 'name="stop" value="CANCELLED"' in late.text
    assert post_form(mona, f"{PATH}/{task}", "/ops", **shown).status_code == 303
    assert acts(shop, task) == [(MONA, APPROVED)]


def at_once(shop: Harness, task: str, *people: str) -> list[str]:
    """Have people say at the same moment that it is done; return what became of each."""
    together = Barrier(len(people))

    def say(person: str) -> str:
        together.wait()
        try:
            with shop.live.database.transaction() as connection:
                return str(finish(connection, task, person, True, None))
        except TaskProblem as problem:
            return str(problem)

    with ThreadPoolExecutor(len(people)) as threads:
        return sorted(threads.map(say, people))


def test_clicks_at_once_of_one_manager_approve_once(shop: Harness, task: str) -> None:
    said = at_once(shop, task, *[MONA] * 4)
    assert said[0] == "True"
    assert set(said[1:]) == {"you have approved it already; another manager has to do it"}
    assert (status(shop), acts(shop, task)) == ("task", [(MONA, APPROVED)])


def test_clicks_at_once_of_two_managers_are_two_signatures(shop: Harness, task: str) -> None:
    assert at_once(shop, task, MONA, MAX) == ["True", "True"]
    first, second = acts(shop, task)
    assert (first[1], second[1]) == (APPROVED, DONE)
    assert {first[0], second[0]} == {MONA, MAX}
    assert mails(shop, "remedy") == [ADA]


def test_an_approval_of_a_former_manager_does_not_count(shop: Harness, task: str) -> None:
    press(shop, task, MONA, done="yes")
    live = services.current()
    services.bind(replace(live, shop=replace(live.shop, manager_emails=(MAX, ZOE))))
    press(shop, task, MAX, done="yes")
    assert (status(shop), acts(shop, task)) == ("task", [(MONA, APPROVED), (MAX, APPROVED)])
    assert told_of_the_first(shop) == [MAX, ZOE]
    press(shop, task, ZOE, done="yes")
    assert status(shop) == "done"


def test_without_another_manager_the_team_is_told(shop: Harness, task: str) -> None:
    live = services.current()
    services.bind(replace(live, shop=replace(live.shop, manager_emails=(MONA,))))
    press(shop, task, MONA, done="yes")
    assert told_of_the_first(shop) == [TESS]
    query = "SELECT text FROM outbound_mails WHERE dedup_key LIKE 'second:%'"
    assert "No other manager may do it" in shop.rows(query)[0].text


def test_words_of_the_first_are_not_sent_before_the_second(shop: Harness, task: str) -> None:
    press(shop, task, MONA, done="yes", note="It leaves on Monday.")
    pass_time(shop, days=1.5)
    with shop.live.database.transaction() as connection:
        remedy = remedies.lock(connection, task)
        assert remedy is not None
        postpone(connection, remedy)
    (row,) = shop.rows("SELECT text FROM outbound_mails WHERE purpose = 'remedy'")
    assert "Monday" not in row.text


def test_who_has_approved_is_not_reminded(shop: Harness, task: str) -> None:
    press(shop, task, MONA, done="approve")
    pass_time(shop, days=1.5)
    see_to()
    query = "SELECT to_address FROM outbound_mails WHERE dedup_key LIKE :key"
    reminded = {row.to_address for row in shop.rows(query, key="managers:%:reminder%")}
    assert reminded == {MAX}


@pytest.mark.usefixtures("task")
def test_the_managers_mail_says_how_two_do_it(shop: Harness) -> None:
    query = "SELECT text FROM outbound_mails WHERE dedup_key LIKE 'managers:%'"
    (text, _) = [row.text for row in shop.rows(query)]
    assert "a second person approves after the first" in text
    assert "The first manager approves it on that page, and sends nothing." in text


def test_the_command_lists_who_approved(shop: Harness, task: str) -> None:
    def listed() -> tuple[bool, str | None]:
        (found,) = json.loads(flask(shop, "tasks", "list", "--json").output)
        return found["needs_two_managers"], found["approved_by"]

    assert listed() == (True, None)
    press(shop, task, MONA, done="yes")
    assert listed() == (True, MONA)
