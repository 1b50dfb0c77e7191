"""Files of orders, as JSON or as a shop system exports them. Nonsense is refused, and named by its line.

What JSON may look like is in `json_lines`, exports of shop systems in `export`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from mailagent.adapters.order_files.csv_rows import (
    OrdersFileProblem,
    decode_text,
    group_rows,
    header_of,
    parse_rows,
)
from mailagent.adapters.order_files.export import Export
from mailagent.adapters.order_files.json_lines import is_json, parse_json_orders
from mailagent.adapters.order_files.record import parse_order
from mailagent.adapters.order_files.shopify import Shopify
from mailagent.adapters.order_files.woocommerce import WooCommerce
from mailagent.domain.refunds.order import Order, OrderProblem, OrderStatus


class OrdersFormat(StrEnum):
    JSON_LINES = "jsonl"
    SHOPIFY = "shopify"
    WOOCOMMERCE = "woocommerce"


_EXPORTS: Mapping[OrdersFormat, Export] = {
    OrdersFormat.SHOPIFY: Shopify(),
    OrdersFormat.WOOCOMMERCE: WooCommerce(),
}


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
    out, because they have no mail address that anybody could write from. `undated` counts those that
    were sent, but the file does not say when, where that was to say when they arrived."""

    orders: tuple[tuple[int, Order], ...]
    left_out: tuple[int, ...] = ()
    undated: int = 0


def parse_orders(data: bytes, reading: Reading) -> OrdersFile:
    """Return every order of a file with its line number (from 1).

    Raises OrdersFileProblem for the first line that is not an order, or an order that comes twice.
    """
    format = reading.format or _recognise(data)
    if format is OrdersFormat.JSON_LINES:
        file = OrdersFile(tuple(parse_json_orders(data)))
    else:
        file = _parse_csv(decode_text(data), _EXPORTS[format], reading)
    seen: dict[str, int] = {}
    for line_no, order in file.orders:
        if order.order_id in seen:
            raise OrdersFileProblem(
                line_no, f"order {order.order_id} stands on line {seen[order.order_id]} already"
            )
        seen[order.order_id] = line_no
    return file


def _recognise(data: bytes) -> OrdersFormat:
    if is_json(data):
        return OrdersFormat.JSON_LINES
    names = header_of(decode_text(data))
    for format, export in _EXPORTS.items():
        if set(export.marks) <= set(names):
            return format
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
            orders.append((line_no, parse_order(record | _delivery(record, sent_at, reading))))
        except OrderProblem as problem:
            raise OrdersFileProblem(line_no, str(problem)) from None
    wanted = reading.delivered_after_days is not None
    return OrdersFile(tuple(orders), tuple(left_out), undated if wanted else 0)


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
