"""What the order exports of all shop systems share: an order's record, made by a map of columns.

The columns of one system and its own rules are in `shopify` and `woocommerce`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from mailagent.adapters.order_files.csv_rows import (
    CsvRow,
    OrdersFileProblem,
    parse_minor,
    parse_moment,
    parse_quantity,
)
from mailagent.domain.money import Money, parse_currency
from mailagent.domain.refunds.order import OrderProblem, OrderStatus, imported_method


class Amounts(NamedTuple):
    """What belongs to an order as a whole, in minor units."""

    discount: int
    shipping: int
    tax: int


class Export(ABC):
    """The export of one shop system: which column holds what, and its rules.

    Of several columns for one thing the first that is not empty counts. Rules raise OrderProblem naming
    the column.
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
        """Refuse rows that are not one order."""

    @abstractmethod
    def price(self, row: CsvRow, quantity: int, currency: str) -> tuple[int, int]:
        """Return the price of one unit and the discount off the whole line, in minor units."""

    @abstractmethod
    def amounts(self, row: CsvRow, net: Sequence[int], currency: str) -> Amounts:
        """Return what belongs to the order as a whole; `net` is what each line costs."""

    @abstractmethod
    def paid(self, row: CsvRow, total: int, refunded: int, currency: str) -> int:
        """Return how much of the total was paid, in minor units."""

    def minor(self, row: CsvRow, currency: str, *columns: str) -> int:
        """Return the sum of amounts in minor units, from 0."""
        minor = parse_minor(row, currency, *columns, rounded=self.rounded)
        if minor < 0:
            raise OrderProblem(f"{columns[0]}: is below 0")
        return minor

    def build_record(
        self, rows: Sequence[CsvRow], zone: ZoneInfo | None
    ) -> tuple[dict[str, Any], datetime | None]:
        """Return the record of one order, without `delivered_at`, and when it was sent if that is known.

        Raises OrderProblem naming the column, and OrdersFileProblem where it is in a later row.
        """
        first = rows[0]
        self.check_rows(rows)
        currency = self._currency(first)
        lines = [self._line(row, currency) for row in rows]
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
            "items": [item for item, _ in lines],
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
        """Return the record of one line, and what it costs."""
        name, sku = " ".join(row.text(self.item_name).split()), row.text(self.sku)
        try:
            quantity = parse_quantity(row, self.quantity)
            price, discount = self.price(row, quantity, currency)
        except OrderProblem as problem:
            raise OrdersFileProblem(row.line_no, str(problem)) from None
        item = {
            # Products without an SKU are told apart by their names.
            "item_id": name if sku in ("", self.no_sku) else sku,
            "name": name,
            "quantity": quantity,
            "unit_price": _decimal(price, currency),
            "discount": _decimal(discount, currency),
        }
        return item, quantity * price - discount

    def _payments(self, row: CsvRow, currency: str) -> list[dict[str, str]]:
        """Return what was paid as one payment, also where a gift card and a card paid together: exports
        have no amount of each."""
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
