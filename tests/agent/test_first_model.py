"""A cheaper model first: it looks and answers, and leaves to the main one what is weighty or goes wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mailagent.agent import first_model
from mailagent.agent.loop import AskAgain, AskOperator, AskPerson, CallTool, Move, Reply, Spent
from mailagent.domain.mail.conversation import HandOverReason


def call(name: str, **arguments: Any) -> CallTool:
    return CallTool(name, json.dumps(arguments), "call_1")


REFUND = {"order_id": "W1", "items": [{"item_id": "1", "quantity": None}], "reason": "damaged"}


@pytest.mark.parametrize(
    ("move", "has_answered", "left"),
    [
        (call("find_my_orders"), True, False),
        (call("look_at_order", order_id="W1001"), True, False),
        (Reply("Hello Ada"), True, False),
        (call("propose_refund", **REFUND), True, True),
        (call("withdraw_refund", order_id="W1001"), True, True),
        (call("hand_over", reason="cannot_help", summary="?"), True, True),
        (call("look_at_order"), True, True),
        (call("no_such_tool"), True, True),
        (AskPerson(HandOverReason.MODEL_REFUSED, "refused"), True, True),
        (AskAgain(None, "empty"), True, True),
        # Its provider is away: the main model's is the same.
        (AskAgain(3.0, "503"), False, False),
        (AskOperator("401"), False, False),
        # Limits a minute, and names, are of each model.
        (AskAgain(3.0, "429", limited=True), False, True),
        (AskOperator("404", about_model=True), False, True),
    ],
    ids=[
        "find", "look", "reply", "refund", "withdraw", "hand-over", "misfit", "unknown", "refused", "empty",
        "away", "key", "limited", "gone",
    ],
)  # fmt: skip
def test_what_is_weighty_or_goes_wrong_is_left_to_the_main_model(
    move: Move, has_answered: bool, left: bool
) -> None:
    assert first_model.is_left_to_main(move, has_answered, has_goodwill=False) is left


@pytest.mark.parametrize(
    ("spent", "has_begun", "there_is_one", "after"),
    [
        (Spent(), False, True, Spent(first_model=1)),
        (Spent(), False, False, Spent()),
        # A run that the main model has begun stays its own, also when the setting comes.
        (Spent(model_turns=1), True, True, Spent(model_turns=1)),
        (Spent(first_model=1), True, True, Spent(first_model=1)),
        (Spent(first_model=1, unusable_replies=1), True, True, Spent(left_items=4)),
        (Spent(first_model=1), True, False, Spent(left_items=4)),
    ],
    ids=["first", "none", "under way", "goes on", "untrue", "setting gone"],
)
def test_who_works_on_a_mail_follows_from_what_is_on_record(
    spent: Spent, has_begun: bool, there_is_one: bool, after: Spent
) -> None:
    assert first_model.begun(spent, has_begun, there_is_one, items=4) == after


def test_what_is_not_in_use_is_not_recorded() -> None:
    usual = {"model_turns", "tokens", "tool_calls", "unusable_replies", "provider_retries"}
    assert Spent().plain().keys() == usual
    assert Spent(first_model=1, turn_ms=5).plain().keys() == usual | {"first_model", "turn_ms"}
