"""Shopify's export of orders (admin, Orders, Export, CSV): a row for each line of an order, of which
only the first has what belongs to the order as a whole.

docs/orders.md says what becomes of each column."""

from __future__ import annotations

from collections.abc import Sequence

from mailagent.adapters.order_files.csv_rows import CsvRow
from mailagent.adapters.order_files.export import Amounts, Export
from mailagent.domain.money import Money
from mailagent.domain.refunds.order import OrderProblem, OrderStatus

_STATUS = {
    "fulfilled": OrderStatus.SHIPPED,
    "": OrderStatus.PENDING,
    "unfulfilled": OrderStatus.PENDING,
    "partial": OrderStatus.PENDING,  # a part of it still has to be sent
    "restocked": OrderStatus.PENDING,  # it lies in the shop again
}
# What was captured of an order by its financial status: all, what is not outstanding, nothing.
_PAID = frozenset({"paid", "partially_refunded", "refunded"})
_PARTLY_PAID = "partially_paid"
_UNPAID = frozenset({"pending", "authorized", "voided", "expired", "unpaid"})


class Shopify(Export):
    system = "shopify"
    marks = ("Name", "Financial Status", "Lineitem quantity")
    needed = (
        "Name,Email,Financial Status,Fulfillment Status,Currency,Subtotal,Shipping,Taxes,Total,"
        "Discount Amount,Created at,Cancelled at,Lineitem quantity,Lineitem name,Lineitem price,"
        "Lineitem sku,Payment Method,Refunded Amount"
    ).split(",")
    rounded = False
    group = "Name"
    order_id = ("Name",)
    email = "Email"
    customer_name = ("Billing Name",)
    currency = "Currency"
    placed_at = "Created at"
    sent_at = "Fulfilled at"
    status = "Fulfillment Status"
    statuses = _STATUS
    cancelled_at = "Cancelled at"
    quantity = "Lineitem quantity"
    item_name = "Lineitem name"
    sku = "Lineitem sku"
    total = "Total"
    refunded = "Refunded Amount"
    payment_id = ("Payment References", "Payment Reference", "Payment ID")
    method = "Payment Method"

    def check_rows(self, rows: Sequence[CsvRow]) -> None:
        """Refuse a second order of the same name: a row that goes on with one says nothing of its own."""
        for row in rows[1:]:
            if row.text("Financial Status") or row.text("Total"):
                raise OrderProblem(f"Name: {row.text('Name')!r} comes again on line {row.line_no}")

    def price(self, row: CsvRow, quantity: int, currency: str) -> tuple[int, int]:
        price = self.minor(row, currency, "Lineitem price")
        discount = self.minor(row, currency, "Lineitem discount")
        if discount > quantity * price:
            raise OrderProblem(
                f"Lineitem discount: {Money(discount, currency)} off"
                f" {Money(quantity * price, currency)}"
            )
        return price, discount

    def amounts(self, row: CsvRow, net: Sequence[int], currency: str) -> Amounts:
        """Return discount, shipping and tax. They must add up: the lines less their discounts to the
        subtotal, and that with shipping, and taxes where they come on top, to the total.

        The discount is what the lines cost above the subtotal: "Discount Amount" may also have been given
        on the carriage, and counts what the lines say themselves.
        """
        subtotal, shipping, taxes, duties, total, most = (
            self.minor(row, currency, column)
            for column in ("Subtotal", "Shipping", "Taxes", "Duties", "Total", "Discount Amount")
        )
        goods = sum(net)
        if not 0 <= goods - subtotal <= most:
            raise OrderProblem(
                f"Subtotal: {Money(subtotal, currency)}, but the lines come to"
                f" {Money(goods, currency)} and the discount is {Money(most, currency)}"
            )
        untaxed = subtotal + shipping
        if total not in (untaxed, untaxed + duties, untaxed + taxes + duties):
            raise OrderProblem(
                f"Total: {Money(total, currency)}, but subtotal and shipping come to"
                f" {Money(untaxed, currency)}, and with taxes to"
                f" {Money(untaxed + taxes + duties, currency)}"
            )
        return Amounts(goods - subtotal, shipping, total - untaxed)

    def paid(self, row: CsvRow, total: int, refunded: int, currency: str) -> int:
        status = row.text("Financial Status")
        if status in _PAID:
            return total
        if status in _UNPAID:
            return 0
        if status != _PARTLY_PAID:
            raise OrderProblem(f"Financial Status: {status!r} is not known")
        if not row.text("Outstanding Balance"):
            raise OrderProblem("Outstanding Balance: is missing, although it is partially_paid")
        outstanding = self.minor(row, currency, "Outstanding Balance")
        if outstanding > total:
            raise OrderProblem(
                f"Outstanding Balance: is above the total of {Money(total, currency)}"
            )
        return total - outstanding
