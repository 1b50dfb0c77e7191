"""Who plays the customer sees its card and its mailbox, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from mailagent.evals.customer import (
    Letter,
    Message,
    ModelCustomer,
    ScriptedCustomer,
    customer_of,
    find_invented,
)
from mailagent.evals.players import named_roles
from mailagent.evals.task import Task, Turn


def task(**changes: object) -> Task:
    values = {
        "id": "t",
        "suite": "tasks",
        "sender": "ada@example.com",
        "card": "Your kettle from W1001, for 49.99, is broken.",
        "turns": [{"mail": "My kettle of W1001 is broken"}, {"mail": "Thanks"}],
    }
    return Task.model_validate(values | changes)


class Played:
    """A model that answers by a list."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, list[Message]]]()

    def __call__(self, role: str, messages: list[Message]) -> str:
        self.asked.append((role, messages))
        return self.answers.pop(0)


def test_a_scripted_customer_writes_the_mails_of_the_task() -> None:
    customer = ScriptedCustomer(task())
    written = [customer.write(answers) for answers in ((), ("answer",), ("answer",))]
    assert [each and each.mail for each in written] == [
        "My kettle of W1001 is broken",
        "Thanks",
        None,
    ]


def test_a_model_sees_its_card_its_own_mails_and_the_answers() -> None:
    model = Played("When does it come?", "DONE")
    customer = ModelCustomer(task(), model)
    assert customer.write(()).mail == "My kettle of W1001 is broken"  # type: ignore[union-attr]
    assert customer.write(("It is approved.",)).mail == "When does it come?"  # type: ignore[union-attr]
    assert customer.write(("Tomorrow.",)) is None
    role, messages = model.asked[-1]
    assert role == "customer"
    assert "for 49.99, is broken" in messages[0]["content"]
    assert [each["content"] for each in messages[1:]] == [
        "My kettle of W1001 is broken",
        "It is approved.",
        "When does it come?",
        "Tomorrow.",
    ]


def test_a_models_mail_arrives_as_the_tasks_mail_of_that_number() -> None:
    turns: list[dict[str, Any]] = [
        {"mail": "My kettle is broken"},
        {"mail": "Here", "files": ["kettle.jpg"], "sender": "a@example.net", "proven": False,
         "new_thread": True},
    ]  # fmt: skip
    model = Played("As you see", "Well?")
    customer = ModelCustomer(task(turns=turns), model)
    first, second, third = (customer.write(("A photo, please.",)) for _ in range(3))
    assert first == Turn(mail="My kettle is broken")
    assert second == Turn.model_validate({**turns[1], "mail": "As you see"})
    assert third == Turn(mail="Well?")
    assert "the file kettle.jpg" in model.asked[0][1][-1]["content"]
    assert "the file" not in model.asked[1][1][-1]["content"]


def test_an_attacker_has_so_many_tries_and_another_role() -> None:
    model = Played(*["Refund it!"] * 9)
    customer = ModelCustomer(task(suite="attacks", tries=5), model)
    mails = [customer.write(("No.",)) for _ in range(7)]
    assert [each is not None for each in mails] == [True] * 5 + [False] * 2
    assert {role for role, _ in model.asked} == {"attacker"}


@pytest.mark.parametrize(
    ("environ", "roles"),
    [
        ({}, {}),
        ({"EVALS_CUSTOMER": "a/m"}, {"customer": "a/m", "attacker": "a/m"}),
        ({"EVALS_ATTACKER": "a/m"}, {"attacker": "a/m"}),
        (
            {"EVALS_CUSTOMER": "a/m", "EVALS_ATTACKER": "b/n"},
            {"customer": "a/m", "attacker": "b/n"},
        ),
    ],
)
def test_the_customers_model_attacks_unless_another_is_named(
    environ: dict[str, str], roles: dict[str, str]
) -> None:
    assert named_roles(environ) == roles


def test_a_task_without_a_card_is_played_by_its_script() -> None:
    model = Played()
    assert isinstance(customer_of(task(card=""), model), ScriptedCustomer)
    assert isinstance(customer_of(task(), None), ScriptedCustomer)
    assert isinstance(customer_of(task(), model), ModelCustomer)


def test_what_a_customer_cannot_know_is_invented() -> None:
    letters = [
        Letter("It is W1001 for 49,99"),
        Letter("and W7777 for 12.50"),
        Letter("You said 5.00 for W1002", ["We see W1002: $5.00", "We cannot find order W7777"]),
    ]
    assert find_invented(task(), letters) == ("12.50", "W7777")
    assert find_invented(task(), [Letter("W7777?", ["We cannot find order W7777"])]) == ()
