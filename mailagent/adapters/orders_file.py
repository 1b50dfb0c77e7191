"""Files of orders, as JSON lines or as a shop system exports them, and the body of one request.

Nonsense is refused, and named by its line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from mailagent.adapters import shopify_orders, woocommerce_orders
from mailagent.adapters.csv_rows import (
    OrdersFileProblem,
    decode_text,
    group_rows,
    header_of,
    parse_rows,
)
from mailagent.domain.order import Order, OrderProblem, OrderStatus
from mailagent.domain.order_record import parse_order


class OrdersFormat(StrEnum):
    JSON_LINES = "jsonl"
    SHOPIFY = "shopify"
    WOOCOMMERCE = "woocommerce"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is to be read. `format` None: by its first line. `zone`: of times that name none.
    `delivered_after_days`: when what was sent counts as delivered; None if that is not known."""

    now: datetime
    format: OrdersFormat | None = None
    zone: ZoneInfo | None = None
    delivered_after_days: int | None = None


@dataclass(frozen=True, slots=True)
class OrdersFile:
    """What a file holds: every order with the line it begins on, and the lines of those that were left
    out, because they have no mail address that anybody could write from."""

    orders: tuple[tuple[int, Order], ...]
    left_out: tuple[int, ...] = ()


def parse_orders(data: bytes, reading: Reading) -> OrdersFile:
    """Return every order of a file with its line number (from 1).

    Raises OrdersFileProblem for the first line that is not an order, or an order that comes twice.
    """
    format = reading.format or _recognise(data)
    if format is OrdersFormat.JSON_LINES:
        file = OrdersFile(tuple(_parse_lines(data)))
    else:
        file = _parse_csv(decode_text(data), format, reading)
    seen: dict[str, int] = {}
    for line_no, order in file.orders:
        if order.order_id in seen:
            raise OrdersFileProblem(
                line_no, f"order {order.order_id} stands on line {seen[order.order_id]} already"
            )
        seen[order.order_id] = line_no
    return file


def _recognise(data: bytes) -> OrdersFormat:
    first = data.removeprefix(codecs.BOM_UTF8).lstrip()
    if not first or first.startswith(b"{"):
        return OrdersFormat.JSON_LINES
    names = header_of(decode_text(data))
    for format, marks in (
        (OrdersFormat.SHOPIFY, shopify_orders.MARKS),
        (OrdersFormat.WOOCOMMERCE, woocommerce_orders.MARKS),
    ):
        if set(marks) <= set(names):
            return format
    raise OrdersFileProblem(
        1,
        "is neither a JSON object nor the header of an export by Shopify or WooCommerce, with commas"
        " between the columns",
    )


def _parse_lines(data: bytes) -> Iterator[tuple[int, Order]]:
    for line_no, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield line_no, _parse_line(line_no, line)


def _parse_csv(text: str, format: OrdersFormat, reading: Reading) -> OrdersFile:
    shopify = format is OrdersFormat.SHOPIFY
    module = shopify_orders if shopify else woocommerce_orders
    orders: list[tuple[int, Order]] = []
    left_out: list[int] = []
    for rows in group_rows(parse_rows(text, module.NEEDED), module.GROUP):
        line_no = rows[0].line_no
        if not rows[0].text(module.EMAIL):
            left_out.append(line_no)
            continue
        try:
            record, sent_at = module.build_record(rows, reading.zone)
            orders.append((line_no, parse_order(record | _delivery(record, sent_at, reading))))
        except OrderProblem as problem:
            raise OrdersFileProblem(line_no, str(problem)) from None
    return OrdersFile(tuple(orders), tuple(left_out))


def _delivery(
    record: Mapping[str, Any], sent_at: datetime | None, reading: Reading
) -> dict[str, str]:
    """Return what makes a record that of a delivered order, once it was sent so many days ago."""
    days = reading.delivered_after_days
    if record["status"] != OrderStatus.SHIPPED or sent_at is None or days is None:
        return {}
    delivered_at = sent_at + timedelta(days=days)
    if delivered_at > reading.now:
        return {}
    return {"status": OrderStatus.DELIVERED.value, "delivered_at": delivered_at.isoformat()}


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
