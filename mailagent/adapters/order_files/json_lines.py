"""Orders as JSON: a file of lines, one that was laid out to be read, and the body of one request.

What an order may hold is in `record_model`; exports of shop systems are in `export`."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator

from mailagent.adapters.order_files.csv_rows import OrdersFileProblem, decode_text
from mailagent.adapters.order_files.record import parse_order
from mailagent.domain.refunds.order import Order, OrderProblem

_BETWEEN = re.compile(r"[\s,]*")


def is_json(data: bytes) -> bool:
    """Say whether a file begins as one of JSON does, or is empty."""
    first = data[:1000].removeprefix(codecs.BOM_UTF8).lstrip()
    return not first or first.startswith((b"{", b"["))


def parse_json_orders(data: bytes) -> Iterator[tuple[int, Order]]:
    """Yield every order with the line it begins on: one a line, or objects over several lines, also in
    an array. Raises OrdersFileProblem naming the line."""
    text, decoder = decode_text(data), json.JSONDecoder(object_pairs_hook=_no_key_twice)
    at = _skip(text, 0)
    listed = text.startswith("[", at)
    at = _skip(text, at + 1) if listed else at
    line_no, counted = 1, 0
    while at < len(text) and not (listed and text[at] == "]"):
        line_no, counted = line_no + text.count("\n", counted, at), at
        try:
            record, end = decoder.raw_decode(text, at)
            yield line_no, parse_order(record)
        except OrderProblem as problem:
            raise OrdersFileProblem(line_no, str(problem)) from None
        except (ValueError, RecursionError) as problem:
            raise OrdersFileProblem(line_no, f"is not JSON ({problem})") from None
        at = _skip(text, end)
    if listed:
        _check_end(text, at)


def _skip(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _check_end(text: str, at: int) -> None:
    behind = _skip(text, at + 1)
    if not text.startswith("]", at) or behind < len(text):
        line_no = text.count("\n", 0, behind) + 1
        raise OrdersFileProblem(line_no, "is not JSON: the array ends too early or not at all")


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


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise OrderProblem(f"the key {twice!r} stands twice in one object")
    return record
