"""Thousands of steps over orders, mails, decisions, faults and deaths: the money is always right.

A few hundred here; `python -m tests.programs.money` for as many as you like.
"""

from __future__ import annotations

import hypothesis
from hypothesis.stateful import run_state_machine_as_test

from tests.harness import Harness
from tests.programs.money.machine import MoneyMachine

# PostgreSQL has the same rules, and takes longer.
STORIES = {"sqlite": 60, "postgresql": 12}


def test_the_money_is_right_whatever_happens(shop: Harness) -> None:
    MoneyMachine.harness = shop
    MoneyMachine.seen.clear()
    run_state_machine_as_test(
        MoneyMachine,
        settings=hypothesis.settings(
            max_examples=STORIES[shop.live.database.engine.dialect.name],
            stateful_step_count=40,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
    assert MoneyMachine.seen["refunds paid"] > 0  # it came as far as money
