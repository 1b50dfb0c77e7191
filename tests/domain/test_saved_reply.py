"""Saved replies: placeholders are known, filled once, and never sent."""

from __future__ import annotations

import pytest

from mailagent.domain.mail.saved_reply import fill, find_open, find_unknown
from tests.growth import assert_linear


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("Hello {{customer_name}}, order {{ order_number }}.", []),
        ("Hello {{name}}", ["name"]),
        ("{{customer_name.__class__}} {{}}", ["customer_name.__class__", ""]),
        ("{customer_name} { {customer_name} } 100%", []),
    ],
)
def test_a_placeholder_that_does_not_exist_is_found(text: str, unknown: list[str]) -> None:
    assert find_unknown(text) == unknown


def test_values_are_filled_once_and_missing_ones_stay() -> None:
    values = {"customer_name": "{{order_number}}", "order_number": None}
    filled = fill("{{customer_name}} / {{order_number}} / {{x}}", values)
    assert filled == "{{order_number}} / {{order_number}} / {{x}}"
    assert find_open(filled) == ["order_number", "order_number"]


def test_a_hostile_placeholder_takes_linear_time() -> None:
    assert_linear(lambda spaces: find_unknown("{{" + spaces), " ", 300)
