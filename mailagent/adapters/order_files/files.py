"""Reads files of orders: JSON, or a CSV export of a shop system. An error names the line."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from mailagent.adapters.order_files.export import (
    Export,
    OrdersFileProblem,
    decode_text,
    group_rows,
    header_of,
    parse_rows,
)
from mailagent.adapters.order_files.shops import Shopify, WooCommerce
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a file. `zone`: the time zone of times without an offset. `delivered_after_days`: after so
    many days, a shipped order counts as delivered; None: never."""

    now: datetime
    zone: ZoneInfo | None = None
    delivered_after_days: int | None = None


@dataclass(frozen=True, slots=True)
class OrdersFile:
    """The content of a file: each order with the line on which it begins, and the lines of orders that were
    left out, because they have no mail address. `undated`: how many shipped orders do not count as delivered,
    because the file does not say when they were sent."""

    orders: tuple[tuple[int, Order], ...]
    left_out: tuple[int, ...] = ()
    undated: int = 0


def parse_orders(data: bytes, reading: Reading) -> OrdersFile:
    """Return every order of a file with its line number (from 1).

    Raises OrdersFileProblem for the first line that is not an order, or an order that comes twice.
    """
    if _is_json(data):
        file = OrdersFile(tuple(_parse_json(data)))
    else:
        text = decode_text(data)
        file = _parse_csv(text, _recognise(text), reading)
    seen: dict[str, int] = {}
    for line_no, order in file.orders:
        if order.order_id in seen:
            raise OrdersFileProblem(
                line_no, f"order {order.order_id} stands on line {seen[order.order_id]} already"
            )
        seen[order.order_id] = line_no
    return file


def _recognise(text: str) -> Export:
    names = set(header_of(text))
    for export in (Shopify(), WooCommerce()):
        if names.issuperset(export.marks):
            return export
    raise OrdersFileProblem(
        1,
        "is neither a JSON object nor the header of an export by Shopify or WooCommerce, with commas"
        " between the columns",
    )


def _parse_csv(text: str, export: Export, reading: Reading) -> OrdersFile:
    orders: list[tuple[int, Order]] = []
    left_out: list[int] = []
    undated = 0
    for rows in group_rows(parse_rows(text, export.needed), export.group):
        line_no = rows[0].line_no
        if not rows[0].text(export.email):
            left_out.append(line_no)
            continue
        try:
            record, sent_at = export.build_record(rows, reading.zone)
            undated += sent_at is None and record["status"] == OrderStatus.SHIPPED
            orders.append((line_no, _parse_order(record | _delivery(record, sent_at, reading))))
        except OrderProblem as problem:
            raise OrdersFileProblem(line_no, str(problem)) from None
    wanted = reading.delivered_after_days is not None
    return OrdersFile(tuple(orders), tuple(left_out), undated if wanted else 0)


def _delivery(
    record: Mapping[str, Any], sent_at: datetime | None, reading: Reading
) -> dict[str, str]:
    """Return the fields that make a record a delivered order, if it was sent at least `delivered_after_days`
    ago; else nothing."""
    days = reading.delivered_after_days
    if record["status"] != OrderStatus.SHIPPED or sent_at is None or days is None:
        return {}
    delivered_at = sent_at + timedelta(days=days)
    if delivered_at > reading.now:
        return {}
    return {"status": OrderStatus.DELIVERED.value, "delivered_at": delivered_at.isoformat()}


# --- JSON -----------------------------------------------------------------------------------------

_BETWEEN = re.compile(r"[\s,]*")


def _is_json(data: bytes) -> bool:
    """Return whether a file begins like JSON, or is empty."""
    first = data[:1000].removeprefix(codecs.BOM_UTF8).lstrip()
    return not first or first.startswith((b"{", b"["))


def _parse_json(data: bytes) -> Iterator[tuple[int, Order]]:
    """Yield each order with the line on which it begins. The file has JSON objects, each on one or more lines,
    also in an array. Raises OrdersFileProblem, which names the line."""
    text, decoder = decode_text(data), json.JSONDecoder(object_pairs_hook=_no_key_twice)
    at = _skip(text, 0)
    listed = text.startswith("[", at)
    at = _skip(text, at + 1) if listed else at
    line_no, counted = 1, 0
    while at < len(text) and not (listed and text[at] == "]"):
        line_no, counted = line_no + text.count("\n", counted, at), at
        try:
            record, end = decoder.raw_decode(text, at)
            yield line_no, _parse_order(record)
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
    """Return the order in a JSON text. If the text has an `order_id`, it must be this one.

    Raises OrderProblem, which names the wrong field, and ValueError if the text is not a JSON object.
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
    return _parse_order(record)


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise OrderProblem(f"the key {twice!r} stands twice in one object")
    return record


def _parse_order(record: object) -> Order:
    from mailagent.adapters.order_files.record import parse_order  # loads pydantic

    return parse_order(record)
