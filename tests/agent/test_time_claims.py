"""Time without a date: lengths of it have to be on record, and no manager's decision is foretold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mailagent.agent.reply.check import find_untrue
from mailagent.agent.reply.facts import gather_facts
from mailagent.agent.reply.time_claims import find_durations
from mailagent.domain.refunds.policy import Policy
from mailagent.domain.refunds.refund import RefundStatus
from tests.agent.test_reply_check import PUBLIC_URL, day, facts, kettle_order, kettle_refund
from tests.cast import MAX, SUPPORT


@pytest.mark.parametrize(
    ("text", "unit_days", "numbers"),
    [
        ("You have 60 days.", 1, (60,)),
        ("a 30-day window", 1, (30,)),
        ("for two years", 365, (2,)),
        ("within an hour", 0, (1,)),
        ("in 3 to 5 business days", 1, (3, 5)),
        ("3-5 Werktage", 1, (3, 5)),
        ("eine 14-tägige Frist", 1, (14,)),
        ("innerhalb einer Woche", 7, (1,)),
        ("sous 24 heures", 0, (24,)),
        ("pendant deux ans", 365, (2,)),
        ("un plazo de treinta días", 1, (30,)),
        ("dentro de dos meses", 30, (2,)),
    ],
)
def test_a_length_of_time_is_found_in_figures_and_in_words(
    text: str, unit_days: int, numbers: tuple[int, ...]
) -> None:
    (found,) = find_durations(text)
    assert (found.unit_days, found.numbers) == (unit_days, numbers)


@pytest.mark.parametrize(
    "text",
    ["Have a nice day.", "Einen schönen Tag!", "one of the two mugs", "Bonne journée", "49.99 USD"],
)
def test_what_is_no_length_of_time_is_not_taken_for_one(text: str) -> None:
    assert find_durations(text) == ()


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("You have 45 days to return it.", True),
        ("You have 30 days to return it.", False),
        ("Kitchen things can be sent back within 14 days.", True),
        ("Kitchen things can be sent back within two weeks.", True),
        ("Shoes can be sent back within 60 days.", False),  # none of which the customer has
        ("It was delivered three days after that.", True),
        ("It was delivered six days after that.", False),
        ("You have three days to return it.", False),
    ],
)
def test_a_length_of_time_is_the_policys_or_lies_between_dates_on_record(
    text: str, true: bool
) -> None:
    policy = Policy(return_window_days=45, category_windows={"kitchen": 14, "shoes": 60})
    bought = kettle_order()
    kettle, mugs = bought.lines
    bought = replace(bought, lines=(replace(kettle, category="kitchen"), mugs))
    known = gather_facts([bought], [], policy, [day(11, 20)], SUPPORT, PUBLIC_URL)
    assert (find_untrue(text, known) == ()) is true


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("You wrote that the kettle broke after two days.", True),
        ("I am sorry that it broke after two days.", True),
        ("I am sorry that it broke after nine days.", False),
        ("I cannot promise you anything within two days.", True),
        ("You have two days to return it.", False),
        ("Sie schreiben, dass der Wasserkocher nach zwei Tagen kaputt war.", True),
        ("Vous écrivez que la bouilloire est tombée en panne après deux jours.", True),
        ("Usted escribe que el hervidor se rompió después de dos días.", True),
    ],
)
def test_the_customers_own_time_is_repeated_only_as_theirs(text: str, passes: bool) -> None:
    said = "It broke after 2 days. Nach 2 Tagen! après 2 jours, después de 2 días"
    assert (find_untrue(text, facts(), said) == ()) is passes


@pytest.mark.parametrize("by_person", [True, False])
def test_that_a_manager_agrees_is_true_once_one_did(by_person: bool) -> None:
    refund = kettle_refund(RefundStatus.APPROVED)
    known = facts(replace(refund, decided_by=MAX if by_person else "policy"))
    assert (find_untrue("Der Manager stimmt der Erstattung zu.", known) == ()) is by_person
