"""Why a manager is asked, and by how much a limit is exceeded."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from mailagent.domain.refunds.labels import MANAGER_REASONS, tell_reasons
from mailagent.domain.refunds.policy import Cap, Caps, ManagerReason, Policy
from mailagent.domain.refunds.policy_rules import Exceeded, Granted, list_exceeded
from tests.cast import NOW
from tests.domain.policy_facts import facts

LIMIT, TIER, CAP = {"USD": 149_00}, {"USD": 90_00}, Cap({"USD": 120_00}, 1)


@pytest.mark.parametrize(
    ("policy", "reason", "told"),
    [
        (
            Policy(limits=TIER),
            "ABOVE_LIMIT",
            "$100.00 is $10.00 above the limit of $90.00.",
        ),
        (Policy(limits=LIMIT), "ABOVE_LIMIT_TOGETHER", "$150.00 is $1.00 above the limit of"),
        (Policy(four_eyes_above=TIER), "FOUR_EYES", "is $10.00 above the limit of $90.00."),
        (Policy(caps=Caps(order=CAP)), "ORDER_CAP", "$150.00 is $30.00 above the limit of"),
        (
            Policy(caps=Caps(order=CAP)),
            "ORDER_CAP",
            "It is number 2 without asking; the limit is 1.",
        ),
    ],
)
def test_a_manager_is_told_which_limit_is_exceeded_and_by_how_much(
    policy: Policy, reason: str, told: str
) -> None:
    asked = facts(100_00, granted_unasked=Granted(1, 50_00))
    exceeded = list_exceeded(asked, policy, NOW)
    kept = {name: Exceeded(**asdict(each)) for name, each in exceeded.items()}  # as JSON keeps it
    (sentence,) = tell_reasons([ManagerReason[reason]], kept, "USD")
    assert told in sentence
    general = MANAGER_REASONS[ManagerReason[reason]]
    if reason in ("ABOVE_LIMIT", "ABOVE_LIMIT_TOGETHER"):
        assert general not in sentence  # it would say the same once more
        assert ("Earlier refunds" in sentence) is (reason == "ABOVE_LIMIT_TOGETHER")
    else:
        assert sentence.endswith(general)


def test_a_limit_that_is_reached_exactly_is_not_exceeded() -> None:
    assert list_exceeded(facts(100_00), Policy(limits={"USD": 100_00}), NOW) == {}


def test_a_reason_without_a_limit_is_told_as_it_is() -> None:
    assert tell_reasons(["draft_mode", "of an old policy"], {}, "USD", str) == [
        MANAGER_REASONS[ManagerReason.DRAFT_MODE],
        "of an old policy",
    ]
