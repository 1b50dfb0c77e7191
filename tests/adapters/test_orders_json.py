"""Orders as JSON: one a line, or laid out over several; what is wrong is named by its line."""

from __future__ import annotations

import json

import pytest

from mailagent.adapters.order_files.csv_rows import OrdersFileProblem
from mailagent.adapters.order_files.files import OrdersFormat, Reading, parse_orders
from tests.cast import NOW, order_record

ONE, TWO = order_record("W1"), order_record("W2")


def found(text: str, format: OrdersFormat | None = None) -> list[tuple[int, str]]:
    orders = parse_orders(text.encode(), Reading(NOW, format)).orders
    return [(line_no, order.order_id) for line_no, order in orders]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}\n", [1, 3]),
        (f"\ufeff\n{json.dumps(ONE, indent=2)}\n{json.dumps(TWO, indent=2)}\n", [2, None]),
        (json.dumps([ONE, TWO]), [1, 1]),
        (f"[\n{json.dumps(ONE)},\n{json.dumps(TWO)}\n]\n", [2, 3]),
        (json.dumps([ONE, TWO], indent=4), [2, None]),
        ("[]", []),
        ("", []),
    ],
    ids=["lines", "laid out", "array", "array of lines", "array laid out", "none", "empty"],
)
def test_orders_may_be_laid_out_in_any_way(text: str, lines: list[int | None]) -> None:
    orders = found(text)
    assert [order_id for _, order_id in orders] == ["W1", "W2"][: len(lines)]
    for (line_no, order_id), line in zip(orders, lines, strict=True):
        place = next(at for at, each in enumerate(text.split("\n"), 1) if f'"{order_id}"' in each)
        # Its object begins on the line before, or on the same.
        assert line_no == (line or place - 1)
    assert found(text, format=OrdersFormat.JSON_LINES) == orders


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (json.dumps(ONE, indent=2) + "\n{\n}\n", "line 27: the order: 'order_id' is missing"),
        (json.dumps(ONE, indent=2)[:-1], "is not JSON"),
        (
            f"{json.dumps(ONE)}\n{json.dumps(TWO | {'currency': 'ZZZ'})}",
            "line 2: currency: ZZZ is no currency of ISO 4217",
        ),
        (f"[\n{json.dumps(ONE)}", "line 2: is not JSON"),
        (f"[\n{json.dumps(ONE)},\n17]", "line 3"),
        (f"[\n{json.dumps(ONE)}]\n{json.dumps(TWO)}", "line 3: is not JSON"),
        ('[{"order_id": "W1",\n"order_id": "W1"}]', "line 1: the key 'order_id' stands twice"),
        (f"{json.dumps(ONE)}\n{json.dumps(TWO)[:-1]}", "line 2: is not JSON"),
        ("[" * 100_000, "line 1: is not JSON"),
        (f"{json.dumps(ONE)[:-1]}\n{json.dumps(TWO)}", "line 1: is not JSON"),
        (f"{json.dumps(ONE)}\nnothing", "line 2: is not JSON"),
        (f"{json.dumps(ONE)}\n{'1' * 5_000}", "line 2: is not JSON"),
        (f"[\n{json.dumps(ONE)},\n", "line 3: is not JSON"),
        (f"[\n{json.dumps(ONE)}]\n]", "line 3: is not JSON"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(text: str, complaint: str) -> None:
    with pytest.raises(OrdersFileProblem) as caught:
        found(text)
    assert complaint in str(caught.value)
