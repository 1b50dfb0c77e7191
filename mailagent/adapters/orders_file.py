"""Orders as JSON: a line of the orders file, or the body of one request. Nonsense is refused, and named."""

from __future__ import annotations

import json
from collections.abc import Iterable

from mailagent.domain.order import Order, OrderProblem, parse_order


class OrdersFileProblem(ValueError):
    """A line that cannot be taken; the text says which and what to change."""

    def __init__(self, line_no: int, text: str) -> None:
        super().__init__(f"line {line_no}: {text}")


def parse_orders(lines: Iterable[bytes]) -> list[tuple[int, Order]]:
    """Return every order with its line number (from 1); empty lines are skipped.

    Raises OrdersFileProblem for the first line that is not an order, or an order that comes twice.
    """
    found: list[tuple[int, Order]] = []
    seen: dict[str, int] = {}
    for line_no, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        order = _parse_line(line_no, line)
        if order.order_id in seen:
            raise OrdersFileProblem(
                line_no, f"order {order.order_id} stands on line {seen[order.order_id]} already"
            )
        seen[order.order_id] = line_no
        found.append((line_no, order))
    return found


def decode_order(text: bytes, order_id: str) -> Order:
    """Return the order in a JSON text; `order_id` may be left out in it, and must be the same if not.

    Raises OrderProblem naming the field that is wrong, and ValueError for what is not a JSON object.
    """
    try:
        record = json.loads(text, object_pairs_hook=_no_key_twice)
    except OrderProblem:
        raise
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"the body is not a JSON object ({problem})") from None
    if isinstance(record, dict) and record.setdefault("order_id", order_id) != order_id:
        raise OrderProblem(
            f"order_id: {record['order_id']!r} is not the {order_id!r} of the address"
        )
    return parse_order(record)


def _parse_line(line_no: int, line: bytes) -> Order:
    try:
        return parse_order(json.loads(line, object_pairs_hook=_no_key_twice))
    except (OrderProblem, UnicodeDecodeError) as problem:
        raise OrdersFileProblem(line_no, str(problem)) from None
    except json.JSONDecodeError as problem:
        why = f"is not a JSON object ({problem.msg}, character {problem.pos + 1})"
        raise OrdersFileProblem(line_no, why) from None
    except (ValueError, RecursionError) as problem:
        raise OrdersFileProblem(line_no, f"is not a JSON object ({problem})") from None


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise OrderProblem(f"the key {twice!r} stands twice in one object")
    return record
