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
    first = data.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0].strip()
    if first == b"{" or first.startswith(b"["):
        yield from _parse_laid_out(decode_text(data))
        return
    for line_no, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield line_no, _parse_line(line_no, line)


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


def _parse_laid_out(text: str) -> Iterator[tuple[int, Order]]:
    at = _skip(text, 0)
    listed = text.startswith("[", at)
    if listed:
        _check_whole(text)
        at = _skip(text, at + 1)
    line_no, counted = 1, 0
    decoder = json.JSONDecoder(object_pairs_hook=_no_key_twice)
    while at < len(text) and not (listed and text[at] == "]"):
        line_no, counted = line_no + text.count("\n", counted, at), at
        try:
            record, end = decoder.raw_decode(text, at)
            yield line_no, parse_order(record)
        except OrderProblem as problem:
            raise OrdersFileProblem(line_no, str(problem)) from None
        except json.JSONDecodeError as problem:
            raise _not_json(problem) from None
        except (ValueError, RecursionError) as problem:
            raise OrdersFileProblem(line_no, f"is not a JSON object ({problem})") from None
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _check_whole(text: str) -> None:
    """Refuse an array that is cut off, or has something behind it."""
    try:
        json.loads(text)
    except json.JSONDecodeError as problem:
        raise _not_json(problem) from None
    except (ValueError, RecursionError) as problem:
        raise OrdersFileProblem(1, f"is not JSON ({problem})") from None


def _not_json(problem: json.JSONDecodeError) -> OrdersFileProblem:
    why = f"is not JSON ({problem.msg}, character {problem.colno})"
    return OrdersFileProblem(problem.lineno, why)


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
