"""Parses CSV exports of shop systems. Consecutive rows are one order; a map of columns makes them a record.

`shops` has the columns and rules of each shop system."""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from mailagent.domain.money import Money, exponent, parse_currency
from mailagent.domain.refunds.order import (
    OrderProblem,
    OrderStatus,
    imported_method,
    item_ids,
    parse_instant,
)

# A cell has at most the csv module's own 131,072 characters.
MOST_ROWS_OF_ORDER = 1_000

_DECIMAL = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,20})?")
_WHOLE = re.compile(r"[0-9]{1,7}")
_SPACE_BEFORE_OFFSET = re.compile(r" (?=[+-][0-9]{2}:?[0-9]{2}$)")


class OrdersFileProblem(ValueError):
    """A line of the file cannot be read; the text says which line and what to change."""

    def __init__(self, line_no: int, text: str) -> None:
        super().__init__(f"line {line_no}: {text}")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row. `line_no`: the line on which it begins, from 1. A row has several lines if a quoted cell has."""

    line_no: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return a cell without the spaces around it; an empty text if there is no such column."""
        return self.cells.get(column, "").strip()

    def any_text(self, *columns: str) -> str:
        """Return the first of these cells that is not empty; an empty text if all are."""
        return next(filter(None, map(self.text, columns)), "")


def decode_text(data: bytes) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line_no = data.count(b"\n", 0, problem.start) + 1
        raise OrdersFileProblem(line_no, "is not UTF-8; save the file as UTF-8") from None


def header_of(text: str) -> tuple[str, ...]:
    """Return the names in the first line of a CSV text, or none if that is not CSV."""
    try:
        first = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
    except csv.Error:
        return ()
    return tuple(name.strip() for name in first)


def parse_rows(text: str, needed: Sequence[str]) -> Iterator[CsvRow]:
    """Yield the rows below the header; empty lines are skipped.

    Raises OrdersFileProblem if a `needed` column is missing, the quoting is broken, or a row has more or fewer
    cells than the header.
    """
    header = header_of(text)
    _check_header(header, needed)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begins = 1
    try:
        for number, cells in enumerate(reader):
            if number and cells:
                yield _row(begins, header, cells)
            begins = reader.line_num + 1
    except csv.Error as problem:
        raise OrdersFileProblem(begins, f"is not CSV ({problem})") from None


def _check_header(header: Sequence[str], needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in header]
    if missing:
        raise OrdersFileProblem(1, f"the column {missing[0]!r} is missing")
    twice = [name for name in needed if header.count(name) > 1]
    if twice:
        raise OrdersFileProblem(1, f"the column {twice[0]!r} stands twice")


def _row(line_no: int, header: Sequence[str], cells: Sequence[str]) -> CsvRow:
    if len(cells) != len(header):
        raise OrdersFileProblem(
            line_no, f"has {len(cells)} cells, but the header has {len(header)}"
        )
    return CsvRow(line_no, dict(zip(header, cells, strict=True)))


def group_rows(rows: Iterator[CsvRow], column: str) -> Iterator[list[CsvRow]]:
    """Yield the rows of each order: consecutive rows with the same text in `column`."""
    group: list[CsvRow] = []
    for row in rows:
        if not row.text(column):
            raise OrdersFileProblem(row.line_no, f"{column}: is empty")
        if group and row.text(column) != group[0].text(column):
            yield group
            group = []
        group.append(row)
        if len(group) > MOST_ROWS_OF_ORDER:
            raise OrdersFileProblem(row.line_no, f"an order has at most {MOST_ROWS_OF_ORDER} rows")
    if group:
        yield group


def parse_minor(row: CsvRow, currency: str, *columns: str, rounded: bool) -> int:
    """Return the sum of amounts in minor units; an empty cell counts as 0.

    `rounded`: round decimals that the currency does not have, halves away from zero; otherwise refuse them
    unless they are zeros. Raises OrderProblem.
    """
    amount = Decimal(0)
    for column in columns:
        text = row.text(column) or "0"
        if not _DECIMAL.fullmatch(text):
            raise OrderProblem(f"{column}: {text!r} is not an amount like 49.99")
        amount += Decimal(text).scaleb(exponent(currency))
    minor = int(amount.quantize(Decimal(1), ROUND_HALF_UP))
    if minor != amount and not rounded:
        told = row.text(columns[0])
        raise OrderProblem(f"{columns[0]}: {told!r} is not an amount in {currency}")
    return minor


def parse_quantity(row: CsvRow, column: str) -> int:
    """Return a whole number from 1. Raises OrderProblem."""
    text = row.text(column)
    if not _WHOLE.fullmatch(text) or not int(text):
        raise OrderProblem(f"{column}: {text!r} is not a whole number from 1")
    return int(text)


def parse_moment(row: CsvRow, column: str, zone: ZoneInfo | None) -> datetime | None:
    """Return a time such as 2026-11-01 09:00:00 -0500, in UTC; None for an empty cell.

    A time without an offset is in `zone`. Raises OrderProblem, also for such a time if `zone` is None.
    """
    text = row.text(column)
    try:
        plain = _SPACE_BEFORE_OFFSET.sub("", text)
        return parse_instant(plain, zone, "name the shop's own with --timezone") if text else None
    except ValueError as problem:
        raise OrderProblem(f"{column}: {problem}") from None


# --- records --------------------------------------------------------------------------------------


class Amounts(NamedTuple):
    """The amounts of an order as a whole, in minor units."""

    discount: int
    shipping: int
    tax: int


