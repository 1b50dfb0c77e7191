"""The orders file: JSON lines, one order a line. Nonsense is refused with its line number."""

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


def _parse_line(line_no: int, line: bytes) -> Order:
    try:
        return parse_order(json.loads(line, object_pairs_hook=_no_key_twice))
    except (OrderProblem, UnicodeDecodeError) as problem:
        raise OrdersFileProblem(line_no, str(problem)) from None
    except (ValueError, RecursionError) as problem:
        raise OrdersFileProblem(line_no, f"is not a JSON object ({problem})") from None


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise OrderProblem(f"the key {twice!r} stands twice in one object")
    return record