class Export(ABC):
    """The export of one shop system: the meaning of its columns, and its rules.

    If several columns have the same meaning, the first one that is not empty counts. Methods raise
    OrderProblem, which names the column.
    """

    system: str  # begins the ids of payments that have none
    marks: tuple[str, ...]  # columns that tell this export from any other file
    needed: Sequence[str]  # all that a file must have
    rounded: bool  # whether amounts may have more decimals than the currency
    group: str  # the same in all rows of one order
    order_id: tuple[str, ...]
    email: str
    customer_name: tuple[str, ...]  # joined by spaces
    currency: str
    placed_at: str
    sent_at: str
    status: str
    statuses: Mapping[str, OrderStatus]
    cancelled_at: str | None = None
    quantity: str
    item_name: str
    sku: str
    no_sku: str = ""  # what stands there if a product has none
    total: str
    refunded: str
    payment_id: tuple[str, ...]
    method: str

    @abstractmethod
    def check_rows(self, rows: Sequence[CsvRow]) -> None:
        """Raise OrderProblem if the rows are not one order."""

    @abstractmethod
    def price(self, row: CsvRow, quantity: int, currency: str) -> tuple[int, int]:
        """Return the price of one unit and the discount off the whole line, in minor units."""

    @abstractmethod
    def amounts(self, row: CsvRow, net: Sequence[int], currency: str) -> Amounts:
        """Return the amounts of the order as a whole. `net`: what each line costs, in minor units."""

    @abstractmethod
    def paid(self, row: CsvRow, total: int, refunded: int, currency: str) -> int:
        """Return how much of the total was paid, in minor units."""

    def minor(self, row: CsvRow, currency: str, *columns: str) -> int:
        """Return the sum of amounts in minor units. Raises OrderProblem if it is below 0."""
        minor = parse_minor(row, currency, *columns, rounded=self.rounded)
        if minor < 0:
            raise OrderProblem(f"{columns[0]}: is below 0")
        return minor

    def build_record(
        self, rows: Sequence[CsvRow], zone: ZoneInfo | None
    ) -> tuple[dict[str, Any], datetime | None]:
        """Return the record of one order, without `delivered_at`, and when it was sent; None if unknown.

        Raises OrderProblem, which names the column; for a problem in a later row, OrdersFileProblem.
        """
        first = rows[0]
        self.check_rows(rows)
        currency = self._currency(first)
        lines = [self._line(row, currency) for row in rows]
        items = [item for item, _ in lines]
        names = item_ids(
            (str(item["item_id"]), (item["name"], item["unit_price"]), number)
            for number, item in enumerate(items, start=1)
        )
        amounts = self.amounts(first, [net for _, net in lines], currency)
        placed = parse_moment(first, self.placed_at, zone)
        if placed is None:
            raise OrderProblem(f"{self.placed_at}: is empty")
        name = " ".join(filter(None, map(first.text, self.customer_name)))
        record = {
            "order_id": first.any_text(*self.order_id),
            "customer": {"email": first.text(self.email), "name": name},
            "currency": currency,
            "placed_at": placed.isoformat(),
            "status": self._status(first).value,
            "items": [
                item | {"item_id": item_id} for item, item_id in zip(items, names, strict=True)
            ],
            "payments": self._payments(first, currency),
        }
        record |= {key: _decimal(minor, currency) for key, minor in amounts._asdict().items()}
        return record, parse_moment(first, self.sent_at, zone)

    def _currency(self, row: CsvRow) -> str:
        try:
            return parse_currency(row.text(self.currency))
        except ValueError as problem:
            raise OrderProblem(f"{self.currency}: {problem}") from None

    def _status(self, row: CsvRow) -> OrderStatus:
        if self.cancelled_at and row.text(self.cancelled_at):
            return OrderStatus.CANCELLED
        status = row.text(self.status)
        if status not in self.statuses:
            raise OrderProblem(f"{self.status}: {status!r} is not known")
        return self.statuses[status]

    def _line(self, row: CsvRow, currency: str) -> tuple[dict[str, object], int]:
        """Return the record of one line, and what it costs, in minor units."""
        name, sku = " ".join(row.text(self.item_name).split()), row.text(self.sku)
        try:
            quantity = parse_quantity(row, self.quantity)
            price, discount = self.price(row, quantity, currency)
        except OrderProblem as problem:
            raise OrdersFileProblem(row.line_no, str(problem)) from None
        item = {
            # A product without an SKU is identified by its name.
            "item_id": name if sku in ("", self.no_sku) else sku,
            "name": name,
            "quantity": quantity,
            "unit_price": _decimal(price, currency),
            "discount": _decimal(discount, currency),
        }
        return item, quantity * price - discount

    def _payments(self, row: CsvRow, currency: str) -> list[dict[str, str]]:
        """Return what was paid as one payment, even if a gift card and a card paid together: exports do not
        have the amount of each."""
        refunded = self.minor(row, currency, self.refunded)
        paid = self.paid(row, self.minor(row, currency, self.total), refunded, currency)
        if refunded > paid:
            raise OrderProblem(
                f"{self.refunded}: {Money(refunded, currency)} of the {Money(paid, currency)} paid"
            )
        if not paid:
            return []
        return [
            {
                "payment_id": row.any_text(*self.payment_id)
                or f"{self.system} {row.text(self.group)}",
                "method": imported_method(row.text(self.method)),
                "amount": _decimal(paid, currency),
                "refunded": _decimal(refunded, currency),
            }
        ]


def _decimal(minor: int, currency: str) -> str:
    return Money(minor, currency).decimal()
